// A live tail over connections that break, from a server that follows the backend's contract. The backend's own tail is tested in
// backend/storage/logs/tail.engine.test.ts, both together in test/contract/atherops.test.ts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Client } from "./api-client.ts";
import type { World } from "./settings.ts";
import { createConsole } from "./output.ts";
import { tail, type TailOptions, type TailTimes } from "./tail.ts";

type Answer = (request: IncomingMessage, reply: ServerResponse) => void;

const folder = mkdtempSync(join(tmpdir(), "atherops-tail-"));
const sessionFile = join(folder, "config", "atherops", "session.json");
const FAST: TailTimes = { retryMs: 1, maxRetryMs: 20, silenceMs: 60_000 };

let server: Server;
let url: string;
/** What the connections are answered in their order; the last also all later ones. */
let answers: Answer[] = [];
let requests: IncomingMessage[] = [];
let ending: AbortController;
let outputs: { out: string; err: string };

beforeAll(async () => {
  server = createServer((request, reply) => {
    requests.push(request);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    answer?.(request, reply);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  [requests, ending, outputs] = [[], new AbortController(), { out: "", err: "" }];
  mkdirSync(dirname(sessionFile), { recursive: true });
  writeFileSync(sessionFile, JSON.stringify({ url, email: "a@b", token: "first" }));
});
afterEach(() => ending.abort());

interface Running extends Pick<TailOptions, "timer"> {
  json?: boolean;
  passwordFile?: string;
}

/** Runs until it ends by itself, or by `ending`. */
async function tailing({ json = false, passwordFile, timer }: Running = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  stdout.on("data", (text) => (outputs.out += String(text)));
  stderr.on("data", (text) => (outputs.err += String(text)));
  const settings = { url, sessionFile, passwordFile };
  const world: World = { settings, stdin: process.stdin, stdout, stderr, signal: ending.signal };
  const console = createConsole(world, () => ({ json }));
  await tail({ client: new Client(world, {}), console, filters: { q: ["x"] }, line: ({ message }) => String(message), times: FAST, timer });
}

const events = (reply: ServerResponse, ...texts: string[]): void => {
  if (!reply.headersSent) reply.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  reply.write(texts.join(""));
};
const record = (id: number, message: string): string => `id: ${id}\ndata: ${JSON.stringify({ message })}\n\n`;
const failed = (error: string): string => `event: failed\ndata: ${JSON.stringify({ error, message: "because" })}\n\n`;
const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (_request, reply) =>
    reply.writeHead(code, { "content-type": "application/json", ...headers }).end('{"error":"some_code","message":"a reason"}');
const says = async (what: Partial<typeof outputs>) =>
  await vi.waitFor(() => expect(outputs).toMatchObject(Object.fromEntries(Object.entries(what).map(([at, text]) => [at, text]))), 50_000);

test("prints records as they arrive, in any chunks, and ends silently on a signal", async () => {
  answers = [
    (_request, reply) => {
      events(reply, ": atherops\n\n", record(1, "one"), `id: 2\ndata: {"mess`);
      setImmediate(() => events(reply, `age":"zw`, `ö"}\n`, `\n:\n\n`));
    },
  ];
  const done = tailing();
  await says({ out: "one\nzwö\n", err: "" });
  expect(requests[0]?.url).toBe("/query/logs/tail?q=x");
  ending.abort();
  await done;
  expect(outputs.err).toBe("");
});

test("resumes after the last event if the connection is lost, and prints nothing twice", async () => {
  answers = [
    (_request, reply) => (events(reply, record(7, "before")), reply.end()),
    (request) => request.socket.destroy(),
    status(503, { "retry-after": "0" }),
    status(502),
    (request, reply) => events(reply, record(8, `after ${String(request.headers["last-event-id"])}`)),
  ];
  const done = tailing();
  await says({ out: "before\nafter 7\n", err: "the connection was lost: reconnecting\nreconnected\n" });
  expect(requests.map(({ headers }) => headers["last-event-id"])).toEqual([undefined, "7", "7", "7", "7"]);
  ending.abort();
  await done;
});

test("warns of possible gaps if there was no event to resume after", async () => {
  answers = [(_request, reply) => (events(reply, ": atherops\n\n"), reply.end()), (_request, reply) => events(reply, record(1, "new"))];
  const done = tailing();
  await says({ out: "new\n", err: expect.stringContaining("reconnected; records that arrived in the meantime are not shown\n") as never });
  ending.abort();
  await done;
});

test("reconnects to a silent backend", async () => {
  answers = [(_request, reply) => events(reply, record(1, "one")), (_request, reply) => events(reply, record(2, "two"))];
  let silence = (): void => undefined;
  const done = tailing({ timer: (expire) => ((silence = expire), () => undefined) });
  await says({ out: "one\n", err: "" });
  silence();
  await says({ out: "one\ntwo\n", err: "no data from the backend: reconnecting\nreconnected\n" });
  expect(requests[1]?.headers["last-event-id"]).toBe("1");
  ending.abort();
  await done;
});

test("backs off from a backend that closes connections immediately, and prints two lines in all", async () => {
  answers = [(_request, reply) => (events(reply, ": atherops\n\n"), reply.end())];
  const done = tailing();
  await vi.waitFor(() => expect(requests.length).toBeGreaterThan(8), 50_000);
  expect(outputs.err.split("\n")).toHaveLength(3);
  ending.abort();
  await done;
});

test("renews an expired session if there is a password file, and otherwise ends", async () => {
  const passwordFile = join(folder, "password");
  writeFileSync(passwordFile, "secret", { mode: 0o600 });
  const bySession: Answer = (request, reply) => {
    if (request.url === "/api/auth/login") return void reply.end('{"token":"second"}');
    if (request.headers.authorization === "Bearer second")
      return events(reply, record(5, `after ${String(request.headers["last-event-id"])}`));
    if (request.headers["last-event-id"] === undefined) return events(reply, record(4, "first"), failed("invalid_token"));
    status(401)(request, reply);
  };
  answers = [bySession];
  await expect(tailing()).rejects.toThrow("the session has ended: run `atherops login`");
  expect(outputs.out).toBe("first\n");
  outputs = { out: "", err: "" };
  const done = tailing({ passwordFile });
  await says({ out: "first\nafter 4\n" });
  ending.abort();
  await done;
});

test.each([
  [
    "a failure that the backend reports",
    (_request, reply) => events(reply, failed("query_too_expensive")),
    "because [query_too_expensive]",
  ],
  ["a refusal", status(400), "a reason [400 some_code]"],
  ["a backend that is busy at first", status(429, { "retry-after": "5" }), "a reason [429 some_code] (try again in 5 s)"],
  ["a page of another server", (_request, reply) => void reply.end("<html>"), "this is not an AtherOps backend; is the URL right?"],
  ["what is no record", (_request, reply) => events(reply, "data: <\n\n"), "the backend sent something that is not a log record"],
] as const satisfies readonly (readonly [string, Answer, string])[])("ends with one sentence after %s", async (_what, answer, message) => {
  answers = [answer];
  await expect(tailing()).rejects.toThrow(message);
});

test("reports an omitted record, and prints no terminal control sequences, in JSON either", async () => {
  const controls = "\u001b]0;x\u0007\u009b2J\u202e";
  answers = [(_request, reply) => events(reply, "event: skipped\nid: 3\ndata: {}\n\n", record(4, controls))];
  const done = tailing({ json: true });
  await says({ err: "records were skipped: they arrive faster than they can be read, or a record exceeds 512 KiB\n" });
  await vi.waitFor(() => expect(outputs.out).toContain("\n"), 50_000);
  expect(outputs.out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  expect(JSON.parse(outputs.out)).toEqual({ message: controls });
  ending.abort();
  await done;
});
