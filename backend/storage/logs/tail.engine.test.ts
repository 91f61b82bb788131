// GET /query/logs/tail on the real engine, over real connections: which records arrive, its limits, and when it ends.
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";
import { logRecord, nanosecondsOf } from "../../ingest/otlp/otlp-body.fixture.ts";

const nowNs = nanosecondsOf(new Date());
const TIMES = { pollMs: 20, checkMs: 50, stallMs: 300, commentMs: 100 };
let logs: LogsApp;

beforeAll(async () => {
  logs = await openLogsApp({ tails: { ...TIMES, perOrg: 2, inAll: 4 } });
});
afterAll(() => logs?.[Symbol.asyncDispose]());

interface Event {
  event?: string;
  id?: string;
  data?: string;
}

interface Follower {
  readonly status: number;
  readonly headers: Headers;
  readonly events: Event[];
  readonly comments: string[];
  /** Resolves when the stream has ended, or was cut. */
  readonly ended: Promise<void>;
  leave(): void;
  messages(): string[];
}

async function follow(
  orgId: string,
  query = "",
  { lastEventId, url = logs.url }: { lastEventId?: string; url?: string } = {},
): Promise<Follower> {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const headers = { "x-org": orgId, ...(lastEventId !== undefined && { "last-event-id": lastEventId }) };
  const answer = await fetch(`${url}/query/logs/tail?${query}`, { headers, signal: leaving.signal });
  const events: Event[] = [];
  const comments: string[] = [];
  const read = async (): Promise<void> => {
    let rest = "";
    for await (const bytes of answer.body ?? []) {
      const parts = (rest + Buffer.from(bytes as Uint8Array).toString("utf8")).split("\n\n");
      rest = parts.pop() ?? "";
      for (const lines of parts.map((part) => part.split("\n"))) {
        comments.push(...lines.filter((line) => line.startsWith(":")));
        const fields = lines
          .filter((line) => /^\w+: /.test(line))
          .map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]);
        if (fields.length > 0) events.push(Object.fromEntries(fields));
      }
    }
  };
  return {
    status: answer.status,
    headers: answer.headers,
    events,
    comments,
    ended: answer.ok ? read().catch(() => undefined) : Promise.resolve(),
    leave: () => leaving.abort(),
    messages: () => events.filter(({ event }) => event === undefined).map(({ data }) => JSON.parse(data ?? "").message),
  };
}

const line = (message: string, rest: object = {}) => logRecord(nowNs, message, rest);
const poll = { timeout: 60_000, interval: 20 };
/** Starts a tail as soon as one is allowed. */
const followWhenFree = async (orgId: string): Promise<Follower> => {
  let follower: Follower | undefined;
  await expect.poll(async () => (follower = await follow(orgId)).status, poll).toBe(200);
  return follower as Follower;
};

