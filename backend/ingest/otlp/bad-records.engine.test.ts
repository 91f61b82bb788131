// One bad record costs one record: the others of its body become the same rows as without it, in both encodings, and signed routes, which
// have no partial success, refuse the body. RECORD_BODIES=300000 compares as many generated bodies; RECORD_SEED=n repeats a run.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BAD_RECORDS, type BadRecord, jsonBody, protobufBody } from "./bad-records.fixture.ts";
import { asJson, type DecodeTask, validateBody } from "./decode-body.ts";
import { CONTEXT, readRows, refusal, T } from "./decoded-rows.fixture.ts";
import { noFaults } from "../record-faults.ts";
import { bytesField } from "./protobuf/encode.fixture.ts";
import { logRecord, logsBody, span, stringAttribute } from "./otlp-body.fixture.ts";
import type { DecodedBody, OtlpSignal } from "./decoded-rows.ts";

const BODIES = Number(process.env["RECORD_BODIES"] ?? 300);
const SEED = Number(process.env["RECORD_SEED"] ?? 1);
const GOOD = 999;
const BAD_AT = 500;
const SIGNALS = ["logs", "traces"] as const;
const LISTS = { logs: ["resourceLogs", "scopeLogs", "logRecords"], traces: ["resourceSpans", "scopeSpans", "spans"] } as const;

function record(signal: OtlpSignal, index: number, fields: object = {}): object {
  const time = BigInt(T) + BigInt(index);
  const spanId = (index + 1).toString(16).padStart(16, "0");
  return signal === "logs" ? { ...logRecord(time, `line ${index}`), ...fields } : { ...span(time, "ab".repeat(16), spanId), ...fields };
}

function documentOf(signal: OtlpSignal, records: readonly object[], resource: object = {}): object {
  const [resources, scopes, list] = LISTS[signal];
  return {
    [resources]: [{ resource: { attributes: [stringAttribute("service.name", "shop")], ...resource }, [scopes]: [{ [list]: records }] }],
  };
}

function decode(signal: OtlpSignal, body: Buffer, encoding?: "protobuf"): DecodedBody {
  const context = { ...CONTEXT, faults: noFaults() };
  const task: DecodeTask = { signal, body: new Uint8Array(body), context, ...(encoding && { encoding }) };
  return validateBody(asJson(task)).rows();
}

/** The rows without what depends on the body as a whole. */
const rowsOf = (signal: OtlpSignal, { sections }: DecodedBody): object[] =>
  sections.flatMap((section) => readRows(signal, section)).map(({ id: _id, body_hash: _hash, ...row }) => row);

describe.each(SIGNALS)("%s: one bad record among a thousand", (signal) => {
  const good = Array.from({ length: GOOD }, (_, index) => record(signal, index));
  const expected = rowsOf(signal, decode(signal, jsonBody(documentOf(signal, good))));
  const cases = BAD_RECORDS[signal].flatMap((bad) =>
    (["json", "protobuf"] as const)
      .filter((encoding) => (encoding === "json" ? !bad.named.includes("100 deep") : !bad.isJsonOnly))
      .map((encoding) => ({ ...bad, encoding })),
  );

  it.each(cases)(
    "$name ($encoding) is dropped or loses its id, is reported, and all others are stored",
    ({ encoding, fields, named, isKept }) => {
      const records = good.toSpliced(BAD_AT, 0, record(signal, BAD_AT, fields));
      const document = documentOf(signal, records);
      const [first, scopes, list] = LISTS[signal];
      const decoded = encoding === "json" ? decode(signal, jsonBody(document)) : decode(signal, protobufBody(signal, document), "protobuf");
      const rows = rowsOf(signal, decoded);
      expect([decoded.accepted, rows.length]).toEqual(isKept ? [GOOD + 1, GOOD + 1] : [GOOD, GOOD]);
      const kept = { ...expected[0], message: `line ${BAD_AT}`, time: String(BigInt(T) + BigInt(BAD_AT)) };
      expect(rows).toEqual(expected.toSpliced(BAD_AT, 0, ...(isKept ? [kept] : [])));
      const path = `${first}[0].${scopes}[0].${list}[${BAD_AT}]`;
      expect(decoded.faults).toMatchObject(isKept ? { withoutId: 1, leftOut: 0 } : { withoutId: 0, leftOut: 1 });
      const text = isKept ? decoded.faults?.firstId : decoded.faults?.first[0];
      expect([text?.startsWith(path), text]).toEqual([true, expect.stringContaining(named)]);
      expect(decoded.bodyHash).toBeDefined();
    },
  );

  it("a signed route rejects the body, naming record and field", () => {
    for (const { fields, named } of cases.filter(({ encoding, name }) => encoding === "json" && !name.includes("UTF-8")))
      expect(refusal(signal, jsonBody(documentOf(signal, [record(signal, 0), record(signal, 1, fields)])))).toMatchObject({
        code: "invalid_payload",
        message: expect.stringMatching(new RegExp(`\\[1\\].*${RegExp.escape(named)}`)),
      });
  });
});

describe.each(SIGNALS)("%s with a field twice", (signal) => {
  const decodeWith = (twice: string): DecodedBody => {
    const records = Array.from({ length: 1000 }, (_, index) => record(signal, index, index % 500 === 7 ? { twice: 0 } : {}));
    return decode(signal, Buffer.from(JSON.stringify(documentOf(signal, records)).replaceAll('"twice":0', twice)));
  };

  it("are left out", () => {
    const { accepted, dropped, faults } = decodeWith('"attributes":[],"attributes":[]');
    expect([accepted, dropped]).toEqual([998, { invalid_record: 2 }]);
    const at = `${LISTS[signal][0]}[0].${LISTS[signal][1]}[0].${LISTS[signal][2]}`;
    expect(faults?.first).toEqual([`${at}[7].attributes: is given twice`, `${at}[507].attributes: is given twice`]);
  });

  it("are stored if it is no field, on both paths", () => {
    for (const other of ["", String.raw`"\u0078":0,`])
      expect(decodeWith(`${other}"new":1,"new":{"name":1,"name":2}`)).toMatchObject({ accepted: 1000, dropped: {} });
  });
});

