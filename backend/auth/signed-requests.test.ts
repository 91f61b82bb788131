import { createHmac } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keyHash, sign } from "../../common/protocol/signature.ts";
import { vectors } from "../../test/fixtures/signature-vectors.ts";
import { createSignedGuard, type KeySource, type VerifyingKey } from "./signed-requests.ts";
import { ApiError } from "../errors.ts";
import { createLog } from "../log.ts";
import type { KeyKind } from "../http/request-identity.ts";
import { createApp } from "../http/app.ts";
import { stub } from "../../test/fixtures/stub.ts";

const NOW_S = 1_795_000_000;
const DAY_MS = 86_400_000;
const KEY = "ak_the-cluster-key";
let nowMs = NOW_S * 1000;

/** Keys in memory that count how often they are looked up and first used. */
class MemoryKeys implements KeySource {
  readonly keys = new Map<string, VerifyingKey>();
  firstUses: string[] = [];

  add(rawKey: string, kind: KeyKind, change: Partial<VerifyingKey> = {}): void {
    const signing = { keyId: rawKey, kind, orgId: "org-1", hostId: "host-1", node: "node-1", createdAt: new Date(nowMs - 2.9 * DAY_MS) };
    this.keys.set(keyHash(rawKey), { rawKey, signing, expiresMs: Number.POSITIVE_INFINITY, revoked: false, used: true, ...change });
  }
  find(hash: string) {
    return this.keys.get(hash);
  }
  async used(key: VerifyingKey) {
    this.firstUses.push(key.signing.keyId);
    key.used = true;
  }
}

const keys = new MemoryKeys();
let app: FastifyInstance;
let port: number;
let bodiesRead = 0;

