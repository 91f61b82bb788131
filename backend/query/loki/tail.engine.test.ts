// Loki's tail over real connections, as Grafana uses it: which records arrive, for which clients, its limits, and when it ends.
import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { LOKI, type LokiApp, type LokiOrg, openLokiApp } from "../../../test/fixtures/loki-app.ts";
import { logRecord, nanosecondsOf } from "../../ingest/otlp/otlp-body.fixture.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const eventually = <T>(probe: () => T | Promise<T>): Promise<T> => vi.waitFor(probe, { timeout: 30_000, interval: 20 });
const TIMES = { pollMs: 20, checkMs: 50, stallMs: 300, commentMs: 50, perOrg: 2 };
let app: LokiApp;
let url: string;
let red: LokiOrg;
let blue: LokiOrg;

beforeAll(async () => {
  app = await openLokiApp(TIMES);
  url = await app.backend.app.listen({ host: "127.0.0.1", port: 0 });
  [red, blue] = [await app.org(), await app.org()];
});
afterAll(() => app?.[Symbol.asyncDispose]());

interface Message {
  streams: { stream: Record<string, string>; values: [string, string][] }[];
  dropped_entries: object[] | null;
}

async function follow(org: Pick<LokiOrg, "authorization">, query: string) {
  const socket = new WebSocket(`${url.replace("http", "ws")}${LOKI}/tail?${new URLSearchParams({ query }).toString()}`, {
    headers: { authorization: org.authorization },
  });
  onTestFinished(() => socket.terminate());
  const messages: Message[] = [];
  let pings = 0;
  socket.on("message", (data: Buffer) => messages.push(JSON.parse(data.toString("utf8")) as Message));
  socket.on("ping", () => (pings += 1));
  await once(socket, "open");
  return {
    socket,
    messages,
    pings: () => pings,
    lines: () => messages.flatMap(({ streams }) => streams.flatMap(({ values }) => values.map(([, line]) => line))),
  };
}

const now = (): bigint => nanosecondsOf(new Date());

it("sends an organisation's own records as they arrive, through the stages of the query", async () => {
  const own = await follow(red, '{service_name="shop"} |= "keep" | json | line_format "{{.a}}"');
  const other = await follow(blue, '{service_name="shop"}');
  const time = now();
  await red.send([logRecord(time, '{"a":"first","keep":1}'), logRecord(time + 1n, '{"a":"left out"}')]);
  await blue.send([logRecord(time, "of blue")]);
  await red.send([logRecord(time + 2n, '{"a":"second","keep":1}')]);
  await eventually(() => expect(own.lines()).toEqual(["first", "second"]));
  await eventually(() => expect(other.lines()).toEqual(["of blue"]));
  const { streams, dropped_entries: dropped } = own.messages[0] as Message;
  const [stream] = streams;
  expect([stream?.stream, stream?.values, dropped]).toEqual([
    expect.objectContaining({ service_name: "shop", a: "first" }),
    [[String(time), "first"]],
    null,
  ]);
  await eventually(() => expect(own.pings()).toBeGreaterThan(0));
});

it("is limited per organisation, and the slot is released with the connection", async () => {
  const first = await follow(red, '{a="b"}');
  await follow(red, '{a="b"}');
  const refused = async (): Promise<string> => {
    const socket = new WebSocket(`${url.replace("http", "ws")}${LOKI}/tail?query=%7Ba%3D%22b%22%7D`, {
      headers: { authorization: red.authorization },
    });
    onTestFinished(() => socket.terminate());
    const [error] = (await once(socket, "error")) as [Error];
    return error.message;
  };
  expect(await refused()).toContain("429");
  first.socket.close();
  await eventually(async () => (await follow(red, '{a="b"}')).socket.terminate());
});

it("ends when its credential is removed", async () => {
  const org = await app.org();
  const { socket } = await follow(org, '{a="b"}');
  const closed = once(socket, "close");
  await app.backend.call("DELETE", `/api/read-tokens/${org.tokenId}`, { bearer: org.bearer });
  expect((await closed)[0]).toBe(1008);
});

it("is rejected like any other request: without a credential, without LogQL, without a WebSocket", async () => {
  const status = async (path: string, headers: Record<string, string>): Promise<number> => {
    const socket = new WebSocket(`${url.replace("http", "ws")}${LOKI}/${path}`, { headers });
    const [, response] = (await once(socket, "unexpected-response")) as [unknown, { statusCode: number }];
    return response.statusCode;
  };
  const { authorization } = blue;
  expect(await status("tail?query=%7Ba%3D%22b%22%7D", {})).toBe(401);
  expect(await status("tail?query=%7B", { authorization })).toBe(400);
  expect(await status("tail?query=1", { authorization })).toBe(400);
  expect(await status("labels", { authorization })).toBe(200);
  expect(await status("none", { authorization })).toBe(404);
  expect((await fetch(`${url}${LOKI}/tail?query=%7Ba%3D%22b%22%7D`, { headers: { authorization } })).status).toBe(400);
});

it("ignores another upgrade that a client offers", async () => {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const request = `GET ${LOKI}/labels HTTP/1.1\r\nHost: x\r\nAuthorization: ${red.authorization}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n`;
  let answer = "";
  socket.on("data", (data) => (answer += data.toString("latin1")));
  socket.write(request);
  await eventually(() => expect(answer).toContain("success"));
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
  // The connection remains open.
  socket.write(request);
  await eventually(() => expect(answer.match(/HTTP\/1.1 200 /g)).toHaveLength(2));
});

it("disconnects a client that does not read", async () => {
  const { socket } = await follow(blue, '{service_name="flood"}');
  const before = await openConnections();
  stub<{ _socket: { pause(): void } }>(socket)._socket.pause();
  const large = "x".repeat(400_000);
  for (let n = 0; n < 60 && (await openConnections()) === before; n += 1) await blue.send([logRecord(now(), `${n} ${large}`)], "flood");
  await eventually(async () => expect(await openConnections()).toBe(before - 1));
});

async function openConnections(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  app.backend.app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  return await promise;
}
