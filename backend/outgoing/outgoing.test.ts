// Outgoing requests of notifications, with real TLS servers, a real name server and a real outgoing proxy on loopback. Some loopback
// addresses represent the internet, the others addresses that must never be contacted.
import { mkdtempSync, rmSync } from "node:fs";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { once } from "node:events";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Authority, authority, outgoingProxy } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { MAX_RECEIVER_RESPONSE_BYTES } from "./outgoing-limits.ts";
import { nameServer } from "./name-server.fixture.ts";
import { Outgoing, type OutgoingOptions, RequestFailed } from "./outgoing.ts";
import { queryDns } from "./permitted-addresses.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-outgoing-test-"));
const open: (() => unknown)[] = [];
let trusted: Authority;
beforeAll(() => {
  trusted = authority(folder, "trusted");
  return () => rmSync(folder, { recursive: true });
});
/** The addresses of `backend.test`, one list per lookup; the last one stays. */
let leads: string[][] = [["127.0.0.2"]];
let names: Awaited<ReturnType<typeof nameServer>>;
beforeEach(async () => {
  leads = [["127.0.0.2"]];
  names = await nameServer((name) => (name === "backend.test" ? (leads.length > 1 ? leads.shift() : leads[0]) : []));
  open.push(() => names[Symbol.asyncDispose]());
});
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

/** A TLS server that counts its connections. */
async function receiver(address: string, answer: RequestListener, port = 0) {
  const seen = { connections: 0, requests: [] as string[], bodies: [] as string[], port: 0 };
  const server = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
    seen.requests.push(`${request.method} ${request.url} ${request.headers.host}`);
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      seen.bodies.push(Buffer.concat(parts).toString());
      answer(request, response);
    });
  });
  server.on("connection", () => (seen.connections += 1));
  server.on("tlsClientError", () => undefined);
  server.listen(port, address);
  await once(server, "listening"); // Rejects with `EADDRINUSE` if another process has the port.
  open.push(() => (server.closeAllConnections(), new Promise((done) => server.close(done))));
  seen.port = (server.address() as AddressInfo).port;
  return seen;
}

/** Two of one port, the one at a permitted address and the other at a forbidden one. */
async function receivers(): Promise<{ port: number; forbidden: Awaited<ReturnType<typeof receiver>> }> {
  const { port } = await receiver("127.0.0.2", (_request, response) => response.end());
  try {
    return { port, forbidden: await receiver("127.0.0.1", (_request, response) => response.end(), port) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return await receivers(); // A port that is free at one address may be taken at the other.
  }
}

function outgoing(options: Partial<OutgoingOptions> = {}): Outgoing {
  const lookup = async (host: string, signal: AbortSignal) => await queryDns(host, signal, [names.address]);
  return new Outgoing({ allowedNetworks: ["127.0.0.2"], caFile: trusted.caFile, lookup, ...options });
}

async function post(out: Outgoing, url: string, headers: Record<string, string> = {}) {
  return await out.post({ url: new URL(url), headers, body: "said" });
}

async function failure(posting: Promise<unknown>): Promise<RequestFailed> {
  const error = await posting.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RequestFailed);
  return error as RequestFailed;
}

test("a request reaches the receiver whose certificate matches the name, at the validated address", async () => {
  const there = await receiver("127.0.0.2", (_request, response) => response.end("thank you"));
  const answer = await post(outgoing(), `https://backend.test:${there.port}/hook?a=b`, { "x-one": "1" });
  expect(answer).toEqual({ status: 200, text: "", retryAfterMs: undefined });
  expect([there.requests, there.bodies]).toEqual([[`POST /hook?a=b backend.test:${there.port}`], ["said"]]);
});

test("each request uses its own connection", async () => {
  const there = await receiver("127.0.0.2", (_request, response) => response.end());
  const out = outgoing();
  for (let n = 0; n < 3; n += 1) await post(out, `https://backend.test:${there.port}/`);
  expect(there.connections).toBe(3);
});

