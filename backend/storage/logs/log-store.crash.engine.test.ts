import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { nanosecondsOf, signingKey } from "../../ingest/otlp/otlp-body.fixture.ts";
import { numberedBody, untimedBody } from "../../../test/conformance/store-crash.fixture.ts";
import { openStores } from "../../../test/conformance/telemetry-stores.ts";
import { expectExactSummaries } from "../../../test/fixtures/exact-summaries.ts";

const SENDER = fileURLToPath(new URL("../../../test/conformance/store-crash.fixture.ts", import.meta.url));

it("after SIGKILL, stores every acknowledged body, and every repeated body once", { timeout: 300_000 }, async () => {
  const dir = await mkdtemp(join(tmpdir(), "atherops-crash-"));
  const startNs = nanosecondsOf(new Date());
  let first = 0;
  for (const kills of [20, 45, 70]) {
    const acknowledged = await sendUntil(dir, startNs, first, kills);
    const sent = Math.max(...acknowledged) + 9;
    await using clickhouse = await openClickHouse({ dataDir: dir, log: pino({ level: "silent" }) });
    await using stores = await openStores(clickhouse);
    const stored = async () => {
      const counts = await countsIn(clickhouse);
      return new Map([...counts].map(([message, records]) => [Number(message), records]));
    };
    const before = await stored();
    for (const number of acknowledged) expect(before.get(number)).toBe(numberedBody(number, startNs).records);
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

it("stores a body after SIGKILL that was acknowledged but not inserted once, and recognises it when it is repeated", async () => {
  const dir = await mkdtemp(join(tmpdir(), "atherops-crash-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const startNs = nanosecondsOf(new Date());
  const [, signal] = (await once(spawn(process.execPath, [SENDER, dir, String(startNs), "0", "itself"]), "exit")) as unknown[];
  expect(signal).toBe("SIGKILL");
  const [folder, copy] = [join(dir, "journal", "logs"), join(dir, "copy")];
  await cp(folder, copy, { recursive: true });
  const expected = new Map([
    ...Array.from({ length: 8 }, (_, number) => [`${number}`, numberedBody(number, startNs).records] as const),
    ["untimed", 1] as const,
  ]);
  {
    await using clickhouse = await openClickHouse({ dataDir: dir, log: pino({ level: "silent" }) });
    expect(await countsIn(clickhouse)).toEqual(new Map());
    await using stores = await openStores(clickhouse);
    expect(await countsIn(clickhouse)).toEqual(expected);
    for (const number of Array.from({ length: 8 }).keys())
      await stores.ingestLogs(signingKey("org"), numberedBody(number, startNs).body, { receivedAt: new Date() });
    expect(await countsIn(clickhouse)).toEqual(expected);
    await expect.poll(async () => (await readdir(folder)).filter((name) => name.endsWith(".journal"))).toEqual([]);
  }
  // Simulates a kill between the commit and the removal of the journal file.
  await cp(copy, folder, { recursive: true });
  await using clickhouse = await openClickHouse({ dataDir: dir, log: pino({ level: "silent" }) });
  await using stores = await openStores(clickhouse);
  expect(await countsIn(clickhouse)).toEqual(expected);
  await stores.ingestLogs(signingKey("org"), untimedBody(), { receivedAt: new Date() });
  expect(await countsIn(clickhouse)).toEqual(new Map([...expected, ["untimed", 2]]));
});

/** Message → how many records have it. The summaries must have as many. */
async function countsIn(clickhouse: ClickHouse): Promise<Map<string, number>> {
  const rows = await clickhouse.query<{ message: string; records: string }>(
    sql`SELECT message, count() AS records FROM logs GROUP BY message ORDER BY message`,
  );
  const counts = new Map(rows.map(({ message, records }) => [message, Number(records)]));
  expect(await expectExactSummaries(clickhouse)).toBe([...counts.values()].reduce((sum, records) => sum + records, 0));
  return counts;
}

/** Kills the sender right after its `count`th acknowledgement; what else it printed before it died counts too. */
async function sendUntil(dir: string, startNs: bigint, first: number, count: number): Promise<number[]> {
  const sender = spawn(process.execPath, [SENDER, dir, String(startNs), String(first)], { stdio: ["ignore", "pipe", "inherit"] });
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
