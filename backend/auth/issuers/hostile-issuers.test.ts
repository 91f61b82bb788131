// Issuers that answer in unexpected ways, with real TLS servers on loopback: the error messages for administrators, and bounded work.
// `HOSTILE_TABLE=1` prints each issuer with its message, the bytes that it could send, and the CPU time of both sides.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Authority, authority } from "../../../agent/upstream/outgoing-proxy.fixture.ts";
import { Outgoing, RequestFailed } from "../../outgoing/outgoing.ts";
import { testIssuer } from "./issuer.fixture.ts";
import { createFetchKeys } from "./key-set.ts";

const DISCOVERY = "/.well-known/openid-configuration";
const folder = mkdtempSync(join(tmpdir(), "atherops-issuers-test-"));
const open: (() => unknown)[] = [];
const table: (string | number)[][] = [];
let title = "";
let trusted: Authority;
beforeEach(({ task }) => void (title = task.name));
afterAll(() => {
  for (const row of process.env["HOSTILE_TABLE"] ? table : []) console.log(`| ${row.join(" | ")} |`);
});
beforeAll(() => {
  trusted = authority(folder, "trusted");
  return () => rmSync(folder, { recursive: true });
});
afterEach(async () => {
  for (const close of open.splice(0)) await close();
});

/** Fetches the keys of an issuer with these answers by path. Returns its keys, or why there are none, and the requests. */
async function fetched(
  answers: (url: string) => Record<string, RequestListener>,
  { allowedNetworks = ["127.0.0.1"], timeoutMs = 5000, addresses = ["127.0.0.1"] } = {},
) {
  const requests: string[] = [];
  let sentBytes = 0;
  const server = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
    requests.push(request.url ?? "");
    const write = response.write.bind(response) as (chunk: Buffer) => boolean;
    response.write = ((chunk: Buffer) => ((sentBytes += chunk.length), write(chunk))) as never;
    (answers(url)[request.url ?? ""] ?? ((_request, missing) => missing.writeHead(404).end()))(request, response);
  });
  server.on("tlsClientError", () => undefined);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(() => (server.closeAllConnections(), new Promise((done) => server.close(done))));
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  // The last one stays.
  const lookup = async () => [(addresses.length > 1 ? addresses.shift() : addresses[0]) ?? ""];
  const outgoing = new Outgoing({ allowedNetworks, caFile: trusted.caFile, lookup });
  const before = process.cpuUsage();
  const result = await createFetchKeys(outgoing, timeoutMs)(url, "organisation").then(
    (keys) => keys.map(({ kid }) => kid),
    (error: Error) => error.message,
  );
  const { user, system } = process.cpuUsage(before);
  table.push([title, [result].flat().join(" ").replaceAll(url, "<issuer>"), sentBytes, Math.round((user + system) / 1000)]);
  return { result, requests, sentBytes: () => sentBytes };
}

const json =
  (value: unknown): RequestListener =>
  (_request, response) =>
    response.end(JSON.stringify(value));
const metadata = (url: string, change: object = {}) => json({ issuer: url, jwks_uri: `${url}/keys`, ...change });
/** With metadata as it should be. */
const withKeys = (answer: RequestListener) => (url: string) => ({ [DISCOVERY]: metadata(url), "/keys": answer });
const withKeysAt = (jwks_uri: string) => (url: string) => ({ [DISCOVERY]: metadata(url, { jwks_uri }) });
const rsa = (bits: number) => ({ kty: "RSA", kid: "a", e: "AQAB", n: Buffer.alloc(bits / 8, 255).toString("base64url") });
const redirect: RequestListener = (_request, response) => response.writeHead(302, { location: "https://localhost/" }).end();
const ENDLESS: RequestListener = (_request, response) => {
  const chunk = Buffer.alloc(64 * 1024, "a");
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
};

const inBytes: RequestListener = (_request, response) => {
  for (let sent = 0; sent < 100_000; sent += 1) response.write(" ");
  response.end("{}");
};

const LONG_HEAD = `HTTP/1.1 200 OK\r\nx: ${"a".repeat(1024 * 1024)}\r\n\r\n`;

test("the usable public keys of an issuer are fetched, without other members", async () => {
  const issuer = await testIssuer("https://issuer.example", { kid: "good" });
  const others = [
    { kty: "oct", kid: "secret", k: "c2VjcmV0" },
    { ...issuer.jwk, kid: "enc", use: "enc" },
    { ...issuer.jwk, kid: undefined },
  ];
  const { result, requests } = await fetched((url) => ({ [DISCOVERY]: metadata(url), "/keys": json({ keys: [issuer.jwk, ...others] }) }));
  expect([result, requests]).toEqual([["good"], [DISCOVERY, "/keys"]]);
});

