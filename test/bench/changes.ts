// `npm run bench -- changes`: time of GET /query/changes over an hour of 6 million log records and 1 million spans, compared with the hour
// before it, which has as many. Target: 1 s.
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import { sql, type Sql } from "../../backend/engines/clickhouse/sql.ts";
import { openChangesApp } from "../fixtures/changes-app.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "6000000" },
    spans: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "5" },
  },
});
const [records, spans, rounds] = [Number(values.records), Number(values.spans), Number(values.rounds)];
const CHUNK = 1_000_000;
const endS = Math.floor(Date.now() / 60_000) * 60;
const startS = endS - 7200;
const orgId = randomUUID();
await using app = await openChangesApp();

/** Rows of both hours, spread evenly over time. */
async function insert(rows: number, statement: (from: number, count: number, time: Sql) => Sql): Promise<void> {
  const total = 2 * rows;
  for (let from = 0; from < total; from += CHUNK) {
    const number = sql`(number + ${from})`;
    const time = sql`fromUnixTimestamp64Nano(toInt64(${startS}) * 1000000000 + intDiv(toInt64(${number}) * 7200000000, ${total}) * 1000)`;
    await app.clickhouse.command(statement(from, Math.min(CHUNK, total - from), time));
  }
}

const SERVICE = sql`concat('service-', toString(number % 40))`;
await insert(
  records,
  (
    from,
    count,
    time,
  ) => sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, severity_number, source, message, labels)
    SELECT ${orgId}, 'h', concat('node-', toString(number % 20)), now(), ${from + 1}, ${time}, number + ${from},
      multiIf(number % 50 = 0, 'error', number % 20 = 0, 'warn', 'info'), 9, ${SERVICE},
      concat('request ', toString(number % 300), ' of ', toString(cityHash64(number)), ' took ', toString(number % 977), ' ms'),
      map('http.route', concat('/route/', toString(number % 60)))
    FROM numbers(${count})`,
);
await insert(
  spans,
  (
    from,
    count,
    time,
  ) => sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service,
      operation, kind, duration_ns, status_code, attributes)
    SELECT ${orgId}, 'h', 'n', now(), ${from + 1}, ${time}, number + ${from}, lower(hex(cityHash64(number))), lower(hex(number)), '', ${SERVICE},
      concat('GET /route/', toString(number % 60)), 'SERVER', 1000000 * (1 + cityHash64(number) % 900),
      if(number % 40 = 3 AND number + ${from} > ${Math.round(2 * spans - spans / 3)}, 'ERROR', 'UNSET'),
      map('tenant.id', toString(number % 500), 'service.version', '1.2.3')
    FROM numbers(${count})`,
);
await app.flush();

const range = new URLSearchParams({
  start: new Date((endS - 3600) * 1000).toISOString(),
  end: new Date(endS * 1000).toISOString(),
});
const times: number[] = [];
let found = 0;
for (let round = 0; round < rounds; round += 1) {
  const began = performance.now();
  const answer = await app.get(orgId, `/query/changes?${range.toString()}`);
  times.push(performance.now() - began);
  const { changes, missing } = answer.json<{ changes: unknown[]; missing: unknown[] }>();
  if (answer.statusCode !== 200 || missing.length > 0) throw new Error(`${answer.statusCode} ${answer.body.slice(0, 500)}`);
  found = changes.length;
}
const sorted = times.toSorted((a, b) => a - b);
const [first, median] = [times[0] ?? 0, sorted[Math.floor(sorted.length / 2)] ?? 0].map(Math.round);
console.log(`${records} records, ${spans} spans an hour: first ${first} ms, median ${median} ms of ${rounds}, ${found} changes`);
console.log(JSON.stringify({ records, spans, firstMs: first, medianMs: median, changes: found }));