beforeAll(async () => {
  app = await createApp({ log: createLog("silent") });
  const signed = createSignedGuard({ keys, now: () => nowMs });
  app.addContentTypeParser("*", (_request, payload, done) => {
    bodiesRead++;
    payload.resume();
    payload.on("end", () => done(null));
  });
  for (const url of ["/ingest", "/ingest/logs/otlp", "/a%2Fb/:id", "/long/:id"])
    app.post(url, { onRequest: signed("cluster", "host", "direct") }, async (request) => request.signingKey);
  app.post("/heartbeat", { onRequest: signed("cluster") }, async (_request, reply) => await reply.code(204).send());
  app.post("/fails", { onRequest: signed("cluster", "direct") }, async () => {
    throw new Error("on purpose");
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  port = (app.server.address() as AddressInfo).port;
});
afterAll(async () => await app?.close());
beforeEach(() => {
  nowMs = NOW_S * 1000;
  keys.keys.clear();
  keys.firstUses = [];
  bodiesRead = 0;
  keys.add(KEY, "cluster");
});

type HeaderList = [string, string][];

interface Answer {
  status: number | undefined;
  headers: Record<string, string | string[] | undefined>;
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of many shapes
  body: any;
}

/** One POST with exactly these header lines, in this order, doubled where they are doubled. */
async function post(path: string, headers: HeaderList): Promise<Answer> {
  const lines = [["host", "backend"], ["content-type", "text/plain"], ["content-length", "4"], ...headers].flat();
  const sent = httpRequest({ host: "127.0.0.1", port, path, method: "POST", headers: lines, agent: false });
  sent.end("body");
  const [answer] = await once(sent, "response");
  const body = answer.statusCode === 204 ? undefined : await json(answer);
  answer.resume();
  return { status: answer.statusCode, headers: answer.headers, body };
}

function signedHeaders(path: string, { key = KEY, method = "POST", atS = NOW_S } = {}): HeaderList {
  return Object.entries(sign(key, method, path, atS));
}

function replaced(name: string, value: string | undefined): HeaderList {
  const headers = signedHeaders("/ingest").filter(([given]) => given !== name);
  return value === undefined ? headers : [...headers, [name, value]];
}

test("accepts a signed request, with the identity and the age in whole days of its key", async () => {
  const answer = await post("/ingest", signedHeaders("/ingest"));
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({ orgId: "org-1", hostId: "host-1", node: "node-1", kind: "cluster" });
  expect(answer.headers["x-key-age-days"]).toBe("2");
});

test("accepts header names and the signature's hex in any case", async () => {
  const loud = signedHeaders("/ingest").map(([name, value]): [string, string] => [name.toUpperCase(), value]);
  expect((await post("/ingest", loud)).status).toBe(200);
  const shouted = signedHeaders("/ingest").map(([name, value]): [string, string] => [
    name,
    name === "x-signature" ? value.toUpperCase() : value,
  ]);
  expect((await post("/ingest", shouted)).status).toBe(200);
});

const good = sign(KEY, "POST", "/ingest", NOW_S) as Record<"x-timestamp" | "x-key-hash" | "x-signature", string>;
const mac = (message: string, key = KEY) => createHmac("sha256", key).update(message).digest("hex");

test.each<[string, string, HeaderList]>([
  ["no header at all", "missing_header", []],
  ["no timestamp", "missing_header", replaced("x-timestamp", undefined)],
  ["no key hash", "missing_header", replaced("x-key-hash", undefined)],
  ["no signature", "missing_header", replaced("x-signature", undefined)],
  ["the timestamp twice, equal", "malformed_header", [...signedHeaders("/ingest"), ["x-timestamp", good["x-timestamp"]]]],
  ["the key hash twice, in another case", "malformed_header", [...signedHeaders("/ingest"), ["X-Key-Hash", good["x-key-hash"]]]],
  ["the signature twice, different", "malformed_header", [...signedHeaders("/ingest"), ["x-signature", mac("other")]]],
  ["an empty timestamp", "malformed_header", replaced("x-timestamp", "")],
  ["a timestamp with a sign", "malformed_header", replaced("x-timestamp", `+${NOW_S}`)],
  ["a timestamp with a fraction", "malformed_header", replaced("x-timestamp", `${NOW_S}.0`)],
  ["a timestamp in exponent form", "malformed_header", replaced("x-timestamp", "1795e6")],
  ["a timestamp in hex", "malformed_header", replaced("x-timestamp", "0x6afd42c0")],
  ["a timestamp in RFC 3339", "malformed_header", replaced("x-timestamp", "2026-11-18T11:06:40Z")],
  ["a timestamp in Arabic digits", "malformed_header", replaced("x-timestamp", Buffer.from("١٧٩٥٠٠٠٠٠٠", "utf8").toString("latin1"))],
  ["a timestamp with a thousand digits", "malformed_header", replaced("x-timestamp", "1".repeat(1000))],
  ["a timestamp in milliseconds", "stale_timestamp", replaced("x-timestamp", `${NOW_S}000`)],
  ["an uppercase key hash", "malformed_header", replaced("x-key-hash", good["x-key-hash"].toUpperCase())],
  ["a short key hash", "malformed_header", replaced("x-key-hash", good["x-key-hash"].slice(1))],
  ["a key hash that is the raw key", "malformed_header", replaced("x-key-hash", KEY)],
  ["two key hashes in one line", "malformed_header", replaced("x-key-hash", `${good["x-key-hash"]}, ${good["x-key-hash"]}`)],
  ["an unknown key hash", "unknown_key", replaced("x-key-hash", keyHash("ak_other"))],
  ["a short signature", "malformed_header", replaced("x-signature", good["x-signature"].slice(2))],
  ["a long signature", "malformed_header", replaced("x-signature", `${good["x-signature"]}00`)],
  ["a signature in base64", "malformed_header", replaced("x-signature", Buffer.from(good["x-signature"], "hex").toString("base64"))],
  ["a signature of zeros", "bad_signature", replaced("x-signature", "0".repeat(64))],
  ["another key's signature", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\n/ingest`, "ak_other"))],
  ["a signature under the key's hash", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\n/ingest`, good["x-key-hash"]))],
  ["a signature of another method", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nGET\n/ingest`))],
  ["a signature of a lower-case method", "bad_signature", replaced("x-signature", mac(`${NOW_S}\npost\n/ingest`))],
  ["a signature of another path", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\n/ingest/traces`))],
  ["a signature of the path with a slash at its end", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\n/ingest/`))],
  ["a signature of the absolute URL", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\nhttp://backend/ingest`))],
  ["a signature of another timestamp", "bad_signature", replaced("x-signature", mac(`${NOW_S - 1}\nPOST\n/ingest`))],
  ["a signature with a newline at its end", "bad_signature", replaced("x-signature", mac(`${NOW_S}\nPOST\n/ingest\n`))],
  ["a signature with CRLF", "bad_signature", replaced("x-signature", mac(`${NOW_S}\r\nPOST\r\n/ingest`))],
])("returns for %s 401 %s, without reading the body", async (_what, code, headers) => {
  const answer = await post("/ingest", headers);
  expect([answer.status, answer.body.error]).toEqual([401, code]);
  expect(answer.headers["x-key-age-days"]).toBeUndefined();
  expect(bodiesRead).toBe(0);
});

