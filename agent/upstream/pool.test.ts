// Connections to the backend, with real TLS servers and a real outgoing proxy on loopback. This file must not import test/fixtures: they
// load undici's index, which would hide what the agent's few modules of undici lack.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { bundleFile } from "../../hack/bundle.ts";
import { type Authority, authority, listening, type OutgoingProxy, outgoingProxy } from "./outgoing-proxy.fixture.ts";
import { createUpstream, type Upstream, UpstreamError, type UpstreamOptions } from "./pool.ts";

const AGENT = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = { path: mkdtempSync(join(tmpdir(), "atherops-upstream-test-")) };
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

let first: Authority;
let second: Authority;
beforeAll(() => {
  first = authority(folder.path, "first");
  second = authority(folder.path, "second");
  return () => rmSync(folder.path, { recursive: true });
});

async function listen(server: Server): Promise<number> {
  const { port, close } = await listening(server);
  open.push(close);
  return port;
}

async function openProxy(port: number): Promise<OutgoingProxy> {
  const proxy = await outgoingProxy(port);
  open.push(proxy.close);
  return proxy;
}

const echo: RequestListener = (request, response) => {
  request.resume().on("end", () => response.setHeader("x-seen", "yes").end(`${request.method} ${request.url} ${request.headers.host}`));
};

function upstreamTo(options: UpstreamOptions): Upstream {
  const upstream = createUpstream(options);
  open.push(() => upstream[Symbol.asyncDispose]());
  return upstream;
}

function get(upstream: Upstream, path = "/x") {
  return upstream.request({ method: "GET", path });
}

/** One request of a process that loads only the upstream. */
async function askedAlone(module: string, options: UpstreamOptions, env: NodeJS.ProcessEnv = {}): Promise<unknown> {
  const program = `
    import { createRequire } from "node:module";
    const { createUpstream } = await import(process.argv[1]);
    const upstream = createUpstream(JSON.parse(process.argv[2]));
    const { status, body } = await upstream.request({ method: "GET", path: "/x" });
    await upstream[Symbol.asyncDispose]();
    const loadsUndicisIndex = Object.keys(createRequire(process.argv[1]).cache).some((file) => file.endsWith("/undici/index.js"));
    console.log(JSON.stringify({ status, body, loadsUndicisIndex }));`;
  const args = ["--input-type=module", "-e", program, module, JSON.stringify(options)];
  return JSON.parse((await promisify(execFile)(process.execPath, args, { env })).stdout);
}

/** Bundled as the agent is for its image and packages, in a folder without any package. */
async function bundled(): Promise<string> {
  await bundleFile("agent/upstream/pool.ts", "pool", folder.path);
  return join(folder.path, "pool.js");
}

