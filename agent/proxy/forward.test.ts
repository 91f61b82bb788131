// Forwards one request of the collector to a real HTTP backend on loopback: which responses are final, which cause a retry, and when a body
// is signed and sent a second time.
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ERROR_CODES } from "../../backend/errors.ts";
import type { CredentialSource } from "../credentials/credential-store.ts";
import { FINAL_REFUSALS } from "../../common/protocol/enrolment.ts";
import { TIMESTAMP_HEADER } from "../../common/protocol/signature.ts";
import {
  accept,
  closeAll,
  credentialSource,
  errorAnswer,
  isSignedWith,
  METRICS,
  NOW_UNIX_S,
  open,
  post,
  startBackend,
  startBoth,
  startWith,
} from "./proxy.fixture.ts";
import { RefusedKey } from "../upstream/refused-key.ts";

afterEach(closeAll);

describe("responses of the backend", () => {
  it("use the same codes as the backend's own table", () => {
    const finals = Object.entries(ERROR_CODES).filter(
      ([code, [status]]) => [400, 413, 429].includes(status) && code !== "malformed_request",
    );
    const table = Object.groupBy(finals, ([, [status]]) => String(status));
    expect(Object.fromEntries(Object.entries(table).map(([status, rows]) => [status, rows?.map(([code]) => code)]))).toEqual(
      FINAL_REFUSALS,
    );
  });

  it.each(Object.entries(FINAL_REFUSALS).flatMap(([status, codes]) => codes.map((code) => [Number(status), code] as const)))(
    "passes %i on with the code %s",
    async (status, code) => {
      const { proxy } = await startBoth(errorAnswer(status, code));
      const answer = await post(proxy, "/v1/traces");
      expect(answer.status).toBe(status);
      expect(JSON.parse(answer.body)).toEqual({ error: code, message: "why" });
    },
  );

  it("passes on the Retry-After of a 429", async () => {
    const { proxy } = await startBoth(errorAnswer(429, "over_quota", { "retry-after": "17" }));
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 429, headers: { "retry-after": "17" } });
  });

  it.each([400, 413, 429])("keeps the data after %i without a body, because a proxy in between may have sent it", async (status) => {
    const { proxy } = await startBoth((_, response) => response.writeHead(status).end("<html>"));
    const answer = await post(proxy, "/v1/logs");
    expect(answer.status).toBe(503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });

  it("keeps the data after a known code with another status", async () => {
    const { proxy } = await startBoth(errorAnswer(413, "over_quota"));
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 503 });
  });

  it.each([200, 201, 202, 205, 301, 302, 307, 308, 404, 405, 408, 409, 415, 418, 422, 500, 501, 502, 503, 504])(
    "turns %i into 503 with Retry-After and follows nothing",
    async (status) => {
      const elsewhere = await startBackend();
      const { backend, proxy } = await startBoth((_, response) => response.writeHead(status, { location: `${elsewhere.url}/x` }).end());
      const answer = await post(proxy, "/v1/logs");
      expect(answer.status).toBe(503);
      expect(answer.headers["retry-after"]).toMatch(/^\d+$/);
      expect(backend.received).toHaveLength(1);
      expect(elsewhere.received).toHaveLength(0);
      expect(proxy.logged()).toContain(String(status));
    },
  );

  it("honours the backend's Retry-After within limits", async () => {
    const { backend, proxy } = await startBoth((_, response) => response.writeHead(503, { "retry-after": "9" }).end());
    expect((await post(proxy, "/v1/logs")).headers["retry-after"]).toBe("9");
    backend.answer = (_, response) => response.writeHead(503, { "retry-after": "999999" }).end();
    expect((await post(proxy, "/v1/logs")).headers["retry-after"]).toBe("300");
  });

  it.each(["Wed, 21 Oct 2065 07:28:00 GMT", "soon", "-5", "1.5", ""])(
    "ignores a Retry-After that is not a number of seconds: %j",
    async (text) => {
      const { proxy } = await startBoth((_, response) => response.writeHead(503, { "retry-after": text }).end());
      expect((await post(proxy, "/v1/logs")).headers["retry-after"]).toBe("2");
    },
  );

  it.each([401, 403])("reloads the credentials after a %i and signs once again", async (status) => {
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else errorAnswer(status, "unknown_key")(received, response);
    });
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    expect(await post(proxy, "/v1/logs", '{"a":1}')).toMatchObject({ status: 200 });
    expect(backend.received.map(({ body }) => body.toString())).toEqual(['{"a":1}', '{"a":1}']);
    expect(credentials.refreshes).toHaveLength(1);
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(3);
  });

  it("does not reload the store for a key that arrived in the meantime", async () => {
    const answers: (() => void)[] = [];
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else answers.push(() => errorAnswer(401, "unknown_key")(received, response));
    });
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    const posts = [post(proxy, "/v1/logs"), post(proxy, "/v1/traces")];
    await expect.poll(() => answers).toHaveLength(2);
    answers[0]?.();
    await Promise.race(posts);
    answers[1]?.();
    expect((await Promise.all(posts)).map(({ status }) => status)).toEqual([200, 200]);
    expect(credentials.refreshes).toHaveLength(1);
  });

  it("sends nothing under a rejected key for a while, and uses another key immediately", async () => {
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else errorAnswer(401, "revoked_key")(received, response);
    });
    let apiKey = "ak_first";
    const credentials = {
      current: () => ({ id: "c", apiKey, keyCreatedAt: "2026-01-01T00:00:00Z" }),
      refresh: () => Promise.resolve(credentials.current()),
    };
    const refusedKey = new RefusedKey(() => 0);
    const proxy = await startWith(backend.url, { credentials, refusedKey });
    const answers = [];
    for (let i = 0; i < 10; i++) answers.push(await post(proxy, "/v1/logs"));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(503));
    expect(answers[9]?.headers["retry-after"]).toBe("1");
    expect(backend.received).toHaveLength(1);
    expect(proxy.status().logs.lastError?.message).toContain("revoked_key");
    apiKey = "ak_second";
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
  });

  it("does not sign a third time: a key that is rejected twice gets 503", async () => {
    const backend = await startBackend(errorAnswer(401, "revoked_key"));
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(backend.url, { credentials });
    expect(await post(proxy, "/v1/traces")).toMatchObject({ status: 503 });
    expect(backend.received).toHaveLength(2);
    expect(proxy.status().traces.lastError?.message).toContain("revoked_key");
  });

  it("signs with the corrected clock after a stale timestamp", async () => {
    let skewS = 0;
    const backend = await startBackend((received, response) => {
      if (received.headers[TIMESTAMP_HEADER] === String(NOW_UNIX_S + 900)) accept(received, response);
      else errorAnswer(401, "stale_timestamp")(received, response);
    });
    const clock = { nowUnixS: () => NOW_UNIX_S + skewS, observe: () => (skewS = 900) };
    const proxy = await startWith(backend.url, { clock });
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
  });

  it("reports the key's age to the credentials, unless the key was rejected or the response contains none", async () => {
    const backend = await startBackend((_, response) => response.writeHead(204, { "x-key-age-days": "31" }).end());
    const seen: unknown[] = [];
    const credentials: CredentialSource = { ...credentialSource("ak_first"), noteKeyAge: ({ apiKey }, days) => seen.push([apiKey, days]) };
    const proxy = await startWith(backend.url, { credentials });
    await post(proxy, "/v1/logs");
    backend.answer = accept;
    await post(proxy, "/v1/logs");
    backend.answer = errorAnswer(401, "revoked_key", { "x-key-age-days": "32" });
    await post(proxy, "/v1/logs");
    backend.answer = errorAnswer(429, "over_quota", { "x-key-age-days": "33" });
    await post(proxy, "/v1/logs");
    expect(seen).toEqual([
      ["ak_first", 31],
      ["ak_first", 33],
    ]);
  });
});

