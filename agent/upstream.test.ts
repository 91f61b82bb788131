// The way out, against real TLS servers and a real outgoing proxy on loopback.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { createUpstream, isLoopback, type Upstream, UpstreamError, type UpstreamOptions } from "./upstream.ts";

const folder = temporaryFolder();
const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

interface Authority {
  /** The authority's own certificate. */
  caFile: string;
  key: string;
  cert: string;
}

/** A new authority and a certificate of `localhost` and `backend.test` that it signed. */
function authority(name: string): Authority {
  const file = (end: string): string => join(folder.path, `${name}-${end}`);
  const openssl = (...args: string[]): Buffer => execFileSync("openssl", args, { stdio: "pipe" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl("req", "-x509", ...newKey, "-keyout", file("ca.key"), "-out", file("ca.pem"), "-subj", `/CN=${name}`, "-days", "2");
  openssl("req", ...newKey, "-keyout", file("key"), "-out", file("csr"), "-subj", "/CN=localhost");
  writeFileSync(file("ext"), "subjectAltName=DNS:localhost,DNS:backend.test,IP:127.0.0.1\n");
  openssl(
    "x509",
    "-req",
    "-in",
    file("csr"),
    "-CA",
    file("ca.pem"),
    "-CAkey",
    file("ca.key"),
    "-out",
    file("crt"),
    "-days",
    "2",
    "-extfile",
    file("ext"),
  );
  return { caFile: file("ca.pem"), key: readFileSync(file("key"), "utf8"), cert: readFileSync(file("crt"), "utf8") };
}

let first: Authority;
let second: Authority;
beforeAll(() => {
  first = authority("first");
  second = authority("second");
  return () => folder[Symbol.dispose]();
});

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  return (server.address() as AddressInfo).port;
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

/** An outgoing proxy that tunnels every CONNECT to `port` and remembers what it was asked for. */
async function outgoingProxy(port: number): Promise<{ port: number; asked: string[]; authorized: (string | undefined)[] }> {
  const asked: string[] = [];
  const authorized: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end("forwarded");
  });
  server.on("connect", (request, socket: Socket) => {
    asked.push(`CONNECT ${request.url}`);
    authorized.push(request.headers["proxy-authorization"]);
    const target = connect(port, "127.0.0.1", () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    target.pipe(socket).pipe(target);
    for (const each of [socket, target]) each.on("error", () => {});
    open.push(() => [socket, target].forEach((each) => each.destroy()));
  });
  return { port: await listen(server), asked, authorized };
}

describe("requests", () => {
  it("keep their path exactly as given, and reuse connections", async () => {
    const connections = new Set<Socket>();
    const server = createServer(echo).on("connection", (socket: Socket) => connections.add(socket));
    const port = await listen(server);
    const upstream = upstreamTo({ backendUrl: `http://127.0.0.1:${port}` });
    for (const path of ["/a%2Fb", "/a/../b", "//a", "/a?b=%20"]) {
      expect(await get(upstream, path)).toMatchObject({ status: 200, headers: { "x-seen": "yes" }, body: `GET ${path} 127.0.0.1:${port}` });
    }
    expect(connections.size).toBeLessThanOrEqual(2);
  });

  it("follow no redirect", async () => {
    const port = await listen(createServer((_, response) => void response.writeHead(307, { location: "/elsewhere" }).end()));
    expect(await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` }))).toMatchObject({
      status: 307,
      headers: { location: "/elsewhere" },
    });
  });

  it("are given up when no answer comes in time", async () => {
    const port = await listen(createServer(() => {}));
    const upstream = upstreamTo({ backendUrl: `http://127.0.0.1:${port}` });
    const late = upstream.request({ method: "GET", path: "/", signal: AbortSignal.timeout(50) });
    await expect(late).rejects.toThrow(/given up waiting/);
  });

  it("say whether the connection ever stood", async () => {
    const port = await listen(createServer((request) => void request.socket.destroy()));
    const broken = await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}` })).catch((error: unknown) => error);
    expect(broken).toMatchObject({ wasConnected: true });
    const refused = await get(upstreamTo({ backendUrl: "http://127.0.0.1:1" })).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UpstreamError);
    expect(refused).toMatchObject({ wasConnected: false, message: expect.stringContaining("ECONNREFUSED") });
  });
});

describe("trust", () => {
  it("is refused to a certificate of an unknown authority", async () => {
    const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    await expect(get(upstreamTo({ backendUrl: `https://localhost:${port}` }))).rejects.toThrow(/certificate/);
    await expect(get(upstreamTo({ backendUrl: `https://localhost:${port}`, caFile: second.caFile }))).rejects.toThrow(/certificate/);
  });

  it("is given to the authority of the file", async () => {
    const port = await listen(createTlsServer({ key: first.key, cert: first.cert }, echo));
    for (const host of ["localhost", "127.0.0.1"]) {
      expect(await get(upstreamTo({ backendUrl: `https://${host}:${port}`, caFile: first.caFile }))).toMatchObject({ status: 200 });
    }
  });

  it("follows a replaced file without a restart", async () => {
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
    const proxy = await outgoingProxy(backend);
    const proxies = { httpsProxy: `http://user:secret@127.0.0.1:${proxy.port}`, caFile: first.caFile };
    const answer = await get(upstreamTo({ backendUrl: "https://backend.test:8443", ...proxies }));
    expect(answer).toMatchObject({ status: 200, body: "GET /x backend.test:8443" });
    expect(proxy.asked).toEqual(["CONNECT backend.test:8443"]);
    expect(proxy.authorized).toEqual([`Basic ${Buffer.from("user:secret").toString("base64")}`]);
    await expect(get(upstreamTo({ backendUrl: "https://other.test:8443", ...proxies }))).rejects.toThrow(/altnames/);
  });

  it.each(["backend.test", ".test", "*", "other.test, backend.test"])("is left out for NO_PROXY=%s", async (noProxy) => {
    const proxy = await outgoingProxy(1);
    const upstream = upstreamTo({ backendUrl: "https://backend.test:8443", httpsProxy: `http://127.0.0.1:${proxy.port}`, noProxy });
    await expect(get(upstream)).rejects.toThrow(/no answer from https:\/\/backend\.test:8443/);
    expect(proxy.asked).toEqual([]);
  });

  it("is never asked for loopback, nor for https when only HTTP_PROXY is set", async () => {
    const port = await listen(createServer(echo));
    const proxy = await outgoingProxy(port);
    const proxyUrl = `http://127.0.0.1:${proxy.port}`;
    expect(await get(upstreamTo({ backendUrl: `http://127.0.0.1:${port}`, httpProxy: proxyUrl, httpsProxy: proxyUrl }))).toMatchObject({
      status: 200,
    });
    await expect(get(upstreamTo({ backendUrl: "https://backend.test:8443", httpProxy: proxyUrl }))).rejects.toThrow(UpstreamError);
    expect(proxy.asked).toEqual([]);
  });

  it("that refuses is named without its password", async () => {
    const port = await listen(
      createServer().on("connect", (_, socket) => socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")),
    );
    const upstream = upstreamTo({ backendUrl: "https://backend.test:8443", httpsProxy: `http://user:secret@127.0.0.1:${port}` });
    const error = (await get(upstream).catch((cause: unknown) => cause)) as Error;
    expect(error.message).toContain("407");
    expect(error.message).not.toContain("secret");
  });
});

it.each([
  ["localhost", true],
  ["127.0.0.1", true],
  ["127.9.9.9", true],
  ["[::1]", true],
  ["::1", true],
  ["127.0.0.1.example", false],
  ["localhost.example", false],
  ["0.0.0.0", false],
  ["10.0.0.1", false],
  ["", false],
])("%j is loopback: %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});
