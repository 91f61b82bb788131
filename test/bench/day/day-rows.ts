// Generates the rows of a whole day inside the engine: as many and as wide as real senders would store, for a fifth of the CPU.
import { setTimeout as sleep } from "node:timers/promises";
import type { ClickHouse } from "../../../backend/engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../../../backend/engines/clickhouse/sql.ts";
import { RARE_WORD } from "../questions/records.ts";

/** Settings of one insert: parts of half a million rows, as after a first merge. */
const INSERT_SETTINGS = new Sql(`SETTINGS max_threads = 1, max_insert_threads = 1, max_block_size = 65536,
  min_insert_block_size_rows = 500000, min_insert_block_size_bytes = 1000000000, max_partitions_per_insert_block = 0`);
const MERGES_END_MS = 180_000;

/** Copies of the records that are there, each `stepMs` later than the one before; the rare word stays in the first alone. */
export function copyLogs(copies: number, stepMs: number): Sql[] {
  const columns = sql`org_id, host_id, node, received_at, body_hash, time, id, level, severity_number, source, message, labels, trace_id, span_id, scope_name`;
  return Array.from({ length: copies - 1 }, (_, index) => {
    const copy = index + 1;
    // Rows of the first copy are found by their time: later ones have their own.
    const first = sql`time < (SELECT toStartOfDay(min(time)) FROM logs) + toIntervalMillisecond(${stepMs})`;
    return sql`INSERT INTO logs (${columns}) SELECT org_id, host_id, node, received_at, body_hash + ${copy},
      time + toIntervalMillisecond(${copy * stepMs}), id, level, severity_number, source, replaceAll(message, ${RARE_WORD}, 'zebra'),
      labels, trace_id, span_id, scope_name FROM logs WHERE ${first} ${INSERT_SETTINGS}`;
  });
}

/** Spans of 100 services with 10 operations and 3 kinds, two thirds of them entries, in `inserts` inserts of the order of time. */
export function spansOfDay(orgId: string, startMs: number, total: number, inserts: number): Sql[] {
  const size = Math.floor(total / inserts);
  const stepNs = Math.floor(86_400e9 / total);
  const service = sql`concat('service-', toString(cityHash64(number) % 100))`;
  const names = sql`INSERT INTO span_operations (org_id, service, operation, kind, time)
    SELECT ${orgId}, concat('service-', toString(number % 100)), concat('operation-', toString(intDiv(number, 100) % 10)),
      ['SERVER', 'CLIENT', 'INTERNAL'][intDiv(number, 1000) + 1], now() + 86400 FROM numbers(3000)`;
  const spans = Array.from(
    { length: inserts },
    (_, index) => sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id,
        service, operation, kind, duration_ns, status_code, attributes)
      SELECT ${orgId}, 'host', 'node', fromUnixTimestamp64Milli(toInt64(${startMs}), 'UTC'), intDiv(number, 1000),
        fromUnixTimestamp64Nano(toInt64(${startMs}) * 1000000 + number * ${stepNs}, 'UTC'), number,
        lower(hex(sipHash128(intDiv(number, 6)))), lower(hex(cityHash64(number))),
        if(cityHash64(number, 2) % 3 = 2, '', lower(hex(cityHash64(intDiv(number, 6) * 6)))), ${service},
        concat('operation-', toString(cityHash64(number, 1) % 10)), ['SERVER', 'CLIENT', 'INTERNAL'][cityHash64(number, 2) % 3 + 1],
        toUInt64(exp2(randNormal(0, 2, number)) * 20000000), if(cityHash64(number, 3) % 50 = 0, 'ERROR', ''),
        map('http.route', concat('/api/', toString(cityHash64(number, 1) % 10)), 'http.response.status_code', '200', 'service.version', '1.4.2')
      FROM numbers(${index * size}, ${size}) ${INSERT_SETTINGS}`,
  );
  return [names, ...spans];
}

/** Resolves when no merge runs, or after three minutes. */
export async function mergesEnd(clickhouse: ClickHouse): Promise<void> {
  const endMs = performance.now() + MERGES_END_MS;
  for (let quiet = 0; quiet < 3 && performance.now() < endMs;) {
    const [merges] = await clickhouse.query<{ n: string }>(sql`SELECT count() AS n FROM system.merges`);
    quiet = merges?.n === "0" ? quiet + 1 : 0;
    // Paces the polling; a merge that ends may start another one.
    await sleep(1000);
  }
}
