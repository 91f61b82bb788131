/* oxlint-disable vitest/no-conditional-expect -- a property has two outcomes */
// Random documents: valid ones become the expected rows, damaged ones are refused or decoded completely.
import { decodeWithHash } from "./otlp-body.fixture.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiError } from "../../errors.ts";
import { CONTEXT, mapOf, onlyLog, readRows, rowsOf, T } from "./decoded-rows.fixture.ts";

describe("any document", () => {
  const anyText = fc.string({ unit: "binary", maxLength: 20 });
  const anyKey = fc.oneof(anyText, fc.constantFrom("__proto__", "constructor", "node", "a", "b"));
  const anyValue = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      fc.record({ stringValue: anyText }),
      fc.record({ intValue: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String) }),
      fc.record({ boolValue: fc.boolean() }),
      fc.record({ doubleValue: fc.double({ noNaN: true, noDefaultInfinity: true }) }),
      fc.record({ arrayValue: fc.record({ values: fc.array(tie("value"), { maxLength: 3 }) }) }),
      fc.record({ kvlistValue: fc.record({ values: fc.array(fc.record({ key: anyKey, value: tie("value") }), { maxLength: 3 }) }) }),
    ),
  })).value;
  const anyAttributes = fc.array(fc.record({ key: anyKey, value: fc.record({ stringValue: anyText }) }), { maxLength: 4 });
  const anyTime = fc.bigInt({ min: BigInt(T) - 86_400_000_000_000n * 20n, max: BigInt(T) }).map(String);
  const anyRecord = fc.record({ timeUnixNano: anyTime, severityText: anyText, body: anyValue, attributes: anyAttributes });
  const anyLogs = fc.record({
    resourceLogs: fc.array(
      fc.record({
        resource: fc.record({ attributes: anyAttributes }),
        scopeLogs: fc.array(fc.record({ logRecords: fc.array(anyRecord, { maxLength: 4 }) }), { maxLength: 2 }),
      }),
      { maxLength: 2 },
    ),
  });

  it("that is valid becomes the rows of its records", () => {
    fc.assert(
      fc.property(anyLogs, (document) => {
        const rows = rowsOf("logs", document);
        const records = document.resourceLogs.flatMap(({ resource, scopeLogs }) =>
          scopeLogs.flatMap(({ logRecords }) => logRecords.map((record) => ({ resource, record }))),
        );
        const expected = records.map(({ resource, record }) => ({
          time: record.timeUnixNano,
          level: record.severityText.toLowerCase().toWellFormed() || "info",
          labels: JSON.stringify(expectedLabels(resource.attributes, record.attributes)),
        }));
        const got = rows.map((row) => ({
          time: row["time"],
          level: row["level"],
          labels: JSON.stringify(sorted(mapOf(row["labels"] ?? ""))),
        }));
        const order = (a: object, b: object) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
        expect(got.sort(order)).toEqual(expected.sort(order));
        for (const { record } of records) checkBodyText(onlyLog(record)["message"] ?? "", record.body);
      }),
      { numRuns: 300 },
    );
  });

  it("that is damaged is rejected with 400 or decoded whole", () => {
    const anything = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(null, -1, 1.5, "", "x", {}, [], 1e19, "NaN"));
    fc.assert(
      fc.property(anyLogs, fc.nat(), anything, fc.boolean(), (document, position, replacement, cut) => {
        const damaged = damage(document, position, replacement);
        const text = JSON.stringify(damaged);
        const body = Buffer.from(cut ? text.slice(0, position % (text.length + 1)) : text);
        for (const signal of ["logs", "traces"] as const) {
          try {
            const { accepted, dropped, sections } = decodeWithHash({ signal, body, context: CONTEXT });
            expect(sections.reduce((sum, { count }) => sum + count, 0)).toBe(accepted);
            for (const section of sections) readRows(signal, section);
            expect(Object.values(dropped).every((count) => count > 0)).toBe(true);
          } catch (error) {
            expect(error).toBeInstanceOf(ApiError);
            expect((error as ApiError).status).toBe(400);
            expect((error as ApiError).message).not.toBe("");
          }
        }
      }),
      { numRuns: 2000 },
    );
  });

  function expectedLabels(...attributeLists: { key: string; value: { stringValue: string } }[][]): Record<string, string> {
    const [resource = [], record = []] = attributeLists;
    const labels = Object.fromEntries(
      [...resource.filter(({ key }) => key !== "service.name"), ...record].map(({ key, value }) => [
        key.toWellFormed(),
        value.stringValue.toWellFormed(),
      ]),
    );
    for (const reserved of ["org_id", "host_id", "instance", "node"]) delete labels[reserved];
    return sorted(labels);
  }

  function sorted(labels: Record<string, string>): Record<string, string> {
    return Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  function checkBodyText(text: string, body: Record<string, unknown>): void {
    if (body["arrayValue"] || body["kvlistValue"]) expect(() => JSON.parse(text) as unknown).not.toThrow();
    else if (typeof body["stringValue"] === "string") expect(text).toBe(body["stringValue"].toWellFormed());
    else expect(text).toBe(String(Object.values(body)[0]).replace(/^-0$/, "0"));
  }

  /** A copy with the value at one place of the tree replaced. */
  function damage(document: unknown, position: number, replacement: unknown): unknown {
    const copy = { root: structuredClone(document) } as Record<string, unknown>;
    const places: { parent: Record<string, unknown>; key: string }[] = [];
    const walk = (parent: Record<string, unknown>): void => {
      for (const key of Object.keys(parent)) {
        places.push({ parent, key });
        if (typeof parent[key] === "object" && parent[key] !== null) walk(parent[key] as Record<string, unknown>);
      }
    };
    walk(copy);
    const place = places[position % places.length];
    if (place) place.parent[place.key] = replacement;
    return copy["root"];
  }
});
