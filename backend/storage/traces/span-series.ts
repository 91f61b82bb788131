// Computes span metrics as Prometheus series with the names that Grafana and Tempo use: traces_spanmetrics_* and
// traces_service_graph_*. They are counters since the start of the UTC day, computed from the summaries, so writing them needs no state: a
// late span counts once it has arrived, and every replica would write the same values. Invariant: each bucket limit is a power of two
// milliseconds, where the histogram also has a border, so bucket counts are exact.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import { summedEdges } from "./graph.ts";
import { BUCKETS_PER_DOUBLING } from "./span-histogram.ts";
import { minuteGroups, type MinuteRange } from "./red.ts";

/** 2 ms to 16.384 s, the limits that Tempo uses. */
const LIMIT_EXPONENTS = Array.from({ length: 14 }, (_, index) => index + 1);
/** Values of `le`. The smallest limit that includes a span of bucket n has the exponent n / 4, rounded up. */
export const BUCKET_LIMITS: readonly string[] = [...LIMIT_EXPONENTS.map((exponent) => `${2 ** exponent / 1000}`), "+Inf"];
export const LATENCY = "traces_spanmetrics_latency";
/** Maximum number of groups of an organisation that become series; those with the most calls are chosen. */
export const MAX_GROUPS = 1000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** The lines of exposition text of one group; either all of them are written or none. */
export type SeriesGroup = string;

/** The counters of a group at zero, before its first calls. */
export function atZero(group: SeriesGroup): SeriesGroup {
  return group.replaceAll(/(?<=\} )[^ \n]+$/gm, "0");
}

interface Histogram {
  readonly calls: number;
  readonly total_ns: number;
  readonly histogram: Readonly<Record<string, string>>;
}

interface SpanGroup extends Histogram {
  readonly service: string;
  readonly operation: string;
  readonly kind: string;
  readonly status_code: string;
}

interface EdgeGroup extends Histogram {
  readonly client: string;
  readonly server: string;
  readonly connection: string;
  readonly failed: number;
}

export async function spanSeries(ask: Ask, orgId: string, range: MinuteRange): Promise<SeriesGroup[]> {
  const groups = minuteGroups(orgId, {
    ...range,
    keys: () => sql`service, operation, kind`,
    groupBy: sql`service, operation, kind`,
    conditions: () => [],
    copiesUntilS: 0,
  });
  const rows = await read<SpanGroup>(
    ask,
    sql`SELECT service, operation, kind, status_code, toFloat64(n) AS calls, total_ns, histogram FROM (${groups})
      ORDER BY calls DESC, service, operation, kind, status_code LIMIT ${MAX_GROUPS}`,
  );
  return rows.map((row) => {
    const labels = labelsOf({
      service: row.service,
      span_name: row.operation,
      span_kind: `SPAN_KIND_${row.kind}`,
      status_code: `STATUS_CODE_${row.status_code || "UNSET"}`,
    });
    return `traces_spanmetrics_calls_total{${labels}} ${row.calls}\n${histogramLines(LATENCY, labels, row)}`;
  });
}

export async function edgeSeries(ask: Ask, orgId: string, range: MinuteRange): Promise<SeriesGroup[]> {
  const rows = await read<EdgeGroup>(
    ask,
    sql`SELECT client, server, connection, toFloat64(calls) AS calls, toFloat64(failed) AS failed, total_ns, histogram
      FROM (${summedEdges(orgId, range)}) ORDER BY calls DESC, client, server, connection LIMIT ${MAX_GROUPS}`,
  );
  return rows.map((row) => {
    const { client, server, connection } = row;
    const labels = labelsOf({ client, server, ...(connection !== "" && { connection_type: CONNECTION_TYPES[connection] ?? connection }) });
    const counters = `traces_service_graph_request_total{${labels}} ${row.calls}\ntraces_service_graph_request_failed_total{${labels}} ${row.failed}\n`;
    return counters + histogramLines("traces_service_graph_request_server_seconds", labels, row);
  });
}

/** The names that Tempo uses. */
const CONNECTION_TYPES: Readonly<Record<string, string>> = {
  messaging: "messaging_system",
  queue: "messaging_system",
  external: "virtual_node",
};

async function read<Row>(ask: Ask, statement: Parameters<Ask>[0]): Promise<Row[]> {
  return parseLines(await ask(statement, MAX_ANSWER_BYTES));
}

function histogramLines(name: string, labels: string, { calls, total_ns: totalNs, histogram }: Histogram): string {
  const counts = Object.entries(histogram).map(([bucket, count]) => [Number(bucket), Number(count)] as const);
  const below = LIMIT_EXPONENTS.map((exponent, index) => {
    const last = exponent * BUCKETS_PER_DOUBLING;
    const count = counts.reduce((sum, [bucket, spans]) => (bucket <= last ? sum + spans : sum), 0);
    return `${name}_bucket{${labels},le="${BUCKET_LIMITS[index]}"} ${count}\n`;
  });
  return `${below.join("")}${name}_bucket{${labels},le="+Inf"} ${calls}\n${name}_sum{${labels}} ${totalNs / 1e9}\n${name}_count{${labels}} ${calls}\n`;
}

export const MAX_VALUE_CHARACTERS = 512;

function labelsOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([label, value]) => `${label}="${escapeLabelValue(value.slice(0, MAX_VALUE_CHARACTERS))}"`)
    .join(",");
}

/** Removes NUL and other control characters, which labels cannot contain. */
function escapeLabelValue(value: string): string {
  return value
    .replaceAll(/[\u0000-\u0009\u000b-\u001f\u007f]/g, " ")
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
