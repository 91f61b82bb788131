// Exemplars: links from a chart of latencies to slow traces in it. The backend has them for the buckets of traces_spanmetrics_latency.
import type { ApiResponses } from "../../client/api.ts";
import { counted, NameLink, visible } from "../parts/index.ts";
import { call, address, timestampText, type Range, span } from "../state/index.ts";
import { PROMETHEUS } from "./prometheus.ts";

type Answer = ApiResponses["GET /query/prometheus/api/v1/query_exemplars"];

export interface Exemplar {
  readonly atS: number;
  readonly seconds: number;
  readonly traceId: string;
  readonly name: string;
}

const LISTED = 20;
/** Only quantiles have the unit of an exemplar. */
const OF_LATENCY = /\bhistogram_quantile\s*\([\s\S]*\btraces_spanmetrics_latency_bucket\b/;

/** The slowest first. Empty if they cannot be read: the chart is complete without them. */
export async function readExemplars(queries: readonly string[], range: Range, signal: AbortSignal): Promise<Exemplar[]> {
  const times = { start: range.fromMs / 1000, end: range.toMs / 1000 };
  const ask = async (query: string): Promise<NonNullable<Answer["data"]>> => {
    const { data = [] } = await call<Answer>(`${PROMETHEUS}/query_exemplars`, { query: { query, ...times }, signal });
    return data;
  };
  const found = await Promise.all(queries.filter((query) => OF_LATENCY.test(query)).map(ask)).catch(() => []);
  const all = found.flat().flatMap(({ seriesLabels, exemplars }) =>
    exemplars.map(({ labels, value, timestamp }) => ({
      atS: timestamp,
      seconds: Number(value),
      traceId: labels["trace_id"] ?? "",
      name: `${seriesLabels["service"]} ${seriesLabels["span_name"]}`,
    })),
  );
  return all.filter(({ traceId }) => traceId !== "").toSorted((a, b) => b.seconds - a.seconds);
}

export function exemplarAddress({ traceId }: Exemplar): string {
  return address("traces", {}, traceId);
}

export function exemplarText({ seconds, name, atS }: Exemplar): string {
  return `${visible(name)}, ${span(seconds * 1000)}, ${timestampText(atS * 1000)}`;
}

/** The slowest exemplars of a chart as links, for keyboards and screen readers. */
export function ExemplarList({ exemplars }: { exemplars: readonly Exemplar[] }) {
  if (exemplars.length === 0) return null;
  return (
    <details>
      <summary>{counted(exemplars.length, "exemplar")}: requests in this chart, slowest first</summary>
      <ul class="plain-list">
        {exemplars.slice(0, LISTED).map((exemplar) => (
          <li key={`${exemplar.traceId} ${exemplar.atS} ${exemplar.name}`}>
            <NameLink href={exemplarAddress(exemplar)} text={exemplarText(exemplar)} />
          </li>
        ))}
      </ul>
    </details>
  );
}