test("rejects another signature, key, path, second, and a revoked key after a valid request", async () => {
  keys.add("ak_other", "cluster");
  for (const [path, other] of [
    ["/ingest", "/ingest/logs/otlp"],
    ["/ingest/logs/otlp", "/ingest"],
  ] as const) {
    for (let times = 0; times < 2; times += 1) expect((await post(path, signedHeaders(path))).status).toBe(200);
    const { "x-signature": signature = "", ...rest } = sign(KEY, "POST", path, NOW_S);
    const nearly = signature.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
    const refused: [string, HeaderList][] = [
      [path, Object.entries({ ...rest, "x-signature": nearly })],
      [path, Object.entries({ ...rest, "x-signature": signature, "x-key-hash": keyHash("ak_other") })],
      [other, Object.entries({ ...rest, "x-signature": signature })],
      [path, Object.entries({ ...rest, "x-signature": signature, "x-timestamp": String(NOW_S + 1) })],
    ];
    for (const [at, headers] of refused) expect((await post(at, headers)).body.error).toBe("bad_signature");
    expect((await post(path, signedHeaders(path))).status).toBe(200);
  }
  Object.assign(keys.find(keyHash(KEY)) ?? {}, { revoked: true });
  expect((await post("/ingest", signedHeaders("/ingest"))).body.error).toBe("revoked_key");
});

test.each(vectors)("matches OpenSSL's vector, $name: $valid", async ({ valid, key, target, method, ...sent }) => {
  keys.add(key, "cluster");
  const rawHeaders = ["X-Timestamp", sent.timestamp, "X-Key-Hash", sent.keyHash, "X-Signature", sent.signature];
  const request = stub<FastifyRequest>({ raw: { rawHeaders, method, url: target } });
  const reply = stub<FastifyReply>({ header: () => reply });
  const guard = createSignedGuard({ keys, now: () => Number.parseInt(sent.timestamp, 10) * 1000 })("cluster");
  const refused = await Reflect.apply(guard, app, [request, reply]).then(
    () => false,
    (error: unknown) => error instanceof ApiError && error.status === 401,
  );
  expect([refused, request.signingKey?.keyId]).toEqual([!valid, valid ? key : undefined]);
});

test.each([
  [-301, 401],
  [-300, 200],
  [-299, 200],
  [299, 200],
  [300, 200],
  [301, 401],
])("answers a timestamp %i s from the server's clock with %i", async (apartS, status) => {
  for (const fractionMs of [0, 999]) {
    nowMs = NOW_S * 1000 + fractionMs;
    const answer = await post("/ingest", signedHeaders("/ingest", { atS: NOW_S + apartS }));
    expect([answer.status, answer.body.error]).toEqual([status, status === 401 ? "stale_timestamp" : undefined]);
  }
});

test("verifies leading zeros of a timestamp as sent", async () => {
  const timestamp = `00${NOW_S}`;
  const headers: HeaderList = [
    ["x-timestamp", timestamp],
    ["x-key-hash", keyHash(KEY)],
    ["x-signature", mac(`${timestamp}\nPOST\n/ingest`)],
  ];
  expect((await post("/ingest", headers)).status).toBe(200);
});

