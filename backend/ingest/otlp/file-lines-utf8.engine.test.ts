// Bytes of raw lines that are not UTF-8 are replaced as the collector's sanitize_utf8 replaces them: wherever a sequence begins in the words
// that the kernel reads at once, and in random text.
import { isUtf8 } from "node:buffer";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LINES, lineRecord, linesBody, storedLine, storedLines } from "./file-lines.fixture.ts";

describe("bytes that are not UTF-8", () => {
  /** Character by character, as the collector's sanitize_utf8 does it. */
  function sanitized(bytes: Buffer): string {
    let text = "";
    let isReplaced = false;
    for (let at = 0; at < bytes.length;) {
      const lead = bytes[at] ?? 0;
      const character = bytes.subarray(at, at + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4));
      const isValid = isUtf8(character) && (character.length === 1 || lead >= 0xc0);
      if (isValid || !isReplaced) text += isValid ? character.toString() : "\uFFFD";
      isReplaced = !isValid;
      at += isValid ? character.length : 1;
    }
    return text;
  }

  const TAILS = [[], [0x80], [0xbf, 0x80], [0x80, 0x80, 0x61]];
  const SECONDS = [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0];

  it.each([0, 1, 5, 12, 13, 14, 15, 16, 17])("are found wherever a sequence begins: after %i bytes", (before) => {
    const lines = Array.from({ length: 64 }, (_, index) => 0xc0 + index).flatMap((lead) =>
      SECONDS.flatMap((second) => TAILS.map((tail) => Buffer.from([...Buffer.alloc(before, "a"), lead, second, ...tail]))),
    );
    const records = lines.map((line) => lineRecord(line));
    // Of very short lines, the replacements do not fit in the kernel's memory.
    const rows = storedLines(linesBody(LINES, records), { isFast: before > 5 });
    expect(rows.map(({ message }) => message)).toEqual(lines.map((line) => sanitized(line)));
  });

  it("are replaced once for each run, in random text", () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 20 }),
      fc.string({ unit: "grapheme", maxLength: 20 }).map((text) => Buffer.from(text)),
      fc
        .constantFrom("é", "€", "😀", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xf4\x90\x80\x80")
        .map((text) => Buffer.from(text, "latin1")),
    );
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 12 }), (pieces) => {
        const line = Buffer.concat(pieces);
        expect(storedLine(LINES, line).message).toBe(sanitized(line));
      }),
      { numRuns: 300 },
    );
  });
});
