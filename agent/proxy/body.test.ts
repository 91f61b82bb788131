// Bodies through a running proxy: encodings, sizes, chunks, senders that disconnect, and how many bytes are held at once.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { PassThrough } from "node:stream";
import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { ReceivedBody, MemoryBudget, Reservation } from "./body.ts";
import { accept, closeAll, credentialSource, METRICS, open, post, sendRaw, startBoth } from "./proxy.fixture.ts";
import { stub } from "../../test/fixtures/stub.ts";

afterEach(closeAll);

describe("bodies", () => {
  it("passes a gzip body unchanged", async () => {
    const { backend, proxy } = await startBoth(accept, { compression: "zstd" });
    const body = gzipSync('{"resourceLogs":[]}');
    expect(await post(proxy, "/v1/logs", body, { "content-encoding": "gzip" })).toMatchObject({ status: 200 });
    expect(backend.received[0]?.headers["content-encoding"]).toBe("gzip");
    expect(backend.received[0]?.body.equals(body)).toBe(true);
  });

  it("accepts the next request on a connection whose body was rejected half-way", async () => {
    const { proxy } = await startBoth(accept, { credentials: credentialSource(undefined, "ak_first") });
    const head = `POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 1000000\r\n`;
    const socket = connect(proxy.port, "127.0.0.1");
    open.push({ [Symbol.asyncDispose]: async () => void socket.destroy() });
    let answers = "";
    socket.on("data", (chunk: Buffer) => (answers += chunk.toString()));
    socket.write(`${head}\r\n${" ".repeat(400_000)}`);
    await expect.poll(() => answers).toMatch(/ 503 /);
    socket.write(" ".repeat(600_000));
    answers = "";
    socket.write(`${head}Connection: close\r\n\r\n${" ".repeat(1_000_000)}`);
    await once(socket, "close");
    expect(answers).toMatch(/^HTTP\/1\.1 503 /);
  });

  it("passes chunked bodies whole", async () => {
    const { backend, proxy } = await startBoth();
    const chunks = '4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n';
    const head = `POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(proxy, head + chunks)).toMatch(/^HTTP\/1\.1 200 /);
    expect(backend.received[0]?.body.toString()).toBe('{"a":1}');
  });

  it("an aborted body does not reach the backend as a success", async () => {
    const { backend, proxy } = await startBoth();
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write(`POST /v1/logs HTTP/1.1\r\nHost: 127.0.0.1:${proxy.port}\r\nContent-Length: 1000000\r\n\r\n${" ".repeat(200_000)}`);
    await expect.poll(() => socket.bytesWritten).toBeGreaterThan(200_000);
    socket.destroy();
    expect(await post(proxy, "/v1/logs", "{}")).toMatchObject({ status: 200 });
    expect(backend.received.map(({ body }) => body.toString())).toEqual(["{}"]);
    expect(proxy.status().logs).toMatchObject({ accepted: 1, retried: 0, refused: 0 });
  });

  it.each<[string, Buffer | string, Record<string, string>]>([
    ["gzip", gzipSync(METRICS), { "content-encoding": "gzip" }],
    ["plain, with a byte order mark", `\uFEFF${METRICS}`, {}],
  ])("reads metrics: %s", async (_, body, headers) => {
    const { backend, proxy } = await startBoth();
    expect(await post(proxy, "/v1/metrics", body, headers)).toMatchObject({ status: 200 });
    expect(backend.received[0]?.body.toString()).toBe("up 1 1763714400000\n");
  });

  it.each([
    ["gzip", gzipSync],
    ["zstd", zstdCompressSync],
  ] as const)("decompresses %s metrics with a high ratio", async (encoding, compress) => {
    const { backend, proxy } = await startBoth();
    const body = compress(METRICS + " ".repeat(3_000_000));
    expect(await post(proxy, "/v1/metrics", body, { "content-encoding": encoding })).toMatchObject({ status: 200 });
    expect(backend.received[0]?.body.toString()).toBe("up 1 1763714400000\n");
  });

  it("decompresses metrics of several frames, and rejects trailing bytes", async () => {
    const { backend, proxy } = await startBoth();
    const [first, second] = [zstdCompressSync(`\uFEFF${METRICS.slice(0, 20)}`), zstdCompressSync(METRICS.slice(20))];
    for (const size of [0, 3_000_000]) {
      const frames = [zstdCompressSync(""), first, second, zstdCompressSync(" ".repeat(size))];
      expect(await post(proxy, "/v1/metrics", Buffer.concat(frames), { "content-encoding": "zstd" })).toMatchObject({ status: 200 });
      const more = Buffer.concat([...frames, Buffer.from("garbage")]);
      expect(await post(proxy, "/v1/metrics", more, { "content-encoding": "zstd" })).toMatchObject({ status: 400 });
    }
    expect(backend.received.map(({ body }) => body.toString())).toEqual(["up 1 1763714400000\n", "up 1 1763714400000\n"]);
  });

  it.each([
    ["gzip", gunzipSync],
    ["zstd", zstdDecompressSync],
  ] as const)("compresses with %s for the backend", async (compression, decompress) => {
    const { backend, proxy } = await startBoth(accept, { compression });
    const large = `{"resourceLogs":[${" ".repeat(200_000)}]}`;
    await post(proxy, "/v1/logs", '{"resourceLogs":[]}');
    await post(proxy, "/v1/logs", large);
    await post(proxy, "/v1/metrics", METRICS);
    expect(backend.received.map(({ headers }) => headers["content-encoding"])).toEqual([compression, compression, compression]);
    const bodies = ['{"resourceLogs":[]}', large, "up 1 1763714400000\n"];
    expect(backend.received.map(({ body }) => decompress(body).toString())).toEqual(bodies);
  });

  it.each([
    ["metrics that are not JSON", "/v1/metrics", "{", {}, 400],
    ["metrics that are not gzip", "/v1/metrics", "{}", { "content-encoding": "gzip" }, 400],
    ["an encoding that the backend does not take", "/v1/logs", "{}", { "content-encoding": "snappy" }, 503],
  ])("sends nothing for %s", async (_, path, body, headers, status) => {
    const { backend, proxy } = await startBoth();
    expect(await post(proxy, path, body, headers as Record<string, string>)).toMatchObject({ status });
    expect(backend.received).toHaveLength(0);
  });

  it("rejects a body above 32 MiB like the backend, before and while it reads it", async () => {
    const { backend, proxy } = await startBoth();
    const announced = await sendRaw(
      proxy,
      `POST /v1/logs HTTP/1.1\r\nHost: localhost:${proxy.port}\r\nContent-Length: ${33 << 20}\r\n\r\n{`,
    );
    expect(announced).toMatch(/^HTTP\/1\.1 413 [^]*body_too_large/);
    const bomb = gzipSync(Buffer.alloc(65 << 20));
    expect(await post(proxy, "/v1/metrics", bomb, { "content-encoding": "gzip" })).toMatchObject({ status: 413 });
    expect(backend.received).toHaveLength(0);
  });

  it("buffers no more than its budget, and other requests get 429", async () => {
    const answers: (() => void)[] = [];
    const { backend, proxy } = await startBoth((received, response) => void answers.push(() => accept(received, response)), {
      maxHeldBytes: 250_000,
    });
    const body = Buffer.alloc(100_000, 32);
    const held = [post(proxy, "/v1/logs", body), post(proxy, "/v1/traces", body)];
    await expect.poll(() => answers).toHaveLength(2);
    expect(await post(proxy, "/v1/logs", body)).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
    expect(proxy.status().logs, "a full proxy is not an outage of the backend").toMatchObject({ failingSince: null, retried: 1 });
    for (const answer of answers) answer();
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    backend.answer = accept;
    expect(await post(proxy, "/v1/logs", Buffer.alloc(400_000, 32)), "one body alone always gets in").toMatchObject({ status: 200 });
  });

  it("gives all that a request held back to the budget, copies of its body included", () => {
    const budget = new MemoryBudget(100);
    const hold = (): number => {
      using reservation = new Reservation(budget);
      reservation.growTo(40);
      reservation.addCopies(50);
      return budget.usedBytes;
    };
    expect([hold(), budget.usedBytes]).toEqual([90, 0]);
  });

  it("buffers a body that arrives byte by byte in few pieces, to limit its memory", async () => {
    const request = Object.assign(new PassThrough(), { headers: {} });
    const body = new ReceivedBody(stub<IncomingMessage>(request), 1 << 20, new Reservation(new MemoryBudget(1 << 20)));
    const sent = Array.from({ length: 100_000 }, (_, i) => i % 251);
    for (const byte of sent) request.emit("data", Buffer.from([byte]));
    request.emit("data", Buffer.alloc(10_000, 1));
    request.emit("data", Buffer.from([2]));
    request.emit("end");
    const pieces: Buffer[] = [];
    for await (const piece of body) pieces.push(piece);
    expect(pieces.length).toBeLessThan(20);
    expect((await body.whole()).equals(Buffer.concat([Buffer.from(sent), Buffer.alloc(10_000, 1), Buffer.from([2])]))).toBe(true);
  });
});
