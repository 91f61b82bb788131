// Documents that cost much more than their bytes, or that the parser would read only in part, are refused before they are parsed, and others
// are parsed whatever their texts contain.
import * as fc from "fast-check";
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

test.each([
  ['{"a":1,"b":2,"a":3}', "a"],
  ['{"a":{"a":1},"a":2}', "a"],
  ['{"a":[],"b":[{},{"c":{"d":[[0,{"e":1,"e":2}]]}}]}', "b[1].c.d[0][1].e"],
  [String.raw`{"dataPoints":[1],"\u0064ataPoints":[2]}`, "dataPoints"],
  [String.raw`{"\"x":1,"\u0022x":2}`, '"x'],
  [String.raw`{"a\\":1,"a\\":2}`, "a\\"],
  ['{"é":1,"e":2,"\\u00e9":3}', "é"],
  ['{"__proto__":1,"__proto__":2}', "__proto__"],
  ['{ "" : 1 , "" : 2 }', ""],
  // Both names are stored as U+FFFD.
  [String.raw`{"\ud800":1,"\udfff":2}`, "\uFFFD"],
  [`{${Array.from({ length: 5000 }, (_, index) => `"k${index}":0`).join(",")},"k4000":1}`, "k4000"],
])("rejects a document with a name that is given twice: %#", (json, path) => {
  expect(() => parseDocument(Buffer.from(json))).toThrow(
    expect.objectContaining({ kind: "malformed", message: `${path}: is given twice` }),
  );
});

function countMembers(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, item) => sum + countMembers(item), Array.isArray(value) ? 0 : Object.keys(value).length);
}

test("rejects exactly the documents that the parser would read only in part", () => {
  // Once V8 13.6 has parsed a name that ends with a backslash, it takes others with an escape at this place for the same.
  const name = fc.constantFrom('"a"', String.raw`"\u0061"`, '"b"', '"é"', String.raw`"\""`, '"{,:"');
  const { document } = fc.letrec<{ document: string; members: string }>((tie) => ({
    document: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      fc.constantFrom("1", '"a"', String.raw`"\",\"a\":"`, "null", "1234567890123456789"),
      fc.array(tie("document"), { maxLength: 3 }).map((items) => `[${items.join(",")}]`),
      tie("members").map((members) => `{${members}}`),
    ),
    members: fc.array(fc.tuple(name, tie("document")), { maxLength: 4 }).map((pairs) => pairs.map((pair) => pair.join(" : ")).join(" ,")),
  }));
  let refused = 0;
  fc.assert(
    fc.property(document, (json) => {
      // Each member of the text adds one to the colons outside of texts.
      const members = json.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1;
      let isRefused = false;
      try {
        parseDocument(Buffer.from(json));
      } catch {
        isRefused = true;
        refused += 1;
      }
      expect(isRefused).toBe(countMembers(JSON.parse(json)) < members);
    }),
    { seed: 43, numRuns: 5000 },
  );
  expect(refused).toBeGreaterThan(500);
});

test("integers keep their digits, and what looks like one stays as it is", () => {
  const json =
    '{"a":9007199254740993,"b":[-9223372036854775808,1795262400123999999],"1234567890123456":"1234567890123456, 12345678901234567",';
  expect(parseDocument(Buffer.from(`${json}"c":0.5000000000000001,"d":1e300,"e":123456789012345678.5}`))).toEqual({
    a: "9007199254740993",
    b: ["-9223372036854775808", "1795262400123999999"],
    1234567890123456: "1234567890123456, 12345678901234567",
    c: 0.500_000_000_000_000_1,
    d: 1e300,
    e: 123_456_789_012_345_680,
  });
  for (const invalid of ["{1234567890123456:1}", "[00000000000000001]", "[--1234567890123456]", "[1234567890123456 1]"])
    expect(() => parseDocument(Buffer.from(invalid)), invalid).toThrow(SyntaxError);
});

test("reads an escaped name as itself, whatever names earlier documents had", () => {
  expect(parseDocument(Buffer.from(String.raw`{"x":1,"\\":1,"a\\":1}`))).toEqual({ x: 1, "\\": 1, "a\\": 1 });
  // Those of JSON.parse itself are wrong in Node.js 24.
  const escaped = String.raw`{"x":1,"\u540d":12345678901234567,"a\u0062":{"\n":"\u540d"}}`;
  expect(parseDocument(Buffer.from(escaped))).toEqual({ x: 1, 名: "12345678901234567", ab: { "\n": "名" } });
  expect(parseDocument(Buffer.from(escaped), { roundsIntegers: true })).toMatchObject({ 名: 12345678901234568 });
});
