// Documents that cost much more than their bytes are refused before they are parsed, and others are parsed whatever their texts contain.
import { expect, test } from "vitest";
import { parseDocument } from "./document.ts";
import { MAX_JSON_KEYS } from "./otlp-metrics-limits.ts";

const MIB = 1024 * 1024;

function keys(count: number, keyOf: (index: number) => string): Buffer {
  const members: string[] = [];
  for (let index = 0; index < count; index += 1) members.push(`${keyOf(index)}:1`);
  return Buffer.from(`{${members.join(",")}}`);
}

test.each([
  ["of one object", keys(300_000, (index) => `"k${index}"`)],
  ["with blanks before the colon", keys(200_000, (index) => `"k${index}" \n`)],
  ["with escaped quotes and backslashes", keys(200_000, (index) => `"${index}\\"\\\\"`)],
  ["of many objects", Buffer.from(`[${Array.from({ length: 100_000 }, (_, index) => `{"k${index}":1}`).join(",")}]`)],
])("rejects a document with many different keys %s", (_, json) => {
  expect(() => parseDocument(json)).toThrow(expect.objectContaining({ kind: "too_large" }));
});

test("does not count texts that look like keys", () => {
  const text = Array.from({ length: 2 * MAX_JSON_KEYS }, (_, index) => `"k${index}":1 \\":`).join(",");
  const document = { name: text, times: Array(20).fill("12:30:45"), last: "\\" };
  expect(parseDocument(Buffer.from(JSON.stringify(document)))).toEqual(document);
});

test("counts repeated keys once", () => {
  const points = Array.from({ length: 20_000 }, (_, index) => ({ attributes: [{ key: `k${index}`, value: { intValue: "1" } }] }));
  expect(parseDocument(Buffer.from(JSON.stringify(points)))).toEqual(points);
});

test("reads a text of colons, quotes or backslashes in one pass", () => {
  for (const pattern of [":", '":', '\\":', "\\\\", " :", '" :']) {
    const startedAt = process.cpuUsage();
    try {
      parseDocument(Buffer.alloc(MIB, `{"${pattern}`));
    } catch {
      // Not JSON: only the time counts.
    }
    const { user, system } = process.cpuUsage(startedAt);
    expect((user + system) / 1000, pattern).toBeLessThan(2000);
  }
});
