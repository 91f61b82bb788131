// Sends numbered bodies to the embedded store in the folder of its first argument, eight at a time, until it is killed, and prints each
// number once the body is acknowledged. On request, it kills itself as soon as one more body of each kind is acknowledged, before the
// engine can have stored it. log-store.crash.engine.test.ts runs and kills it.
import { pino } from "pino";
import { openClickHouse } from "../../backend/engines/clickhouse/clickhouse-client.ts";
import { migrate } from "../../backend/engines/clickhouse/migrate.ts";
import { logRecord, logsBody, signingKey } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { openStores } from "./telemetry-stores.ts";

const DAY_NS = 86_400_000_000_000n;

/** Body `number` of a run that started at `startNs`: over two days, alternating between small and large. */
export function numberedBody(number: number, startNs: bigint): { body: Buffer; records: number } {
  const records = number % 4 === 0 ? 1500 : 10;
  const at = (index: number) => startNs - BigInt(index % 2) * DAY_NS - BigInt(number * 10_000 + index);
  return { body: logsBody(Array.from({ length: records }, (_, index) => logRecord(at(index), `${number}`))), records };
}

/** Its record has no time, so it is stored each time it arrives. */
export function untimedBody(): Buffer {
  return logsBody([{ body: { stringValue: "untimed" } }]);
}

if (process.argv[1]?.endsWith("store-crash.fixture.ts")) await sendUntilKilled();

async function sendUntilKilled(): Promise<void> {
  const [, , dataDir = "", startNs = "0", first = "0", itself] = process.argv;
  const log = pino({ level: "silent" });
  const clickhouse = await openClickHouse({ dataDir, log });
  await migrate(clickhouse, log);
  const stores = await openStores(clickhouse);
  let next = Number(first);
  if (itself) {
    const bodies = [...Array.from({ length: 8 }, (_, number) => numberedBody(number, BigInt(startNs)).body), untimedBody()];
    await Promise.all(bodies.map((body) => stores.ingestLogs(signingKey("org"), body, { receivedAt: new Date() })));
    process.kill(process.pid, "SIGKILL");
  }
  const send = async (): Promise<void> => {
    for (;;) {
      const number = next++;
      await stores.ingestLogs(signingKey("org"), numberedBody(number, BigInt(startNs)).body, { receivedAt: new Date() });
      process.stdout.write(`${number}\n`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, send));
}
