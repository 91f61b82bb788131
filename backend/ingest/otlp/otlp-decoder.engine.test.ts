// On which thread and when a body is decoded, and how much memory it may use there; organisations take turns.
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { ApiError } from "../../errors.ts";
import { CONTEXT, decodeWith, T } from "./decoded-rows.fixture.ts";
import { decodeWithHash, logRecord, logsBody, stringAttribute, tracesBody } from "./otlp-body.fixture.ts";
import { OtlpDecoder } from "./otlp-decoder.ts";

const MIB = 1024 * 1024;

describe("the decoder's threads", () => {
  const large = (count: number) =>
    logsBody(Array.from({ length: count }, (_, index) => logRecord(BigInt(T) + BigInt(index), `line ${index}`)));

  it("decode large and small bodies to the same rows as the main thread, with the body's hash", async () => {
    await using decoder = new OtlpDecoder(2);
    const bodies = [500, 501, 5002, 5003, 1].map(large);
    const expected = bodies.map((body) => {
      const bodyHash = String(createHash("sha256").update(body).digest().readBigUInt64BE());
      return decodeWithHash({ signal: "logs", body: Buffer.from(body), context: { ...CONTEXT, bodyHash } });
    });
    expect(await Promise.all(bodies.map((body) => decodeWith(decoder, body)))).toEqual(expected);
    expect(decoder.heldBytes).toBe(0);
  });

  it("release a large body's memory when its rows are complete, before the store has them", async () => {
    await using decoder = new OtlpDecoder(1);
    for (const count of [500, 5002]) {
      const body = Buffer.from(new Uint8Array(large(count)).buffer);
      expect((await decodeWith(decoder, body)).accepted).toBe(count);
      expect(body.byteLength).toBe(0);
    }
  });

  it("start with the first body that needs one, end when they are idle, and start again", async () => {
    await using decoder = new OtlpDecoder(2, { idleMs: 20 });
    await decodeWith(decoder, large(1));
    expect(decoder.threads).toBe(0);
    for (let turn = 0; turn < 2; turn += 1) {
      expect((await decodeWith(decoder, large(20_000))).accepted).toBe(20_000);
      expect(decoder.threads).toBe(1);
      await expect.poll(() => decoder.threads, { timeout: 30_000 }).toBe(0);
    }
  });

  it("return a rejection with its code and field, and continue", async () => {
    await using decoder = new OtlpDecoder(1);
    const broken = Buffer.from(large(500).toString().replace(`"${T}"`, '"x"'));
    await expect(decodeWith(decoder, broken)).rejects.toMatchObject({
      code: "invalid_payload",
      message: expect.stringContaining("logRecords[0].timeUnixNano"),
    });
    expect((await decodeWith(decoder, large(500))).accepted).toBe(500);
  });

  it("limit the rows of one organisation to its share, and decode another's meanwhile", async () => {
    await using decoder = new OtlpDecoder(2);
    const rows = 100 * MIB;
    const body = () =>
      logsBody(
        Array.from({ length: rows / 100_000 }, () => logRecord(BigInt(T), "x")),
        [stringAttribute("a", "y".repeat(100_000))],
      );
    using held = decoder.open("greedy");
    await decoder.decode({ signal: "logs", body: body(), context: { ...CONTEXT, orgId: "greedy" } }, held);
    expect(decoder.heldBytes).toBeGreaterThan(rows * 0.9);
    let isDecoded = false;
    const next = decodeWith(decoder, body(), "greedy").finally(() => (isDecoded = true));
    expect((await decodeWith(decoder, body(), "other")).accepted).toBe(1048);
    expect(isDecoded).toBe(false);
    held[Symbol.dispose]();
    expect((await next).accepted).toBe(1048);
  });

  it("decode another organisation's body next, however many of one wait", async () => {
    await using decoder = new OtlpDecoder(1);
    const done: string[] = [];
    const greedy = Array.from({ length: 20 }, () => decodeWith(decoder, large(5000), "greedy").then(() => done.push("greedy")));
    await decodeWith(decoder, large(500), "other").then(() => done.push("other"));
    expect(done.indexOf("other")).toBeLessThanOrEqual(2);
    await Promise.all(greedy);
    const flood = await Promise.allSettled(Array.from({ length: 300 }, () => decodeWith(decoder, large(500), "greedy")));
    const refused = flood.flatMap((each) => (each.status === "rejected" ? [each.reason as ApiError] : []));
    expect(refused.length).toBeGreaterThan(0);
    expect(refused[0]).toMatchObject({ code: "unavailable", retryAfterS: 1 });
  });
});

describe("the main thread", () => {
  const body = (count: number) =>
    logsBody(Array.from({ length: count }, (_, index) => logRecord(BigInt(T), `line ${index} ${"x".repeat(200)}`)));

  it("decodes one larger body per iteration of the event loop, another organisation's next", async () => {
    await using decoder = new OtlpDecoder(1);
    const done: string[] = [];
    const decode = (orgId: string) => decodeWith(decoder, body(900), orgId).then(() => done.push(orgId));
    const all = [...Array.from({ length: 8 }, () => decode("greedy")), decode("other")];
    const perTurn: number[] = [];
    while (done.length < all.length) {
      const before = done.length;
      await new Promise((next) => setImmediate(next));
      perTurn.push(done.length - before);
    }
    await Promise.all(all);
    expect(Math.max(...perTurn)).toBe(1);
    expect(done.indexOf("other")).toBeLessThanOrEqual(1);
  });

  it("leaves to the threads what the kernel cannot decode", async () => {
    await using decoder = new OtlpDecoder(1);
    const odd = Buffer.from(body(300).toString().replace('"body"', '"\\u0062ody"'));
    const cut = Buffer.from(odd.subarray(0, -1));
    const even = await decodeWith(decoder, body(300));
    expect((await decodeWith(decoder, odd)).sections.map(({ bytes }) => bytes.length)).toEqual(
      even.sections.map(({ bytes }) => bytes.length),
    );
    await expect(decodeWith(decoder, cut)).rejects.toMatchObject({ code: "malformed_body" });
    expect(decoder.heldBytes).toBe(0);
  });
});

describe("a small body that expands to many rows", () => {
  const resource = [stringAttribute("process.command_args", "x".repeat(15_000))];

  it("is rejected before its rows are created, as a batch that can be split", async () => {
    await using decoder = new OtlpDecoder(1);
    const huge = [stringAttribute("process.command_args", "x".repeat(6_000_000))];
    for (const body of [
      logsBody(
        Array.from({ length: 20_000 }, () => ({})),
        resource,
      ),
      logsBody(
        Array.from({ length: 2000 }, () => ({})),
        huge,
      ),
    ]) {
      await expect(decodeWith(decoder, body)).rejects.toMatchObject({
        code: "batch_too_large",
        status: 413,
        message: expect.stringContaining("send smaller batches"),
      });
    }
    const spans = tracesBody(
      Array.from({ length: 20_000 }, () => ({})),
      resource,
    );
    await expect(decodeWith(decoder, spans, "org", "traces")).rejects.toMatchObject({ code: "batch_too_large" });
    expect(decoder.heldBytes).toBe(0);
  });

  it("is not decoded on the main thread", async () => {
    await using decoder = new OtlpDecoder(1);
    const body = logsBody(
      Array.from({ length: 4000 }, () => ({})),
      resource,
    );
    expect(body.byteLength).toBeLessThan(32 * 1024);
    const decoding = decodeWith(decoder, body);
    // The worker asks before it makes them: nothing is held in this turn.
    expect(decoder.heldBytes).toBe(0);
    expect((await decoding).accepted).toBe(4000);
  });
});