describe("requests", () => {
  it("keep their path unchanged, and reuse connections", async () => {
    const connections = new Set<Socket>();
    const server = createServer(echo).on("connection", (socket: Socket) => connections.add(socket));
    const port = await listen(server);
    const upstream = upstreamTo({ backendUrl: `http://127.0.0.1:${port}` });
    for (const path of ["/a%2Fb", "/a/../b", "//a", "/a?b=%20"]) {
      expect(await get(upstream, path)).toMatchObject({ status: 200, headers: { "x-seen": "yes" }, body: `GET ${path} 127.0.0.1:${port}` });
    }
    expect(connections.size).toBeLessThanOrEqual(2);
  });

  it.each([
    { when: "five minutes after the pool was opened", status: 204, requests: 1, afterMs: 300_000 },
    { when: "after three 5xx responses in a row", status: 503, requests: 3, afterMs: 30_000 },
  ])("use a new connection $when, because the backend may have another address", async ({ status, requests, afterMs }) => {
    const connections = new Set<Socket>();
    const server = createServer((_, response) => void response.writeHead(status).end());
    const port = await listen(server.on("connection", (socket: Socket) => connections.add(socket)));
    let nowMs = 0;
    const upstream = upstreamTo({ backendUrl: `http://127.0.0.1:${port}`, maxConnections: 1, nowMs: () => nowMs });
    for (let i = 0; i < requests; i++) await get(upstream);
    nowMs = afterMs - 1;
    await get(upstream);
    expect(connections.size).toBe(1);
    nowMs = afterMs;
    await get(upstream);
    expect(connections.size).toBe(2);
  });

  it("follow no redirect", async () => {
    const port = await listen(createServer((_, response) => void response.writeHead(307, { location: "/elsewhere" }).end()));
    expect(await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` }))).toMatchObject({
      status: 307,
      headers: { location: "/elsewhere" },
    });
  });

  it("time out without a response", async () => {
    const port = await listen(createServer(() => {}));
    const upstream = upstreamTo({ backendUrl: `http://127.0.0.1:${port}` });
    const late = upstream.request({ method: "GET", path: "/", signal: AbortSignal.timeout(50) });
    await expect(late).rejects.toThrow(/stopped waiting/);
  });

  it("stop reading a response beyond the backend's maximum size, and close its connection", async () => {
    const ended = Promise.withResolvers<void>();
    const endless: RequestListener = (_, response) => {
      response.once("close", () => ended.resolve());
      const more = (): void => {
        while (!response.destroyed && response.write("x".repeat(65_536)));
      };
      response.on("drain", more);
      more();
    };
    const port = await listen(createServer(endless));
    const { status, body } = await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` }));
    expect([status, body.length]).toEqual([200, 1024 * 1024]);
    await ended.promise;
  });

  it("fail if the response is truncated", async () => {
    const half: RequestListener = (_, response) => {
      response.writeHead(200, { "content-length": 10 }).write("half", () => response.destroy());
    };
    const port = await listen(createServer(half));
    await expect(get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` }))).rejects.toMatchObject({ wasConnected: true });
  });

  it("report whether the connection was ever established", async () => {
    const port = await listen(createServer((request) => void request.socket.destroy()));
    const broken = await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` })).catch((error: unknown) => error);
    expect(broken).toMatchObject({
      wasConnected: true,
      message: expect.stringMatching(/: (UND_ERR_SOCKET: other side closed|.*ECONNRESET)$/),
    });
    const refused = await get(upstreamTo({ backendUrl: "http://127.0.0.1:1" })).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UpstreamError);
    expect(refused).toMatchObject({
      wasConnected: false,
      message: "no response from http://127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1",
    });
  });
});

describe("trust", () => {
  it.each([undefined, "", "no certificate"])(
    "keeps the last authorities if the CA file is %j when connections are renewed",
    async (text) => {
      const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
      const caFile = join(folder.path, "removed.pem");
      writeFileSync(caFile, readFileSync(first.caFile));
      let nowMs = 0;
      const upstream = upstreamTo({ backendUrl: `https://localhost:${port}`, caFile, nowMs: () => nowMs });
      await get(upstream);
      rmSync(caFile);
      if (text !== undefined) writeFileSync(caFile, text);
      nowMs = 300_000;
      expect(await get(upstream)).toMatchObject({ status: 200 });
    },
  );

  it("rejects a certificate of an unknown authority", async () => {
    const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    await expect(get(upstreamTo({ backendUrl: `https://localhost:${port}` }))).rejects.toThrow(/certificate/);
    await expect(get(upstreamTo({ backendUrl: `https://localhost:${port}`, caFile: second.caFile }))).rejects.toThrow(/certificate/);
  });

  it("accepts the authority of the CA file", async () => {
    const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    for (const host of ["localhost", "127.0.0.1"]) {
      expect(await get(upstreamTo({ backendUrl: `https://${host}:${port}`, caFile: first.caFile }))).toMatchObject({ status: 200 });
    }
  });

  it("accepts the system's authorities as well, with a CA file and without", async () => {
    const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    for (const caFile of [undefined, second.caFile]) {
      const options = { backendUrl: `https://localhost:${port}`, ...(caFile && { caFile }) };
      expect(await askedAlone(join(AGENT, "upstream", "pool.ts"), options, { SSL_CERT_FILE: first.caFile })).toMatchObject({ status: 200 });
    }
  });

  it("follows a replaced CA file without a restart", async () => {
    const caFile = join(folder.path, "followed.pem");
    writeFileSync(caFile, readFileSync(first.caFile));
    let nowMs = 0;
    const port = await listen(createTlsServer({ key: second.key, cert: second.cert }, echo));
    const upstream = upstreamTo({ backendUrl: `https://localhost:${port}`, caFile, nowMs: () => nowMs });
    await expect(get(upstream)).rejects.toThrow(/certificate/);
    writeFileSync(`${caFile}.new`, `${readFileSync(second.caFile, "utf8")}\n`);
    renameSync(`${caFile}.new`, caFile);
    nowMs = 60_000;
    expect(await get(upstream)).toMatchObject({ status: 200 });
  });
});

