import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { stub } from "../../../test/fixtures/stub.ts";
import type { LogCalls } from "../../engines/append-log/append-log.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { Insert } from "../../engines/clickhouse/engine.ts";
import type { NativeColumns } from "../../engines/clickhouse/native-block.ts";
import { columnsIdOf, RowJournal } from "../../engines/clickhouse/row-journal.ts";
import type { Sql } from "../../engines/clickhouse/sql.ts";
import { ApiError } from "../../errors.ts";
import { OnceWriter } from "./once-writer.ts";
import type { StoredDay } from "./stored-days.ts";

const COLUMNS: NativeColumns = [
  ["received_at", "constant DateTime"],
  ["id", "UInt64"],
];
const DAY = 20_000;
const AWAY = new ApiError("storage_unavailable", "away");
const BODY = {
  orgId: "org",
  hostId: "host",
  bodyHash: "1",
  sections: [{ day: DAY, count: 1, bytes: new Uint8Array(12), streamLengths: [4, 8] }],
};

function newFolder(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return folder.path;
}

/** A writer with an engine that is away at first. */
async function opened(folder: string, calls: Partial<LogCalls> = {}) {
  const table: StoredDay[] = [];
  const engine = { isAway: true };
  await using stack = new AsyncDisposableStack();
  const journal = stack.use(new RowJournal(folder, calls));
  const clickhouse = stub<ClickHouse>({
    shards: [""],
    pending: { log: pino({ level: "silent" }), openJournal: () => journal, add: () => undefined, delete: () => undefined },
    query: async ({ text }: Sql) => (text.includes("toStartOfMinute") ? [{ minutes: "0", from_s: "0" }] : [...table]),
    insert: async ({ rows }: Insert) => {
      await setImmediate();
      if (engine.isAway) throw AWAY;
      table.push(...rows.map(() => ({ org_id: "org", host_id: "host", body_hash: "1", day: DAY })));
    },
  });
  const writer = stack.use(await OnceWriter.open(clickhouse, "logs", COLUMNS));
  const closing = stack.move();
  return { writer, table, engine, [Symbol.asyncDispose]: () => closing.disposeAsync() };
}

it("acknowledges no repetition of a body that may be only in the page cache before the engine has it", async () => {
  const folder = newFolder();
  await using earlier = new RowJournal(folder);
  const { sections, ...sender } = BODY;
  for (const { day, ...rows } of sections) await earlier.append({ ...sender, day, columnsId: columnsIdOf(COLUMNS), rows });
  await using store = await opened(folder, { sync: () => Promise.reject(new Error("EIO")) });
  await expect(store.writer.write(BODY)).rejects.toThrow("the journal cannot be written");
  store.engine.isAway = false;
  await expect.poll(() => store.writer.write(BODY).catch((error: unknown) => error)).toBeUndefined();
  expect(store.table).toHaveLength(1);
});

it("acknowledges a repetition of a body that is in the journal on disk while the engine is away", async () => {
  const folder = newFolder();
  {
    await using earlier = await opened(folder);
    await earlier.writer.write(BODY);
  }
  await using store = await opened(folder);
  await store.writer.write(BODY);
  expect(store.table).toEqual([]);
});