describe("a tail", { timeout: 180_000 }, () => {
  it("sends records of its own organisation as they arrive, once each, like GET /query/logs", async () => {
    await logs.send("red", [line("before")]);
    const red = await follow("red");
    const blue = await follow("blue");
    expect([red.status, red.headers.get("content-type"), red.headers.get("cache-control")]).toEqual([
      200,
      "text/event-stream; charset=utf-8",
      "no-store",
    ]);
    for (const n of [0, 1, 2]) await logs.send("red", [line(`${n} a\n\nid: 7`, { severityText: "WARN" }), line(`${n} b`)]);
    await logs.send("blue", [line("of blue")]);
    await logs.send("red", [logRecord(nowNs - 2n * 3_600_000_000_000n, "two hours old"), line("last")]);
    await expect.poll(() => red.messages().at(-1), poll).toBe("last");
    await expect.poll(() => blue.messages(), poll).toEqual(["of blue"]);
    expect(red.messages()).toEqual([...[0, 1, 2].flatMap((n) => [`${n} a\n\nid: 7`, `${n} b`]), "last"]);
    const rows = (await logs.get("red", `/query/logs?q=0%20a&level=warn`)).json();
    expect([JSON.parse(red.events[0]?.data ?? "")]).toEqual(rows);
    red.leave();
    blue.leave();
  });

  it("applies the filters of GET /query/logs, and rejects the same ones before it starts", async () => {
    const some = await follow("filters", "regex=^a&not_q=xyz&level=info");
    await logs.send("filters", [line("b"), line("a xyz"), line("a 1"), line("a 2", { severityText: "error" }), line("a 3")]);
    await expect.poll(() => some.messages(), poll).toEqual(["a 1", "a 3"]);
    some.leave();
    for (const query of ["regex=(", "limit=5", "start=2026-01-01T00:00:00Z"]) {
      const answer = await logs.get("filters", `/query/logs/tail?${query}`);
      expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
    }
    for (const lastEventId of ["x", "-1", "9".repeat(20), "1 OR 1=1"])
      expect((await follow("filters", "", { lastEventId })).status).toBe(400);
  });

  it("resumes after the last event, without repeated or missing records", async () => {
    const first = await followWhenFree("resume");
    await logs.send("resume", [line("1"), line("2"), line("3")]);
    await expect.poll(() => first.messages(), poll).toEqual(["1", "2", "3"]);
    first.leave();
    await logs.send("resume", [line("4")]);
    await logs.send("resume", [line("5"), line("6")]);
    const second = await followWhenFree("resume");
    second.leave();
    const resumed = await follow("resume", "", { lastEventId: first.events[1]?.id ?? "" });
    await expect.poll(() => resumed.messages(), poll).toEqual(["3", "4", "5", "6"]);
    resumed.leave();
  });

  it("continues beyond the size of one response, and reports what is too large or too old", async () => {
    const tail = await follow("much", "", { lastEventId: "1" });
    expect(tail.status).toBe(200);
    const many = Array.from({ length: 1200 }, (_, n) => line(`line ${n}`));
    await logs.send("much", [...many.slice(0, 600), line("x".repeat(600_000)), ...many.slice(600)]);
    await expect.poll(() => tail.messages().length, poll).toBe(1200);
    expect(tail.messages()).toEqual(many.map((_, n) => `line ${n}`));
    expect(tail.events.map(({ event }, at) => [event, at]).filter(([event]) => event !== undefined)).toEqual([
      ["skipped", 0],
      ["skipped", 601],
    ]);
    tail.leave();
  });

  it("is limited per organisation and in total", async () => {
    const [one, two] = [await followWhenFree("few"), await followWhenFree("few")];
    const third = await follow("few");
    expect([third.status, third.headers.get("retry-after")]).toEqual([429, "5"]);
    const others = [await followWhenFree("other")];
    // The last one is for an organisation that has none.
    expect((await follow("other")).status).toBe(503);
    others.push(await followWhenFree("another"));
    expect((await follow("one more")).status).toBe(503);
    for (const tail of [one, ...others]) tail.leave();
    await followWhenFree("few").then((again) => again.leave());
    two.leave();
  });

  it("ends when its credential expires", async () => {
    const tail = await followWhenFree("credential");
    logs.ended.add("credential");
    await tail.ended;
    expect(tail.events.map(({ event, data }) => [event, JSON.parse(data ?? "").error])).toEqual([["failed", "invalid_token"]]);
    expect((await follow("credential")).status).toBe(401);
  });

  it("disconnects a client that does not read, and releases its slot", async () => {
    const sockets: Socket[] = [await deaf("deaf"), await deaf("deaf")];
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    expect((await follow("deaf")).status).toBe(429);
    const large = (n: number) => line(`${n}`.padEnd(400_000, "x"));
    const flooded = new AbortController();
    const flood = (async () => {
      for (let n = 0; !flooded.signal.aborted; n += 10)
        await logs.send(
          "deaf",
          Array.from({ length: 10 }, (_, at) => large(n + at)),
        );
    })();
    const free = await followWhenFree("deaf");
    flooded.abort();
    await flood;
    free.leave();
  });

  // The last: nothing is served any more.
  it("sends keep-alive comments while nothing arrives, and ends when the backend stops", async () => {
    const tail = await followWhenFree("stop");
    await expect.poll(() => tail.comments.length, poll).toBeGreaterThan(3);
    expect(tail.events).toEqual([]);
    const closed = logs.app.close();
    await tail.ended;
    // As `serve` does (backend/http/listeners.ts); otherwise, the client's idle connection stays open for 30 s.
    logs.app.server.closeIdleConnections();
    await closed;
  });
});

/** A client that asks and never reads. */
async function deaf(orgId: string): Promise<Socket> {
  const { hostname, port } = new URL(logs.url);
  const socket = connect(Number(port), hostname);
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  socket.write(`GET /query/logs/tail HTTP/1.1\r\nHost: x\r\nX-Org: ${orgId}\r\n\r\n`);
  await new Promise<void>((resolve) => socket.once("readable", () => resolve()));
  return socket;
}