test("rejects a certificate of an untrusted authority before it sends anything", async () => {
  const there = await receiver("127.0.0.2", (_request, response) => response.end());
  const { message, retry } = await failure(post(outgoing({ caFile: undefined }), `https://backend.test:${there.port}/`));
  expect([message, retry]).toEqual(["no response: UNABLE_TO_VERIFY_LEAF_SIGNATURE", true]);
  expect(there.requests).toEqual([]);
});

test("rejects a name that resolves to a forbidden address without a connection, like an unknown name", async () => {
  leads = [["127.0.0.1"]];
  const there = await receiver("127.0.0.1", (_request, response) => response.end());
  const forbidden = await failure(post(outgoing(), `https://backend.test:${there.port}/`));
  const unknown = await failure(post(outgoing(), `https://none.test:${there.port}/`));
  expect(forbidden.message).toBe("the host does not exist, or has no address that requests may be sent to");
  expect([unknown.message, unknown.retry]).toEqual([forbidden.message, forbidden.retry]);
  expect([names.asked.includes("backend.test"), there.connections]).toEqual([true, 0]);
});

test("rejects a name that resolves to another address when the connection is made", async () => {
  const { port, forbidden } = await receivers();
  leads = [["127.0.0.2"], ["127.0.0.1"]];
  const out = outgoing();
  expect((await post(out, `https://backend.test:${port}/`)).status).toBe(200);
  await failure(post(out, `https://backend.test:${port}/`));
  expect(forbidden.connections).toBe(0);
});

test("tries those addresses of localhost that are permitted, without a name server", async () => {
  const { port, forbidden } = await receivers();
  const url = `https://localhost:${port}/`;
  expect((await failure(post(outgoing(), url))).message).toBe("the host does not exist, or has no address that requests may be sent to");
  expect((await failure(post(outgoing({ allowedNetworks: ["::1"] }), url))).message).toBe("no response: ECONNREFUSED");
  expect(forbidden.connections).toBe(0);
  for (const allowedNetworks of [["127.0.0.0/8"], ["::1", "127.0.0.0/8"]])
    expect((await post(outgoing({ allowedNetworks }), url)).status).toBe(200);
  expect(names.asked).toEqual([]);
});

test("does not try the forbidden one of two addresses", async () => {
  const { port, forbidden } = await receivers();
  leads = [["127.0.0.1", "127.0.0.2"]];
  expect((await post(outgoing(), `https://backend.test:${port}/`)).status).toBe(200);
  expect(forbidden.connections).toBe(0);
});

test.each(["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"])(
  "rejects https://%s, which is forbidden itself, permanently and without a connection",
  async (host) => {
    const there = await receiver("127.0.0.1", (_request, response) => response.end());
    const { message, retry } = await failure(post(outgoing(), `https://${host}:${there.port}/`));
    expect([message, retry]).toEqual(["the URL is an address that requests may not be sent to", false]);
    expect(there.connections).toBe(0);
  },
);

test("rejects plain http and credentials in the URL permanently", async () => {
  for (const url of ["http://backend.test/", "https://user:password@backend.test/", "ftp://backend.test/"])
    expect((await failure(post(outgoing(), url))).retry).toBe(false);
});

test.each([301, 302, 303, 307, 308])("returns a redirect with %i and does not follow it", async (status) => {
  const forbidden = await receiver("127.0.0.1", (_request, response) => response.end());
  const locations = ["https://169.254.169.254/latest/meta-data/", `https://127.0.0.1:${forbidden.port}/`];
  for (const location of locations) {
    const there = await receiver("127.0.0.2", (_request, response) => response.writeHead(status, { location }).end());
    expect((await post(outgoing(), `https://backend.test:${there.port}/`)).status).toBe(status);
    expect(there.requests).toHaveLength(1);
  }
  expect(forbidden.connections).toBe(0);
});

