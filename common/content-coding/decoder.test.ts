/* oxlint-disable vitest/no-conditional-expect -- a body is either decompressed or refused, and both are compared */
// Bodies that join, cut and pad frames of each coding. Random bodies come from a seed that a failure reports; FRAMING_CASES=300000 tries as
// many.
import { randomBytes } from "node:crypto";
import type { Transform } from "node:stream";
import { finished } from "node:stream/promises";
import { constants, createGunzip, gzipSync, zstdCompressSync } from "node:zlib";
import * as fc from "fast-check";
import { expect, test, vi } from "vitest";
import { type Coding, decode, Decoder, decodeSmall, parseCoding, withoutByteOrderMark } from "./decoder.ts";

const CASES = Number(process.env["FRAMING_CASES"] ?? 300);
const MIB = 1024 * 1024;

const bytes = (hex: string): Buffer => Buffer.from(hex, "hex");
const zstd = (text: string | Buffer): Buffer =>
  zstdCompressSync(text, {
    params: { [constants.ZSTD_c_checksumFlag]: text.length % 2, [constants.ZSTD_c_contentSizeFlag]: text.length % 3 },
  });
/** With a checksum, without which the bytes of the next frame may complete a cut one. */
const checked = (content: string | Buffer): Buffer => zstdCompressSync(content, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
const gzip = (text: string | Buffer): Buffer => gzipSync(text);
const skippable = (length: number): Buffer => {
  const frame = Buffer.alloc(8 + length, 0x28);
  frame.writeUInt32LE(0x184d2a50 + (length % 16));
  frame.writeUInt32LE(length, 4);
  return frame;
};
const EMPTY = bytes("28b52ffd2000010000");
const LARGE = Buffer.alloc(300_000, "0123456789 abc ");

/** The whole body, by whichever way the programs decode it; a string if it is refused. */
async function decodeEachWay(body: Buffer, coding: Coding, pieceBytes: number): Promise<(Buffer | string)[]> {
  const attempts = [
    async () => decodeSmall(body, coding, 64 * MIB) ?? (await decode(body, coding, 64 * MIB)),
    () => decode(body, coding, 64 * MIB),
    async () => {
      const decoder = new Decoder(coding);
      const chunks: Buffer[] = [];
      decoder.on("data", (chunk: Buffer) => chunks.push(chunk));
      for (let at = 0; at < body.length; at += pieceBytes) decoder.write(body.subarray(at, at + pieceBytes));
      await finished(decoder.end());
      return Buffer.concat(chunks);
    },
  ];
  return await Promise.all(
    attempts.map((attempt) =>
      attempt().catch((error: unknown) => {
        expect(error).toMatchObject({ name: "BodyError", kind: "malformed" });
        return (error as Error).message;
      }),
    ),
  );
}

test.each<[Coding, string, Buffer[], string | Buffer]>([
  ["zstd", "one frame", [zstd("a")], "a"],
  ["zstd", "two frames", [zstd("a"), zstd("bc")], "abc"],
  ["zstd", "forty frames", Array.from({ length: 40 }, () => zstd("ab")), "ab".repeat(40)],
  ["zstd", "a skippable frame first", [skippable(5), zstd("a")], "a"],
  ["zstd", "an empty frame first", [EMPTY, zstd("a")], "a"],
  ["zstd", "skippable and empty frames between and after", [zstd("a"), EMPTY, skippable(0), zstd("b"), skippable(70_000), EMPTY], "ab"],
  ["zstd", "only a skippable frame", [skippable(3)], ""],
  ["zstd", "only an empty frame", [EMPTY], ""],
  ["zstd", "many large frames", Array.from({ length: 20 }, () => zstd(LARGE)), Buffer.concat(Array.from({ length: 20 }, () => LARGE))],
  ["zstd", "nothing at all", [], ""],
  ["gzip", "one member", [gzip("a")], "a"],
  ["gzip", "two members, the first of which is empty", [gzip(""), gzip("bc")], "bc"],
  ["gzip", "many large members", Array.from({ length: 20 }, () => gzip(LARGE)), Buffer.concat(Array.from({ length: 20 }, () => LARGE))],
  ["gzip", "zeros after the last member", [gzip("a"), Buffer.alloc(70_000)], "a"],
  ["gzip", "nothing at all", [], ""],
])("%s: decompresses %s whole", async (coding, _, parts, text) => {
  for (const pieceBytes of [1, 7, 70_000]) {
    const results = await decodeEachWay(Buffer.concat(parts), coding, pieceBytes);
    expect(results.map((result) => Buffer.from(text).equals(Buffer.from(result)))).toEqual([true, true, true]);
  }
});

test.each<[Coding, string, Buffer[], RegExp]>([
  ["zstd", "text after a frame", [zstd("a"), Buffer.from("garbage!")], /belong to no zstd frame follow frame 1$/],
  ["zstd", "a zero after a frame", [zstd("a"), bytes("00")], /cut off|frame/],
  ["zstd", "gzip after a frame", [zstd("a"), gzip("b")], /belong to no zstd frame/],
  ["zstd", "text", [Buffer.from("not zstd")], /the body is not zstd$/],
  ["zstd", "a cut frame", [zstd("abc").subarray(0, -1)], /cut off within a zstd frame$/],
  ["zstd", "a cut second frame", [zstd("a"), zstd("bcd").subarray(0, 9)], /cut off within a zstd frame$/],
  ["zstd", "a cut magic number", [zstd("a"), bytes("28b5")], /cut off within a zstd frame$/],
  ["zstd", "a cut skippable frame", [zstd("a"), skippable(9).subarray(0, 12)], /cut off within a zstd frame$/],
  ["zstd", "a wrong checksum", [checked("abc").subarray(0, -1), bytes("00"), zstd("b")], /./],
  ["zstd", "a window of 128 MiB", [zstd("a"), bytes("28b52ffd0088010000")], /a zstd window of 128 MiB; at most 8 MiB are accepted/],
  ["zstd", "an unknown type of block", [bytes("28b52ffd2000070000")], /unknown type/],
  ["zstd", "a million empty frames", [Buffer.alloc(9 * 1_000_000, EMPTY)], / 66 zstd frames, which have fewer than 512 bytes on average/],
  ["zstd", "a million skippable frames", [Buffer.alloc(8 * 1_000_000, skippable(0))], / 66 zstd frames, which have fewer than 512/],
  ["gzip", "text after a member", [gzip("a"), Buffer.from("garbage!")], /./],
  ["gzip", "a member after zeros", [gzip("a"), Buffer.alloc(9), gzip("b")], /belong to no gzip member follow zeros/],
  ["gzip", "a member after many zeros", [gzip("a"), Buffer.alloc(200_000), gzip("b")], /belong to no gzip member follow zeros/],
  ["gzip", "a cut member", [gzip("abc").subarray(0, -1)], /unexpected end/],
  ["gzip", "a cut second member", [gzip("a"), gzip("b").subarray(0, 1)], /unexpected end/],
])("%s: rejects %s", async (coding, _, parts, message) => {
  for (const pieceBytes of [Math.max(1, Math.ceil(Buffer.concat(parts).length / 1000)), 70_000]) {
    for (const result of await decodeEachWay(Buffer.concat(parts), coding, pieceBytes)) expect(result).toMatch(message);
  }
});

interface Part {
  readonly bytes: Buffer;
  /** Its decompressed content; undefined for bytes that are no whole frame. */
  readonly content: Buffer | undefined;
}

const text = fc.oneof(
  { weight: 8, arbitrary: fc.string({ maxLength: 50 }).map((short) => Buffer.from(short)) },
  { weight: 1, arbitrary: fc.nat(200_000).map((length) => Buffer.alloc(length, "text that repeats ")) },
);
const frame = (compress: (content: Buffer) => Buffer): fc.Arbitrary<Part> => text.map((content) => ({ bytes: compress(content), content }));
const cut = (whole: fc.Arbitrary<Buffer>): fc.Arbitrary<Part> =>
  fc.tuple(whole, fc.double({ min: 0, max: 0.999, noNaN: true })).map(([all, share]) => ({
    bytes: all.subarray(0, 1 + Math.floor(share * (all.length - 1))),
    content: undefined,
  }));
/** A skippable frame that announces 1 GiB: what follows a shorter one might have the missing length. */
const unfinished = (length: number): Part => {
  const bytes = skippable(length);
  bytes.writeUInt32LE(2 ** 30, 4);
  return { bytes, content: undefined };
};
const garbage = fc.uint8Array({ minLength: 1, maxLength: 30 }).map((random) => ({
  bytes: Buffer.concat([Buffer.from("?"), random]),
  content: undefined,
}));
const none = (whole: Buffer): Part => ({ bytes: whole, content: Buffer.alloc(0) });
const PARTS: Readonly<Record<Coding, fc.Arbitrary<Part>>> = {
  zstd: fc.oneof(
    { weight: 6, arbitrary: frame(zstd) },
    { weight: 2, arbitrary: fc.oneof(fc.nat(20), fc.nat(100_000)).map((length) => none(skippable(length))) },
    { weight: 1, arbitrary: fc.constant(none(EMPTY)) },
    { weight: 1, arbitrary: fc.oneof(cut(text.map(checked)), fc.nat(3000).map(unfinished)) },
    { weight: 1, arbitrary: garbage },
  ),
  gzip: fc.oneof({ weight: 6, arbitrary: frame(gzip) }, { weight: 1, arbitrary: cut(text.map(gzip)) }, { weight: 1, arbitrary: garbage }),
};

test.each<Coding>(["zstd", "gzip"])("%s: decompresses random bodies whole, or rejects them", { timeout: 3_600_000 }, async (coding) => {
  let accepted = 0;
  const property = fc.asyncProperty(
    fc.array(PARTS[coding], { minLength: 1, maxLength: 8 }),
    fc.integer({ min: 1, max: 80_000 }),
    async (parts, piece) => {
      const body = Buffer.concat(parts.map((part) => part.bytes));
      const contents = parts.map((part) => part.content);
      const isWhole = contents.every((content) => content !== undefined);
      const results = await decodeEachWay(body, coding, Math.max(piece, body.length >> 10));
      for (const result of results) expect(typeof result === "string" ? "refused" : "accepted").toBe(isWhole ? "accepted" : "refused");
      if (!isWhole) return;
      accepted += 1;
      const content = Buffer.concat(contents);
      for (const result of results) expect(content.equals(result as Buffer)).toBe(true);
    },
  );
  await fc.assert(property, { numRuns: CASES / 2, seed: Number(process.env["FRAMING_SEED"] ?? 1) });
  expect(accepted).toBeGreaterThan(CASES / 10);
});

test("many frames together stay within the limit for the decompressed body", async () => {
  const bomb = Buffer.concat(Array.from({ length: 50 }, () => zstd(Buffer.alloc(MIB))));
  expect(decodeSmall(bomb.subarray(0, bomb.length / 25), "zstd", MIB)).toBeUndefined();
  await expect(decode(bomb, "zstd", 32 * MIB)).rejects.toMatchObject({ kind: "too_large" });
});

test.each<[string | undefined, Coding | undefined | "refused"]>([
  [undefined, undefined],
  ["", undefined],
  ["identity", undefined],
  ["identity, identity", undefined],
  [" GZIP ", "gzip"],
  ["x-gzip", "gzip"],
  ["identity, gzip", "gzip"],
  ["zstd,", "zstd"],
  ["gzip, zstd", "refused"],
  ["gzip, gzip", "refused"],
  ["zstd, identity, zstd", "refused"],
  ["br", "refused"],
  ["toString", "refused"],
  ["gzip;q=1", "refused"],
  [`${"identity,".repeat(20)}gzip`, "refused"],
])("Content-Encoding %j is %s", (header, coding) => {
  const parse = (): Coding | undefined | "refused" => {
    try {
      return parseCoding(header);
    } catch (error) {
      expect(error).toMatchObject({ kind: "unsupported_encoding", message: expect.stringContaining("gzip, zstd or absent") as string });
      return "refused";
    }
  };
  expect(parse()).toBe(coding);
});

test("passes a body in pieces of one byte to the decompressor in pieces of 64 KiB", async () => {
  const write = vi.spyOn(Object.getPrototypeOf(createGunzip()) as Transform, "write");
  const body = gzipSync(randomBytes(100_000));
  await decodeEachWay(body, "gzip", 1);
  // The other two ways give it everything at once.
  const pieces = write.mock.calls.filter(([chunk]) => (chunk as Buffer).length < body.length);
  write.mockRestore();
  expect(pieces.length).toBeLessThan(5);
});

test("removes a byte order mark once, at the start only", () => {
  expect(withoutByteOrderMark(Buffer.from("\uFEFF\uFEFF{}\uFEFF")).toString()).toBe("\uFEFF{}\uFEFF");
  expect(withoutByteOrderMark(Buffer.from("{}")).toString()).toBe("{}");
});
