import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { expect, it } from "vitest";
import { openClickHouse } from "../engines/clickhouse/client.ts";
import { sql } from "../engines/clickhouse/sql.ts";
import { nanosecondsOf, signingKey } from "../ingest/otlp-body.fixture.ts";
import { numberedBody } from "../../test/conformance/store-crash.fixture.ts";
import { openStores } from "../../test/conformance/telemetry-stores.ts";

it("after SIGKILL every acknowledged body is stored, and every body that is sent again is stored once", { timeout: 300_000 }, async () => {
  const dir = await mkdtemp(join(tmpdir(), "atherops-crash-"));
  const startNs = nanosecondsOf(new Date());
  let first = 0;
  for (const kills of [20, 45, 70]) {
    const acknowledged = await sendUntil(dir, startNs, first, kills);
    const sent = Math.max(...acknowledged) + 9;
    await using clickhouse = await openClickHouse({ dataDir: dir, log: pino({ level: "silent" }) });
    const stored = async () => {
      const rows = await clickhouse.query<{ number: string; records: string }>(
        sql`SELECT message AS number, count() AS records FROM logs GROUP BY message`,
      );
      return new Map(rows.map(({ number, records }) => [Number(number), Number(records)]));
    };
    const before = await stored();
    for (const number of acknowledged) expect(before.get(number)).toBe(numberedBody(number, startNs).records);
    await using stores = await openStores(clickhouse);
    // The senders do not know which of the last ones were stored, so they send all of them again.
    const numbers = Array.from({ length: sent }, (_, number) => number);
    const resend = (number: number) => stores.ingestLogs(signingKey("org"), numberedBody(number, startNs).body, { receivedAt: new Date() });
    await Promise.all(numbers.map(resend));
    const after = await stored();
    expect(numbers.map((number) => after.get(number))).toEqual(numbers.map((number) => numberedBody(number, startNs).records));
    first = sent;
  }
  await rm(dir, { recursive: true, force: true });
});

/** Kills the sender right after its `count`th acknowledgement; what else it printed before it died counts too. */
async function sendUntil(dir: string, startNs: bigint, first: number, count: number): Promise<number[]> {
  const program = fileURLToPath(new URL("../../test/conformance/store-crash.fixture.ts", import.meta.url));
  const sender = spawn(process.execPath, [program, dir, String(startNs), String(first)], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(sender, "exit");
  const acknowledged: number[] = [];
  for await (const line of createInterface({ input: sender.stdout })) {
    acknowledged.push(Number(line));
    if (acknowledged.length === count) sender.kill("SIGKILL");
  }
  await exited;
  expect(acknowledged.length).toBeGreaterThanOrEqual(count);
  return acknowledged;
}