describe("an outage", () => {
  it("returns 503 until there is a key", async () => {
    const { backend, proxy } = await startBoth(accept, { credentials: credentialSource(undefined) });
    const answer = await post(proxy, "/v1/logs", Buffer.alloc(300_000, 32));
    expect(answer.status).toBe(503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(backend.received).toHaveLength(0);
  });

  it("returns 503 while the backend is unreachable", async () => {
    const backend = await startBackend();
    const { url } = backend;
    const proxy = await startWith(url);
    await open.shift()?.[Symbol.asyncDispose]();
    const answer = await post(proxy, "/v1/metrics", METRICS);
    expect(answer.status).toBe(503);
    expect(proxy.status().metrics).toMatchObject({
      retried: 1,
      failingSince: expect.any(String),
      lastError: { message: expect.stringContaining("ECONNREFUSED") },
    });
  });

  it("tries a new key if the connection is closed in the middle of a body", async () => {
    const backend = await startBackend((received, response) => {
      if (isSignedWith("ak_second", received)) accept(received, response);
      else response.destroy();
    });
    const proxy = await startWith(backend.url, { credentials: credentialSource("ak_first", "ak_second") });
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 200 });
    expect(backend.received).toHaveLength(2);
  });

  it("does not send a whole body again with the same key if the connection is closed", async () => {
    const { backend, proxy } = await startBoth((_, response) => void response.destroy());
    expect(await post(proxy, "/v1/logs")).toMatchObject({ status: 503 });
    expect(backend.received).toHaveLength(1);
  });
});

describe("a large body", () => {
  it("is sent again as a whole if the first key is rejected before the body is complete", async () => {
    const body = Buffer.alloc(8 << 20, "0123456789abcdef");
    const received: Buffer[] = [];
    const server = createServer(async (request, response) => {
      const head = { method: "POST", url: request.url ?? "", headers: request.headers, body: Buffer.alloc(0) };
      if (!isSignedWith("ak_second", head)) {
        // Refuses like the backend: immediately, then reads little of the body and closes.
        response.writeHead(401, { connection: "close" }).end(JSON.stringify({ error: "unknown_key", message: "why" }));
        return;
      }
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      received.push(Buffer.concat(chunks));
      response.writeHead(204).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    open.push({ [Symbol.asyncDispose]: () => new Promise((done) => server.close(() => done()).closeAllConnections()) });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const credentials = credentialSource("ak_first", "ak_second");
    const proxy = await startWith(url, { credentials });
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write(`POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`);
    socket.write(body.subarray(0, 1 << 20));
    await expect.poll(() => credentials.refreshes).toHaveLength(1);
    socket.write(body.subarray(1 << 20));
    let answer = "";
    socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    await once(socket, "close");
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(received.map((each) => each.equals(body))).toEqual([true]);
  });
});