test("times out on a silent receiver, a silent name server and an endless response", async () => {
  const silent = await receiver("127.0.0.2", () => undefined);
  const hurried = outgoing({ timeoutMs: 300 });
  expect((await failure(post(hurried, `https://backend.test:${silent.port}/`))).message).toBe("no response in time");
  // The caller's time ends in the same moment, or a little before.
  const url = new URL(`https://backend.test:${silent.port}/`);
  const asked = outgoing().post({ url, headers: {}, body: "{}", signal: AbortSignal.timeout(300) });
  expect((await failure(asked)).message).toBe("no response in time");
  const deaf = await nameServer(() => undefined);
  open.push(() => deaf[Symbol.asyncDispose]());
  const lookup = async (host: string, signal: AbortSignal) => await queryDns(host, signal, [deaf.address]);
  expect((await failure(post(outgoing({ timeoutMs: 300, lookup }), "https://backend.test/"))).message).toBe("no response in time");

  const endless = await receiver("127.0.0.2", (_request, response) => {
    response.writeHead(500);
    const more = (): unknown => (response.write(Buffer.alloc(16_384, 0x61)) ? setImmediate(more) : response.once("drain", more));
    more();
  });
  const { status, text } = await post(outgoing(), `https://backend.test:${endless.port}/`);
  expect([status, text.length]).toEqual([500, MAX_RECEIVER_RESPONSE_BYTES]);
});

test("reports success after the response's head, whatever its body does", async () => {
  const slow = await receiver("127.0.0.2", (_request, response) => response.writeHead(202).write("a"));
  expect((await post(outgoing(), `https://backend.test:${slow.port}/`)).status).toBe(202);
});

test("parses Retry-After in both formats, up to an hour", async () => {
  const values = ["7", "86400", new Date(Date.now() + 90_000).toUTCString(), "soon"];
  const there = await receiver("127.0.0.2", (_request, response) => response.writeHead(429, { "retry-after": values.shift() }).end());
  const read: (number | undefined)[] = [];
  for (let n = 0; n < 4; n += 1) read.push((await post(outgoing(), `https://backend.test:${there.port}/`)).retryAfterMs);
  expect([read[0], read[1], read[3]]).toEqual([7000, 3_600_000, undefined]);
  expect(read[2]).toBeGreaterThan(60_000);
  expect(read[2]).toBeLessThanOrEqual(90_000);
});

test("requests the proxy's tunnel to the validated address, and never to a forbidden one", async () => {
  const there = await receiver("127.0.0.1", (_request, response) => response.end());
  const proxy = await outgoingProxy(there.port);
  open.push(proxy.close);
  const out = outgoing({ httpsProxy: `http://user:password@127.0.0.1:${proxy.port}` });
  expect((await post(out, `https://backend.test:${there.port}/`)).status).toBe(200);
  expect(proxy.asked).toEqual([`CONNECT 127.0.0.2:${there.port}`]);
  expect(proxy.authorized[0]).toMatch(/^Basic /);
  expect(there.requests).toEqual([`POST / backend.test:${there.port}`]);
  leads = [["127.0.0.1"]];
  expect((await failure(post(out, `https://backend.test:${there.port}/`))).message).toMatch(/no address/);
  await failure(post(out, `https://127.0.0.1:${there.port}/`));
  expect(proxy.asked).toHaveLength(1);
});

test("sends well-known receivers' names to the proxy, even if the local DNS cannot resolve them, and respects NO_PROXY", async () => {
  const there = await receiver("127.0.0.2", (_request, response) => response.end());
  const proxy = await outgoingProxy(there.port, "403 Forbidden");
  open.push(proxy.close);
  const out = outgoing({ httpsProxy: `http://127.0.0.1:${proxy.port}`, noProxy: "backend.test" });
  const { message } = await failure(post(out, "https://hooks.slack.com/services/T/B/x"));
  expect(message).toBe("no response: UND_ERR_ABORTED");
  expect((await post(out, `https://backend.test:${there.port}/`)).status).toBe(200);
  expect(proxy.asked).toEqual(["CONNECT hooks.slack.com:443"]);
});