test("verifies the request target as received, without its query string", async () => {
  expect((await post("/ingest?debug=1", signedHeaders("/ingest"))).status).toBe(200);
  expect((await post("/ingest?", signedHeaders("/ingest"))).status).toBe(200);
  expect((await post("/ingest?debug=1", signedHeaders("/ingest?debug=1"))).body.error).toBe("bad_signature");
  expect((await post("/a%2Fb/%7e", signedHeaders("/a%2Fb/%7e"))).body.error).not.toBe("bad_signature");
  expect((await post("/ingest/%6Cogs/otlp", signedHeaders("/ingest/%6Cogs/otlp"))).status).toBe(200);
  expect((await post("/ingest/%6Cogs/otlp", signedHeaders("/ingest/logs/otlp"))).body.error).toBe("bad_signature");
});

test("reports the received method and path, truncated, for a wrong signature", async () => {
  const messageOf = async (path: string) => (await post(path, signedHeaders("/other"))).body.message as string;
  expect(await messageOf("/ingest?token=secret")).toMatch(/; POST \/ingest arrived$/);
  expect((await post("/ingest\u009b31m", signedHeaders("/other"))).body.error).toBe("malformed_request");
  expect(await messageOf(`/long/${"x".repeat(300)}`)).toMatch(/ \/long\/x{194}… arrived$/);
});

test("returns 403 with the age for a key of the wrong kind, only after its signature was verified", async () => {
  keys.add("ak_host", "host");
  keys.add("ak_direct", "direct");
  const host = await post("/heartbeat", signedHeaders("/heartbeat", { key: "ak_host" }));
  expect([host.status, host.body.error, host.headers["x-key-age-days"]]).toEqual([403, "wrong_key_kind", "2"]);
  const direct = await post("/heartbeat", signedHeaders("/heartbeat", { key: "ak_direct" }));
  expect([direct.status, direct.headers["x-key-age-days"]]).toEqual([403, undefined]);
  expect((await post("/heartbeat", signedHeaders("/other", { key: "ak_host" }))).body.error).toBe("bad_signature");
});

test("returns the age in each response to a cluster's key, errors included, and never for a direct key", async () => {
  const failed = await post("/fails", signedHeaders("/fails"));
  expect([failed.status, failed.headers["x-key-age-days"]]).toEqual([500, "2"]);
  expect((await post("/heartbeat", signedHeaders("/heartbeat"))).headers["x-key-age-days"]).toBe("2");
  keys.add("ak_direct", "direct");
  expect((await post("/fails", signedHeaders("/fails", { key: "ak_direct" }))).headers["x-key-age-days"]).toBeUndefined();
  nowMs += 0.1 * DAY_MS;
  expect((await post("/heartbeat", signedHeaders("/heartbeat", { atS: nowMs / 1000 }))).headers["x-key-age-days"]).toBe("3");
});

test("returns 401 revoked_key for a revoked key, and for an expired one from that millisecond on", async () => {
  keys.add("ak_revoked", "cluster", { revoked: true });
  expect((await post("/ingest", signedHeaders("/ingest", { key: "ak_revoked" }))).body.error).toBe("revoked_key");
  keys.add("ak_old", "cluster", { expiresMs: nowMs + 1 });
  expect((await post("/ingest", signedHeaders("/ingest", { key: "ak_old" }))).status).toBe(200);
  nowMs++;
  expect((await post("/ingest", signedHeaders("/ingest", { key: "ak_old" }))).body.error).toBe("revoked_key");
});

test("records the first use once, before the response, and not for a rejected request", async () => {
  keys.add("ak_fresh", "host", { used: false });
  await post("/heartbeat", signedHeaders("/heartbeat", { key: "ak_fresh" }));
  await post("/ingest", signedHeaders("/wrong", { key: "ak_fresh" }));
  expect(keys.firstUses).toEqual([]);
  await post("/ingest", signedHeaders("/ingest", { key: "ak_fresh" }));
  await post("/ingest", signedHeaders("/ingest", { key: "ak_fresh" }));
  expect(keys.firstUses).toEqual(["ak_fresh"]);
});
