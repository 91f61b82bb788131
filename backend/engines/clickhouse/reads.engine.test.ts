// Tenants' queries on the real engine, embedded and over HTTP: turns, cancellation, limits. Slow queries of this test never end by
// themselves within its time, so their end proves the cancellation.
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type BothWays, openBothWays } from "./both-ways.fixture.ts";
import { sql, Sql } from "./sql.ts";

const SLOW = sql`SELECT count() AS n FROM numbers(1000000000000) WHERE sipHash64(number) = 5`;
const QUICK = sql`SELECT 1 AS n`;
/** So many run at once for one organisation, and so many more wait. */
const [RUN, WAIT] = [2, 16];

describe("tenants' queries", () => {
  const stopping = new AbortController();
  let clients: BothWays;

  beforeAll(async () => {
    clients = await openBothWays({ threads: 8, stopping: stopping.signal });
  });

  afterAll(async () => await clients[Symbol.asyncDispose]());

  const underWay = async (): Promise<number> => {
    const [row] = await clients.embedded.query<{ n: string }>(
      sql`SELECT count() AS n FROM system.processes WHERE query LIKE ${"%numbers(1000000000000)%"} AND Settings['log_comment'] != ''`,
    );
    return Number(row?.n);
  };
  const becomes = (wanted: number) => expect.poll(underWay, { timeout: 50_000, interval: 20 }).toBe(wanted);
  const outcome = (work: Promise<unknown>) =>
    work.then(String, (error: { code?: string; message?: string }) => error.code ?? error.message);

  it.each(["embedded", "http"] as const)("%s: return JSON lines, limited in bytes and memory", async (name) => {
    const rows = (statement: Sql, bytes?: number) => clients[name].read("org", { labelLimits: undefined }, (ask) => ask(statement, bytes));
    expect((await rows(sql`SELECT ${"ü/'\n"} AS a, toUInt64(1) AS b`)).toString()).toBe('{"a":"ü/\'\\n","b":"1"}\n');
    expect((await rows(sql`SELECT 1 WHERE 0`)).length).toBe(0);
    for (const [statement, bytes] of [
      [sql`SELECT number FROM numbers(100000)`, 1000],
      [sql`SELECT groupArray(number) FROM numbers(200000000)`, 0],
      [new Sql(`SELECT ${"number, ".repeat(60_000)} 1 FROM numbers(1)`), 0],
      [new Sql(`SELECT ${"1, ".repeat(200_000)} 1`), 0],
    ] as const) {
      await expect(rows(statement, bytes)).rejects.toMatchObject({ name: "ApiError", code: "query_too_expensive", status: 400 });
    }
    await expect(rows(sql`SELECT * FROM logs`)).rejects.toMatchObject({ code: "storage_unavailable", status: 502 });
  });

  it("commit once what was acknowledged before they began, not what arrives between their statements", async () => {
    const { pending } = clients.embedded;
    let commits = 0;
    const rest = { bytes: 1, failingMs: undefined, deadLetters: 0, dropped: 0 };
    const tables = ["logs", "spans"].map((table) => ({ table, ...rest, flush: async () => void (commits += 1) }));
    for (const table of tables) pending?.add(table);
    onTestFinished(() => tables.forEach((table) => pending?.delete(table)));
    const commitsAfter = await clients.embedded.read("org", { labelLimits: undefined }, async (ask) => {
      const after: number[] = [];
      for (const table of ["logs", "logs", "spans", "logs"]) {
        await outcome(ask(sql`SELECT 1 FROM ${new Sql(table)} WHERE org_id = ${"org"}`));
        after.push(commits);
      }
      return after;
    });
    expect(commitsAfter).toEqual([1, 1, 2, 2]);
  });

  it("wait for the commit of acknowledged rows within their time limit, and release their slots", async () => {
    const { pending, reads } = clients.embedded;
    const hangs = {
      table: "logs",
      bytes: 1,
      failingMs: undefined,
      deadLetters: 0,
      dropped: 0,
      flush: () => new Promise<void>(() => undefined),
    };
    pending?.add(hangs);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
      pending?.delete(hangs);
    });
    const read = outcome(clients.embedded.read("org", { labelLimits: undefined }, (ask) => ask(sql`SELECT 1 FROM logs`)));
    await vi.advanceTimersByTimeAsync(14_000);
    expect(reads.running).toBe(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect([reads.running, await Promise.race([read, Promise.resolve("nothing")])]).toEqual([0, "storage_unavailable"]);
  });

  it.each(["embedded", "http"] as const)("%s: end in the engine, and release their slots, if their clients disconnect", async (name) => {
    const gone = new AbortController();
    const left = new Error("left");
    const slow = Array.from({ length: RUN + WAIT }, () =>
      outcome(clients[name].read("a", { signal: gone.signal, labelLimits: undefined }, (ask) => ask(SLOW))),
    );
    await becomes(RUN);
    await expect(clients[name].read("a", { labelLimits: undefined }, (ask) => ask(QUICK))).rejects.toMatchObject({
      code: "too_many_queries",
      status: 429,
      retryAfterS: 5,
    });
    // Others' queries, inserts and pings pass by.
    expect(String(await clients[name].read("b", { labelLimits: undefined }, (ask) => ask(QUICK)))).toBe('{"n":1}\n');
    await clients[name].command(sql`SELECT 1`);
    await clients[name].ping();
    expect(await underWay()).toBe(RUN);
    gone.abort(left);
    expect(new Set(await Promise.all(slow))).toEqual(new Set([left.message]));
    await becomes(0);
    expect(String(await clients[name].read("a", { labelLimits: undefined }, (ask) => ask(QUICK)))).toBe('{"n":1}\n');
  });

  it("that wait are rejected when the process stops; running ones are cancelled when the engine closes", async () => {
    const gone = new AbortController();
    const runs = outcome(clients.embedded.read("a", { signal: gone.signal, labelLimits: undefined }, (ask) => ask(SLOW)));
    const runsToo = outcome(clients.embedded.read("a", { signal: gone.signal, labelLimits: undefined }, (ask) => ask(SLOW)));
    await becomes(RUN);
    const waits = clients.embedded.read("a", { labelLimits: undefined }, (ask) => ask(QUICK));
    stopping.abort();
    await expect(waits).rejects.toMatchObject({ code: "unavailable", status: 503 });
    await clients.embedded[Symbol.asyncDispose]();
    expect([await runs, await runsToo]).toEqual(["unavailable", "unavailable"]);
    clients.embedded = clients.http;
  });
});
