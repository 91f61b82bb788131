// Counts the versions of services that spans name, in two ranges. Invariant: only entry spans of evenly spread periods are read.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, or, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { type ComparedRanges, nanoseconds, pageConditions } from "../page.ts";
import { MAX_COMPARED_NAME_CHARACTERS } from "../storage-limits.ts";
import { ENTRY } from "./red.ts";

export interface VersionFilter extends ComparedRanges {
  /** One of this many periods is read. */
  readonly oneOf: number;
}

export interface VersionCount {
  readonly service: string;
  /** The attribute that names the version. */
  readonly attribute: string;
  readonly version: string;
  readonly before: number;
  readonly now: number;
  /** Milliseconds since 1970. */
  readonly first_ms: number;
}

export const VERSION_ATTRIBUTES = ["service.version", "container.image.tag"] as const;
const PERIOD_NS = 5_000_000_000n;
const MAX_VERSIONS = 2000;
const MAX_VERSION_CHARACTERS = 128;

/** VersionCounts as JSON. */
export async function listVersionCounts(ask: Ask, orgId: string, { before, now, oneOf }: VersionFilter): Promise<Buffer> {
  const sampled = oneOf > 1 ? [sql`intDiv(toUnixTimestamp64Nano(time), ${PERIOD_NS}) % ${oneOf} = 0`] : [];
  const where = and([sql`org_id = ${orgId}`, or([before, now].map((range) => and(pageConditions({ range })))), ENTRY, ...sampled]);
  return arrayOfLines(
    await ask(sql`SELECT service_name AS service, attribute, version, toFloat64(countIf(time < ${nanoseconds(now.start)})) AS before,
        toFloat64(countIf(time >= ${nanoseconds(now.start)})) AS now, toFloat64(min(toUnixTimestamp64Milli(time))) AS first_ms FROM (
        SELECT substringUTF8(service, 1, ${MAX_COMPARED_NAME_CHARACTERS}) AS service_name, time, attribute, substringUTF8(attributes[attribute], 1, ${MAX_VERSION_CHARACTERS}) AS version
        FROM spans ARRAY JOIN ${VERSION_ATTRIBUTES} AS attribute WHERE ${where})
      WHERE version != '' GROUP BY service_name, attribute, version ORDER BY now DESC LIMIT ${MAX_VERSIONS}`),
  );
}
