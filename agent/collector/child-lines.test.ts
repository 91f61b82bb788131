import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { maskSecrets } from "../../common/mask.ts";
import { CUT_MARK, eachLine, MAX_LINE_LENGTH } from "./child-lines.ts";

/** The lines of bytes that come in these pieces. */
async function linesOf(pieces: readonly (string | Uint8Array)[]): Promise<string[]> {
  const lines: string[] = [];
  const stream = Readable.from(
    pieces.map((piece) => Buffer.from(piece)),
    { objectMode: false },
  );
  eachLine(stream, (line) => lines.push(line));
  await new Promise((ended) => stream.on("end", ended));
  return lines;
}

test.each([
  ["one in several pieces", ["a", "b\n"], ["ab"]],
  ["several in one piece", ["a\nb\n\nc\n"], ["a", "b", "", "c"]],
  ["one whose end is missing", ["a\nb"], ["a", "b"]],
  ["ends of Windows", ["a\r", "\nb\r\n"], ["a", "b"]],
  ["a character that comes in two pieces", [Buffer.from("ü\n").subarray(0, 1), Buffer.from("ü\n").subarray(1)], ["ü"]],
  ["none", [], []],
])("lines come whole: %s", async (_what, pieces, lines) => {
  expect(await linesOf(pieces)).toEqual(lines);
});

test("one of the greatest length comes whole, a longer one cut, and the next one after it whole", async () => {
  const longest = "x".repeat(MAX_LINE_LENGTH);
  const lines = await linesOf([`${longest}\n`, longest, longest, `${longest}y\nnext\n`]);
  expect(lines).toHaveLength(3);
  expect(lines[0] === longest).toBe(true);
  expect(lines[1]?.endsWith(`x${CUT_MARK}`)).toBe(true);
  expect(lines[1]?.length).toBeLessThanOrEqual(MAX_LINE_LENGTH + CUT_MARK.length);
  expect(lines[2]).toBe("next");
});

test.each([
  "ak_hunter22hunter22",
  "http://user:hunter22@proxy:8080",
  '\\"api_key\\":\\"hunter22\\"',
  "Bearer hunter22.hunter22",
  "eyJhunter22.eyJhunter22.hunter22",
  "password: hunter22",
])("nothing is shown of a secret wherever the cut goes through it: %s", async (secret) => {
  for (const before of ["word ", "x".repeat(9000)]) {
    for (let place = 0; place <= secret.length; place++) {
      const filled = before.padStart(MAX_LINE_LENGTH - place, "y ");
      const [line = ""] = await linesOf([`${filled}${secret} and more`]);
      expect(line.endsWith(CUT_MARK)).toBe(true);
      expect(maskSecrets(line)).not.toContain("hunter22");
      expect(line).not.toMatch(/hunter?[2]?$/);
    }
  }
});
