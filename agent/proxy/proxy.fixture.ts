// The proxy in front of a real HTTP backend on loopback, which records requests and answers as the test demands. For the tests of this
// folder; each closes what was opened with `afterEach(closeAll)`.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { pino } from "pino";
import { request as httpRequest } from "undici";
import type { Credential, CredentialSource } from "../credentials/credential-store.ts";
import { KEY_HASH_HEADER, keyHash, SIGNATURE_HEADER, TIMESTAMP_HEADER, verify } from "../../common/protocol/signature.ts";
import { createUpstream } from "../upstream/pool.ts";
import { type Proxy, type ProxyOptions, startProxy } from "./server.ts";

export const NOW_UNIX_S = 1_763_714_400;
export const METRICS = JSON.stringify({
  resourceMetrics: [
    { scopeMetrics: [{ metrics: [{ name: "up", gauge: { dataPoints: [{ timeUnixNano: "1763714400000000000", asInt: "1" }] } }] }] },
  ],
});

export interface Received {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

export type Answer = (received: Received, response: ServerResponse) => void;

/** Resources that a test has opened, in order. */
export const open: AsyncDisposable[] = [];

export async function closeAll(): Promise<void> {
  for (const each of open.splice(0).toReversed()) await each[Symbol.asyncDispose]();
}

export const accept: Answer = (_, response) => response.writeHead(204).end();

export async function startBackend(answer: Answer = accept) {
  const received: Received[] = [];
  const backend = { received, answer, url: "" };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const one = { method: request.method ?? "", url: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) };
    received.push(one);
    backend.answer(one, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  backend.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  open.push({
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  });
  return backend;
}

function credential(apiKey: string | undefined): Credential | undefined {
  return apiKey === undefined ? undefined : { id: "cluster-1", apiKey, keyCreatedAt: "2026-11-01T00:00:00Z" };
}

/** A store that returns `next` from its first refresh on. */
export function credentialSource(key: string | undefined, next: string | undefined = key): CredentialSource & { refreshes: string[] } {
  let now = credential(key);
  const refreshes: string[] = [];
  return {
    refreshes,
    current: () => now,
    refresh: async (reason) => {
      refreshes.push(reason);
      now = credential(next);
      return now;
    },
  };
}

export async function startWith(backendUrl: string, options: Partial<ProxyOptions> = {}): Promise<Proxy & { logged: () => string }> {
  const lines: string[] = [];
  const upstream = createUpstream({ backendUrl });
  const proxy = await startProxy({
    listen: { host: "127.0.0.1", port: 0 },
    upstream,
    credentials: credentialSource("ak_first"),
    clock: { nowUnixS: () => NOW_UNIX_S },
    compression: "none",
    log: pino({}, { write: (line) => void lines.push(line) }),
    ...options,
  });
  open.push(upstream, proxy);
  return Object.assign(proxy, { logged: () => lines.join("") });
}

/** A backend, and a proxy in front of it. */
export async function startBoth(answer: Answer = accept, options: Partial<ProxyOptions> = {}) {
  const backend = await startBackend(answer);
  return { backend, proxy: await startWith(backend.url, options) };
}

export async function post(proxy: Proxy, path: string, body: string | Buffer = "{}", headers: Record<string, string> = {}) {
  const answer = await httpRequest(`http://127.0.0.1:${proxy.port}${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
  return { status: answer.statusCode, headers: answer.headers, body: await answer.body.text() };
}

/** Sends bytes unchanged and returns everything that the proxy sends until it closes the connection. */
export async function sendRaw(proxy: Proxy, text: string): Promise<string> {
  const socket = connect(proxy.port, "127.0.0.1");
  let received = "";
  socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
  socket.on("error", () => {});
  socket.write(text);
  await once(socket, "close");
  return received;
}

export function isSignedWith(key: string, { headers, method, url }: Received): boolean {
  const [timestamp, signature] = [String(headers[TIMESTAMP_HEADER]), String(headers[SIGNATURE_HEADER])];
  return headers[KEY_HASH_HEADER] === keyHash(key) && verify(key, timestamp, method, url, signature);
}

export const errorAnswer =
  (status: number, code: string, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify({ error: code, message: "why" }));