const CASES: readonly [string, (url: string) => Record<string, RequestListener>, string][] = [
  ["redirects", () => ({ [DISCOVERY]: redirect }), "status 302"],
  ["redirects to its keys", withKeys(redirect), "status 302"],
  ["has another issuer", (url) => ({ [DISCOVERY]: metadata(url, { issuer: `${url}/` }) }), "another issuer than its URL"],
  ["has no jwks_uri", (url) => ({ [DISCOVERY]: metadata(url, { jwks_uri: undefined }) }), "no jwks_uri"],
  ["has keys over http", withKeysAt("http://localhost/keys"), "must begin with https://"],
  ["has keys in a file", withKeysAt("file:///etc/passwd"), "must begin with https://"],
  ["has keys behind a password", withKeysAt("https://user:secret@localhost/keys"), "must not contain a user name"],
  ["has keys at a URL of 1,001 characters", withKeysAt(`https://localhost/${"a".repeat(983)}`), "invalid jwks_uri"],
  ["has keys at a private address", withKeysAt("https://10.0.0.1/keys"), "may not be sent to"],
  ["has keys at a private address in IPv6", withKeysAt("https://[::ffff:10.0.0.1]/keys"), "may not be sent to"],
  ["has keys at the metadata service of a cloud", withKeysAt("https://169.254.169.254/latest"), "may not be sent to"],
  ["answers without end", () => ({ [DISCOVERY]: ENDLESS }), "more than 131072 bytes"],
  ["has keys without end", withKeys(ENDLESS), "more than 131072 bytes"],
  ["has a header of 1 MB", () => ({ [DISCOVERY]: (_request, { socket }) => socket?.write(LONG_HEAD) }), "HEADERS_OVERFLOW"],
  ["answers in chunks of one byte", () => ({ [DISCOVERY]: inBytes }), "another issuer than its URL"],
  ["has 10,000 keys", withKeys(json({ keys: Array.from({ length: 10_000 }, () => ({})) })), "more than 64 keys"],
  ["has no usable key", withKeys(json({ keys: [{ kty: "oct", kid: "a", k: "YQ" }] })), "no public key"],
  ["publishes its private key", withKeys(json({ keys: [{ ...rsa(2048), d: "AQAB" }] })), "no public key"],
  ["has an RSA key of 16,384 bits", withKeys(json({ keys: [rsa(16_384)] })), "no public key"],
  ["has an RSA key of 512 bits", withKeys(json({ keys: [rsa(512)] })), "no public key"],
  ["has keys without a type, and other values", withKeys(json({ keys: [{ kid: "a" }, null, 1, "a", [], [[]]] })), "no public key"],
  ["has a list instead of a key set", withKeys(json([])), "is not"],
  ["begins with a byte order mark", () => ({ [DISCOVERY]: (_request, response) => response.end("\uFEFF{}") }), "not JSON"],
  ["answers 60,000 levels deep", () => ({ [DISCOVERY]: (_request, response) => response.end("[".repeat(60_000)) }), "not JSON"],
  ["answers compressed", () => ({ [DISCOVERY]: (_request, response) => response.end(gzipSync("{}")) }), "not JSON"],
  ["answers with text", () => ({ [DISCOVERY]: (_request, response) => response.end("<html>") }), "not JSON"],
  ["answers null", () => ({ [DISCOVERY]: json(null) }), "no JSON object"],
];
test.each(CASES)("an issuer that %s has no keys", async (_title, answers, message) => {
  const { result, sentBytes } = await fetched(answers);
  expect(result).toEqual(expect.stringContaining(message));
  // What the socket's buffers hold.
  expect(sentBytes()).toBeLessThan(32 * 1024 * 1024);
});

const SLOW: readonly [string, RequestListener][] = [
  ["stops after its first byte", (_request, response) => response.writeHead(200).write("{")],
  ["does not answer", () => undefined],
  [
    "sends a byte at a time",
    (_request, response) => {
      const timer = setInterval(() => response.write(" "), 1);
      response.on("close", () => clearInterval(timer));
    },
  ],
  [
    "announces its answer without end",
    (_request, response) => {
      const timer = setInterval(() => response.writeEarlyHints({ link: "</keys>; rel=preload" }), 1);
      response.on("close", () => clearInterval(timer));
    },
  ],
];
test.each(SLOW)("an issuer that %s is given up in time", async (_title, answer) => {
  const { result } = await fetched(() => ({ [DISCOVERY]: answer }), { timeoutMs: 50 });
  expect(result).toEqual(expect.stringContaining("no response in time"));
});

test("an issuer whose name has a private address after its metadata was read gets no second request", async () => {
  const { result, requests } = await fetched((url) => ({ [DISCOVERY]: metadata(url) }), { addresses: ["127.0.0.1", "10.0.0.1"] });
  expect([result, requests]).toEqual([expect.stringContaining("no address that requests may be sent to"), [DISCOVERY]]);
});

test("an issuer that resolves to a private address gets no request", async () => {
  const { result, requests } = await fetched((url) => ({ [DISCOVERY]: metadata(url) }), { allowedNetworks: [] });
  expect([result, requests]).toEqual([expect.stringContaining("no address that requests may be sent to"), []]);
});

test("at most four issuers of one organisation are asked at one time, and others do not wait for them", async () => {
  let [asked, mostAsked] = [0, 0];
  const answer = Promise.withResolvers<void>();
  const get = async (url: URL) => {
    if (url.hostname === "other.example") throw new RequestFailed("no such host", false);
    asked += 1;
    mostAsked = Math.max(mostAsked, asked);
    await answer.promise;
    asked -= 1;
    return { status: 404, body: Buffer.alloc(0) };
  };
  const fetchKeys = createFetchKeys({ get });
  const slow = Array.from({ length: 20 }, (_, index) => fetchKeys(`https://slow-${index}.example`, "slow").catch(() => undefined));
  await expect(fetchKeys("https://other.example", "other")).rejects.toThrow("no such host");
  answer.resolve();
  await Promise.all(slow);
  expect(mostAsked).toBe(4);
});
