// Issuers that answer in unexpected ways, with real TLS servers on loopback: the error messages for administrators, and bounded work.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import { type Authority, authority } from "../../../agent/upstream/outgoing-proxy.fixture.ts";
import { Outgoing } from "../../outgoing/outgoing.ts";
import { testIssuer } from "./issuer.fixture.ts";
import { createFetchKeys } from "./key-set.ts";

const DISCOVERY = "/.well-known/openid-configuration";
const folder = mkdtempSync(join(tmpdir(), "atherops-issuers-test-"));
const open: (() => unknown)[] = [];
let trusted: Authority;
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
  { allowedNetworks = ["127.0.0.1"], timeoutMs = 5000 } = {},
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
  const outgoing = new Outgoing({ allowedNetworks, caFile: trusted.caFile, lookup: async () => ["127.0.0.1"] });
  const result = await createFetchKeys(
    outgoing,
    timeoutMs,
  )(url).then(
    (keys) => keys.map(({ kid }) => kid),
    (error: Error) => error.message,
  );
  return { result, requests, sentBytes: () => sentBytes };
}

const json =
  (value: unknown): RequestListener =>
  (_request, response) =>
    response.end(JSON.stringify(value));
const metadata = (url: string, change: object = {}) => json({ issuer: url, jwks_uri: `${url}/keys`, ...change });
const ENDLESS: RequestListener = (_request, response) => {
  const chunk = Buffer.alloc(64 * 1024, "a");
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
};

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
  [
    "redirects",
    () => ({ [DISCOVERY]: (_request, response) => response.writeHead(302, { location: "https://localhost/" }).end() }),
    "status 302",
  ],
  ["has another issuer", (url) => ({ [DISCOVERY]: metadata(url, { issuer: `${url}/` }) }), "another issuer than its URL"],
  ["has no jwks_uri", (url) => ({ [DISCOVERY]: metadata(url, { jwks_uri: undefined }) }), "no jwks_uri"],
  ["has keys over http", (url) => ({ [DISCOVERY]: metadata(url, { jwks_uri: "http://localhost/keys" }) }), "must begin with https://"],
  ["has keys at a private address", (url) => ({ [DISCOVERY]: metadata(url, { jwks_uri: "https://10.0.0.1/keys" }) }), "may not be sent to"],
  ["answers without end", () => ({ [DISCOVERY]: ENDLESS }), "more than 131072 bytes"],
  ["has keys without end", (url) => ({ [DISCOVERY]: metadata(url), "/keys": ENDLESS }), "more than 131072 bytes"],
  [
    "has 10,000 keys",
    (url) => ({ [DISCOVERY]: metadata(url), "/keys": json({ keys: Array.from({ length: 10_000 }, () => ({})) }) }),
    "more than 64 keys",
  ],
  [
    "has no usable key",
    (url) => ({ [DISCOVERY]: metadata(url), "/keys": json({ keys: [{ kty: "oct", kid: "a", k: "YQ" }] }) }),
    "no public key",
  ],
  ["has a list instead of a key set", (url) => ({ [DISCOVERY]: metadata(url), "/keys": json([]) }), "is not"],
  ["answers with text", () => ({ [DISCOVERY]: (_request, response) => response.end("<html>") }), "not JSON"],
  ["answers null", () => ({ [DISCOVERY]: json(null) }), "no JSON object"],
];
test.each(CASES)("an issuer that %s has no keys", async (_title, answers, message) => {
  const { result, sentBytes } = await fetched(answers);
  expect(result).toEqual(expect.stringContaining(message));
  // What the socket's buffers hold.
  expect(sentBytes()).toBeLessThan(32 * 1024 * 1024);
});

test("an issuer that answers slowly is given up in time", async () => {
  const { result } = await fetched(() => ({ [DISCOVERY]: (_request, response) => response.writeHead(200).write("{") }), { timeoutMs: 50 });
  expect(result).toEqual(expect.stringContaining("no response in time"));
});

test("an issuer that resolves to a private address gets no request", async () => {
  const { result, requests } = await fetched((url) => ({ [DISCOVERY]: metadata(url) }), { allowedNetworks: [] });
  expect([result, requests]).toEqual([expect.stringContaining("no address that requests may be sent to"), []]);
});