describe("an outgoing proxy", () => {
  it("tunnels https to a backend that is not on loopback, verifying the backend's own certificate", async () => {
    const backend = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    const proxy = await openProxy(backend);
    const proxies = { httpsProxy: `http://user:secret@127.0.0.1:${proxy.port}`, caFile: first.caFile };
    const answer = await get(upstreamTo({ backendUrl: "https://backend.test:8443", ...proxies }));
    expect(answer).toMatchObject({ status: 200, body: "GET /x backend.test:8443" });
    expect(proxy.asked).toEqual(["CONNECT backend.test:8443"]);
    expect(proxy.authorized).toEqual([`Basic ${Buffer.from("user:secret").toString("base64")}`]);
    await expect(get(upstreamTo({ backendUrl: "https://other.test:8443", ...proxies }))).rejects.toThrow(/altnames/);
  });

  it.each([
    ["backend.test", "https://backend.test:8443"],
    ["*", "https://backend.test:8443"],
    ["other.test, 127.0.0.0/8 0.0.0.0/31", "https://0.0.0.0:1"],
  ])("is not used for NO_PROXY=%s and %s", async (noProxy, backendUrl) => {
    const proxy = await openProxy(1);
    const upstream = upstreamTo({ backendUrl, httpsProxy: `http://127.0.0.1:${proxy.port}`, noProxy });
    await expect(get(upstream)).rejects.toThrow(`no response from ${backendUrl}`);
    expect(proxy.asked).toEqual([]);
  });

  it("that never responds times out like any other connection", async () => {
    const silent = await listen(createServer().on("connect", (_, socket) => open.push(() => socket.destroy())));
    const options = { backendUrl: "https://backend.test:8443", httpsProxy: `http://127.0.0.1:${silent}`, connectTimeoutMs: 300 };
    await expect(get(upstreamTo(options))).rejects.toThrow(UpstreamError);
  });

  describe.each(["as it is", "bundled, as the image has it"])("of an agent that loads nothing else, %s", (form) => {
    let module: string;
    beforeAll(async () => {
      module = form === "as it is" ? join(AGENT, "upstream", "pool.ts") : await bundled();
    });

    it.each([
      ["https", "https://backend.test:8443", "CONNECT backend.test:8443"],
      ["http", "http://backend.test:8080", "GET http://backend.test:8080/x"],
    ])("uses %s, with its user and password", async (scheme, backendUrl, asked) => {
      const backend = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
      const proxy = await openProxy(backend);
      const url = `http://user:p%40ss@127.0.0.1:${proxy.port}`;
      const answer = await askedAlone(module, { backendUrl, httpsProxy: url, httpProxy: url, caFile: first.caFile });
      expect(answer).toEqual({
        status: 200,
        body: scheme === "https" ? "GET /x backend.test:8443" : "forwarded",
        loadsUndicisIndex: false,
      });
      expect(proxy.asked).toEqual([asked]);
      expect(proxy.authorized).toEqual([`Basic ${Buffer.from("user:p@ss").toString("base64")}`]);
    });
  });

  it("is never used for loopback, nor for https if only HTTP_PROXY is set", async () => {
    const port = await listen(createServer(echo));
    const proxy = await openProxy(port);
    const proxyUrl = `http://127.0.0.1:${proxy.port}`;
    expect(await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}`, httpProxy: proxyUrl, httpsProxy: proxyUrl }))).toMatchObject({
      status: 200,
    });
    await expect(get(upstreamTo({ backendUrl: "https://backend.test:8443", httpProxy: proxyUrl }))).rejects.toThrow(UpstreamError);
    expect(proxy.asked).toEqual([]);
  });

  it("that rejects a request is named without its password", async () => {
    const port = await listen(
      createServer().on("connect", (_, socket) => socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")),
    );
    const upstream = upstreamTo({ backendUrl: "https://backend.test:8443", httpsProxy: `http://user:secret@127.0.0.1:${port}` });
    const error = (await get(upstream).catch((cause: unknown) => cause)) as Error;
    expect(error.message).toContain("407");
    expect(error.message).not.toContain("secret");
  });
});
