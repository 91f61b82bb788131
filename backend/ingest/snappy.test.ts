// Snappy blocks become what was compressed, and blocks of another form are refused before they cost memory.
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { ApiError } from "../errors.ts";
import { compressSnappy } from "./snappy.fixture.ts";
import { decompressSnappy, snappyLength } from "./snappy.ts";

const codeOf = (block: Uint8Array): string => {
  try {
    decompressSnappy(block);
    return "accepted";
  } catch (error) {
    return (error as ApiError).code;
  }
};

test.each([
  ["nothing", Buffer.alloc(0)],
  ["one byte", Buffer.from("a")],
  ["random bytes, which are one literal", randomBytes(100_000)],
  ["text that repeats", Buffer.from("host=db-1 region=eu ".repeat(5000))],
  ["a run of one byte, whose copies overlap", Buffer.alloc(70_000, 7)],
])("decompresses %s unchanged", (_, bytes) => {
  const block = compressSnappy(bytes);
  expect(snappyLength(block)).toBe(bytes.length);
  expect(decompressSnappy(block).equals(bytes)).toBe(true);
});

test("decompresses copies with offsets of one and of four bytes", () => {
  // "abcd", then 4 bytes from 4 back, then 3 bytes from 8 back.
  const block = Buffer.from([11, 3 << 2, 0x61, 0x62, 0x63, 0x64, 0b0000_0001, 4, (2 << 2) | 3, 8, 0, 0, 0]);
  expect(decompressSnappy(block).toString()).toBe("abcdabcdabc");
});

test.each([
  ["an empty block", []],
  ["a length without an end", [0xff, 0xff, 0xff, 0xff, 0xff]],
  ["fewer bytes than declared", [5, 3 << 2, 1, 2, 3, 4]],
  ["more bytes than declared", [3, 3 << 2, 1, 2, 3, 4]],
  ["a literal beyond the end", [10, 9 << 2, 1, 2]],
  ["a copy of nothing", [4, 0b0000_0001, 1]],
  ["a copy with the offset 0", [8, 3 << 2, 1, 2, 3, 4, 0b0000_0001, 0]],
  ["a copy from before the beginning", [8, 3 << 2, 1, 2, 3, 4, 0b0000_0001, 5]],
  ["a copy that is cut off", [8, 3 << 2, 1, 2, 3, 4, (3 << 2) | 3, 4, 0]],
  ["a copy beyond the declared length", [6, 3 << 2, 1, 2, 3, 4, 0b0000_0001, 4]],
])("rejects %s", (_, block) => {
  expect(codeOf(Uint8Array.from(block))).toBe("malformed_body");
});

test("rejects a block that declares more than 32 MiB by its first bytes", () => {
  expect(codeOf(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0]))).toBe("body_too_large");
});

test("reads no damaged block beyond its end", () => {
  const bytes = Buffer.from("label=value ".repeat(300));
  const block = compressSnappy(bytes);
  for (let index = 0; index < 3000; index += 1) {
    const damaged = Buffer.from(block);
    damaged[index % block.length] = randomBytes(1)[0] as number;
    expect(["accepted", "malformed_body", "body_too_large"]).toContain(codeOf(damaged));
  }
});