describe("faults that affect more than one record", () => {
  const two = (first: object, second: object): object => ({ resourceLogs: [first, second] });
  const part = (resource: unknown, count: number, scope?: unknown) => ({
    resource,
    scopeLogs: [{ scope, logRecords: Array.from({ length: count }, (_, index) => record("logs", index)) }],
  });

  it.each([
    ["an attribute of the resource", { attributes: [{ key: 5 }] }, undefined, "resourceLogs[0].resource.attributes[0].key"],
    ["a resource that is none", 7, undefined, "resourceLogs[0].resource: must be an object"],
    ["the name of the scope", {}, { name: 5 }, "resourceLogs[0].scopeLogs[0].scope.name"],
    [
      "a name of protobuf in the resource",
      { attributes: [{ value: { int_value: 5 } }] },
      undefined,
      "resource.attributes[0].value.int_value",
    ],
    ["a name of protobuf in the scope", {}, { attributes: [{ value: { int_value: 5 } }] }, "scope.attributes[0].value.int_value"],
  ])("%s drops the records of the resource or scope", (_name, resource, scope, named) => {
    const decoded = decode("logs", jsonBody(two(part(resource, 7, scope), part({}, 3))));
    expect([decoded.accepted, decoded.dropped]).toEqual([3, { invalid_record: 7 }]);
    expect(decoded.faults?.first[0]).toContain(named);
  });

  it("malformed protobuf in a record drops the record, in a resource its records, and elsewhere the body", () => {
    const records = (count: number) =>
      Buffer.concat(Array.from({ length: count }, () => bytesField(2, bytesField(3, Buffer.from("WARN")))));
    const resourceLogs = (resource: Buffer, list: Buffer) => bytesField(1, Buffer.concat([bytesField(1, resource), bytesField(2, list)]));
    const broken = Buffer.from([0x1a, 0x7f]);
    const inRecord = resourceLogs(Buffer.alloc(0), Buffer.concat([records(2), bytesField(2, broken), records(1)]));
    expect(decode("logs", inRecord, "protobuf")).toMatchObject({
      accepted: 3,
      faults: { leftOut: 1, first: ["resourceLogs[0].scopeLogs[0].logRecords[2]: it ends within a value"] },
    });
    const inResource = Buffer.concat([resourceLogs(Buffer.from([0x0a, 0x7f]), records(4)), resourceLogs(Buffer.alloc(0), records(2))]);
    expect(decode("logs", inResource, "protobuf")).toMatchObject({ accepted: 2, dropped: { invalid_record: 4 } });
    expect(() => decode("logs", Buffer.concat([inRecord, Buffer.from([0x0a, 0x7f])]), "protobuf")).toThrow(/ends within/);
    const manyBroken = resourceLogs(Buffer.alloc(0), Buffer.concat(Array.from({ length: 1001 }, () => bytesField(2, broken))));
    expect(() => decode("logs", manyBroken, "protobuf")).toThrow(/ends within/);
  });

  it("names three of many bad records, and counts all", () => {
    const body = logsBody(
      Array.from({ length: 100_000 }, (_, index) => ({ timeUnixNano: index % 2 === 0 ? "x" : T, body: { stringValue: "x" } })),
    );
    const { accepted, faults } = decode("logs", body);
    expect([accepted, faults?.leftOut, faults?.first.length]).toEqual([50_000, 50_000, 3]);
  });

  it("a repeated body has the same rows and the same hash", () => {
    const body = () => logsBody([record("logs", 0), { body: {}, flags: "without a time" }, { ...record("logs", 2), traceId: "ab" }]);
    const [first, second] = [decode("logs", body()), decode("logs", body())];
    expect(first).toEqual(second);
    expect(first.bodyHash).toBe(second.bodyHash);
    expect(first.bodyHash).toBeDefined();
  });
});

describe.each(SIGNALS)("random %s", (signal) => {
  const commonBad = BAD_RECORDS[signal].filter((bad) => !bad.isJsonOnly && !bad.named.includes("100 deep"));
  const one = fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.constantFrom<BadRecord>(...commonBad) },
  );

  it("have the rows of their good records in JSON and in protobuf", { timeout: 3_600_000 }, () => {
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 12 }), fc.integer({ min: 0, max: 40 }), (kinds, offset) => {
        const records = kinds.map((bad, index) => record(signal, offset + index, bad?.fields));
        const stored = kinds.flatMap((bad, index) => (bad && !bad.isKept ? [] : [record(signal, offset + index)]));
        const expected = rowsOf(signal, decode(signal, jsonBody(documentOf(signal, stored))));
        const document = documentOf(signal, records);
        const [fromJson, fromProtobuf] = [decode(signal, jsonBody(document)), decode(signal, protobufBody(signal, document), "protobuf")];
        expect(rowsOf(signal, fromJson)).toEqual(expected);
        expect(rowsOf(signal, fromProtobuf)).toEqual(expected);
        const leftOut = records.length - stored.length;
        for (const { accepted, dropped, faults } of [fromJson, fromProtobuf]) {
          expect([accepted, dropped["invalid_record"] ?? 0]).toEqual([stored.length, leftOut]);
          expect(faults?.withoutId ?? 0).toBe(kinds.filter((bad) => bad?.isKept).length);
        }
      }),
      { numRuns: BODIES, seed: SEED },
    );
  });
});
