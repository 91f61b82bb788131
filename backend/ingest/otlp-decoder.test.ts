/* oxlint-disable unicorn/consistent-function-scoping, vitest/no-conditional-expect -- builders stand beside the table they serve; a property has two outcomes */
import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NativeColumns, NativeType } from "../engines/clickhouse/native-block.ts";
import { ApiError } from "../errors.ts";
import { LOG_COLUMNS } from "../logs/decode.ts";
import { SPAN_COLUMNS } from "../traces/decode.ts";
import { logRecord, logsBody, span, stringAttribute, tracesBody } from "./otlp-body.fixture.ts";
import { decodeNow, openOtlpDecoder, type OtlpDecoder, type OtlpSignal } from "./otlp-decoder.ts";
import type { DaySection, DecodedBody, RowContext } from "../otlp/rows.ts";

const NOW_MS = Date.UTC(2026, 10, 21, 12);
const T = "1795262400123456789";
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CONTEXT: RowContext = {
  orgId: "org",
  hostId: "host",
  node: "node",
  receivedAtMs: NOW_MS,
  firstId: "455000000000000000",
  bodyHash: "42",
  retentionDays: 30,
};

/** The rows of a decoded body, as the engine would read them; integers as digits, maps as JSON lists of pairs. */
function rowsOf(signal: OtlpSignal, body: Buffer | string | object): Record<string, string>[] {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  return decodeNow({ signal, body: bytes, context: CONTEXT }).sections.flatMap((section) => readRows(signal, section));
}

function readRows(signal: OtlpSignal, { count, bytes, streamLengths }: DaySection): Record<string, string>[] {
  const columns: NativeColumns = signal === "logs" ? LOG_COLUMNS : SPAN_COLUMNS;
  let at = 0;
  const streams = streamLengths.map((length) => Buffer.from(bytes.subarray(at, (at += length))));
  expect(at).toBe(bytes.length);
  const rows: Record<string, string>[] = Array.from({ length: count }, () => ({}));
  for (const [name, type] of columns) {
    const cells = readCells(type, streams);
    expect([name, cells.length]).toEqual([name, count]);
    for (const [index, cell] of cells.entries()) (rows[index] as Record<string, string>)[name] = cell;
  }
  expect(streams).toEqual([]);
  return rows;
}

function readCells(type: NativeType, streams: Buffer[]): string[] {
  const stream = streams.shift() ?? Buffer.alloc(0);
  if (type === "String") return readStrings(stream);
  if (type === "UInt8") return [...stream].map(String);
  if (type === "DateTime") return words(stream, 4).map((word) => String(word.readUInt32LE()));
  if (type !== "Map(String, String)") return words(stream, 8).map((word) => String(word.readBigUInt64LE()));
  const [keys, values] = [readStrings(streams.shift() as Buffer), readStrings(streams.shift() as Buffer)];
  expect(values).toHaveLength(keys.length);
  const cells = words(stream, 4).map((word) => Array.from({ length: word.readUInt32LE() }, () => [keys.shift(), values.shift()]));
  expect(keys).toEqual([]);
  return cells.map((pairs) => JSON.stringify(pairs));
}

function words(stream: Buffer, size: number): Buffer[] {
  expect(stream.length % size).toBe(0);
  return Array.from({ length: stream.length / size }, (_, index) => stream.subarray(index * size, (index + 1) * size));
}

function readStrings(stream: Buffer): string[] {
  const texts: string[] = [];
  for (let at = 0; at < stream.length;) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = stream[at++] as number;
      length += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    expect(isUtf8(stream.subarray(at, at + length))).toBe(true);
    texts.push(stream.toString("utf8", at, (at += length)));
  }
  return texts;
}

/** The pairs of a map, no key twice. */
function mapOf(cell: string): Record<string, string> {
  const pairs = JSON.parse(cell) as [string, string][];
  expect(new Set(pairs.map(([key]) => key)).size).toBe(pairs.length);
  return Object.fromEntries(pairs);
}

function onlyLog(record: object, resource?: Parameters<typeof logsBody>[1]): Record<string, string> {
  const rows = rowsOf("logs", logsBody([record], resource));
  expect(rows).toHaveLength(1);
  return rows[0] ?? {};
}

function refusal(signal: OtlpSignal, body: Buffer | string | object): { code: string; message: string } {
  try {
    rowsOf(signal, body);
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("was accepted");
}

describe("the level of a log record", () => {
  it.each([
    [{ severityText: "WARNING" }, "warning"],
    [{ severityText: "Info", severityNumber: 17 }, "info"],
    [{ severityNumber: 1 }, "trace"],
    [{ severityNumber: 4 }, "trace"],
    [{ severityNumber: 5 }, "debug"],
    [{ severityNumber: 8 }, "debug"],
    [{ severityNumber: 9 }, "info"],
    [{ severityNumber: 12 }, "info"],
    [{ severityNumber: 13 }, "warn"],
    [{ severityNumber: 16 }, "warn"],
    [{ severityNumber: 17 }, "error"],
    [{ severityNumber: 20 }, "error"],
    [{ severityNumber: 21 }, "fatal"],
    [{ severityNumber: 24 }, "fatal"],
    [{ severityNumber: 0 }, "info"],
    [{ severityNumber: 25 }, "info"],
    [{ severityNumber: -1 }, "info"],
    [{}, "info"],
    [{ severityText: null, severityNumber: null }, "info"],
    [{ severityText: "", severityNumber: "SEVERITY_NUMBER_WARN" }, "warn"],
    [{ severityNumber: "SEVERITY_NUMBER_DEBUG4" }, "debug"],
    [{ severityNumber: "SEVERITY_NUMBER_UNSPECIFIED" }, "info"],
  ])("of %j is %s", (record, level) => {
    expect(onlyLog(record)["level"]).toBe(level);
  });
});

describe("the text of a body", () => {
  it.each([
    [{ stringValue: "plain" }, "plain"],
    [{ stringValue: "" }, ""],
    [{}, ""],
    [null, ""],
    [undefined, ""],
    [{ boolValue: true }, "true"],
    [{ boolValue: false }, "false"],
    [{ intValue: "-9223372036854775808" }, "-9223372036854775808"],
    [{ intValue: "007" }, "7"],
    [{ intValue: 42 }, "42"],
    [{ doubleValue: 1.5 }, "1.5"],
    [{ doubleValue: "NaN" }, "NaN"],
    [{ doubleValue: "-Infinity" }, "-Infinity"],
    [{ bytesValue: "aGk=" }, "aGk="],
    [{ bytesValue: "_-8" }, "/+8="],
    [{ arrayValue: {} }, "[]"],
    [{ arrayValue: { values: [{ stringValue: "x" }, { intValue: "1" }] } }, '["x",1]'],
    [{ kvlistValue: { values: [{ key: "k", value: { stringValue: "v" } }] } }, '{"k":"v"}'],
    [{ kvlistValue: { values: [{ key: "__proto__", value: { intValue: "9007199254740993" } }] } }, '{"__proto__":9007199254740993}'],
    [
      { arrayValue: { values: [{}, { boolValue: true }, { doubleValue: "NaN" }, { doubleValue: 0.5 }, { bytesValue: "aGk" }] } },
      '[null,true,"NaN",0.5,"aGk="]',
    ],
    [{ kvlistValue: { values: [{ key: "a", value: { kvlistValue: { values: [{ key: "b" }] } } }] } }, '{"a":{"b":null}}'],
    [{ stringValue: "x", intValue: null, kindOfTomorrow: 1 }, "x"],
    [{ kindOfTomorrow: { x: 1 } }, ""],
  ])("of %j is %j", (body, text) => {
    expect(onlyLog({ body })["message"]).toBe(text);
  });

  it("replaces lone surrogates, which UTF-8 cannot hold", () => {
    const body = logsBody([])
      .toString()
      .replace("[]}]}]", '[{"body":{"stringValue":"a\\ud800b"},"attributes":[{"key":"\\udc00","value":{"stringValue":"😀"}}]}]}]}]');
    const [row] = rowsOf("logs", body);
    expect(row?.["message"]).toBe("a\uFFFDb");
    expect(mapOf(row?.["labels"] ?? "")).toEqual({ "\uFFFD": "😀" });
  });
});

describe("the time of a record", () => {
  it.each([
    [{ timeUnixNano: T }, T],
    [{ timeUnixNano: `000${T}` }, T],
    [{ timeUnixNano: "0", observedTimeUnixNano: T }, T],
    [{ timeUnixNano: null, observedTimeUnixNano: T }, T],
    [{ timeUnixNano: 0 }, `${NOW_MS}000000`],
    [{}, `${NOW_MS}000000`],
  ])("of %j is %s", (record, time) => {
    expect(onlyLog(record)["time"]).toBe(time);
  });

  it.each(["1795262400123456789", "1.795262400123456789e18", "17952624001234567890e-1", "1795262400123456789.0"])(
    "written as the JSON number %s is exact",
    (number) => {
      const body = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":${number},"body":{"doubleValue":1e300}}]}]}]}`;
      expect(rowsOf("logs", body)[0]).toMatchObject({ time: T, message: "1e+300" });
    },
  );

  it("decides whether the body is recognised when it comes again", () => {
    const decode = (record: object) => decodeNow({ signal: "logs", body: logsBody([record, { timeUnixNano: T }]), context: CONTEXT });
    expect(decode({ observedTimeUnixNano: T }).bodyHash).toBe("42");
    expect(decode({}).bodyHash).toBeUndefined();
  });

  it("cuts the rows by day", () => {
    const day = 86_400_000_000_000n;
    const body = logsBody([0n, 1n, 0n, 2n].map((days) => logRecord(BigInt(T) - days * day, "x")));
    const { sections } = decodeNow({ signal: "logs", body, context: CONTEXT });
    expect(sections.map(({ day, count }) => [day, count])).toEqual([
      [20_778, 2],
      [20_777, 1],
      [20_776, 1],
    ]);
  });
});

describe("labels", () => {
  it("join resource and record, the record winning; reserved keys and service.name of the resource are left out", () => {
    const reserved = ["org_id", "host_id", "instance", "node"].map((key) => stringAttribute(key, "forged"));
    const row = onlyLog(
      {
        attributes: [
          ...reserved,
          stringAttribute("both", "record"),
          stringAttribute("twice", "1"),
          stringAttribute("twice", "2"),
          { key: "bare" },
        ],
      },
      [...reserved, stringAttribute("both", "resource"), stringAttribute("k8s.node.name", "n1"), stringAttribute("service.name", "shop")],
    );
    expect(mapOf(row["labels"] ?? "")).toEqual({ both: "record", twice: "2", bare: "", "k8s.node.name": "n1" });
    expect(row).toMatchObject({ org_id: "org", host_id: "host", node: "node", source: "shop" });
  });

  it("without service.name come from the source unknown", () => {
    expect(onlyLog({}, [])["source"]).toBe("unknown");
    expect(rowsOf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [{}] }] }] })[0]?.["source"]).toBe("unknown");
  });
});

describe("the eventName of a log record", () => {
  it.each([
    [{ eventName: "page_view" }, [], { "event.name": "page_view" }],
    [
      { eventName: "page_view", attributes: [stringAttribute("event.name", "own"), stringAttribute("a", "b")] },
      [],
      { "event.name": "own", a: "b" },
    ],
    [{ eventName: "page_view" }, [stringAttribute("event.name", "of the resource")], { "event.name": "of the resource" }],
    [{ eventName: "" }, [], {}],
    [{ eventName: null }, [], {}],
  ])("of %j under %j gives the labels %j", (record, resource, labels) => {
    expect(mapOf(onlyLog(record, resource)["labels"] ?? "")).toEqual(labels);
  });
});

describe("a span", () => {
  it.each([
    [{ endTimeUnixNano: "1795262400124000000" }, { duration_ns: "543211" }],
    [{ endTimeUnixNano: "1795262400123456788" }, { duration_ns: "0" }],
    [{ endTimeUnixNano: 0 }, { duration_ns: "0" }],
    [{ endTimeUnixNano: "18446744073709551615" }, { duration_ns: "16651481673586094826" }],
    [{ status: {} }, { status_code: "UNSET" }],
    [{ status: { code: 1 } }, { status_code: "OK" }],
    [{ status: { code: "STATUS_CODE_ERROR", message: "x\ty" } }, { status_code: "ERROR", status_message: "x\ty" }],
    [{ status: { code: 9 } }, { status_code: "UNSET" }],
    [{ kind: 3 }, { kind: "CLIENT" }],
    [{ kind: "SPAN_KIND_CONSUMER" }, { kind: "CONSUMER" }],
    [{ kind: 77 }, { kind: "UNSPECIFIED" }],
    [{ parentSpanId: "" }, { parent_span_id: "" }],
    [{ parentSpanId: "0000000000000000" }, { parent_span_id: "" }],
    [{ parentSpanId: "00F067AA0BA902B7" }, { parent_span_id: "00f067aa0ba902b7" }],
    [{ startTimeUnixNano: null, endTimeUnixNano: T }, { time: T }],
  ])("with %j is stored as %j", (rest, cells) => {
    expect(rowsOf("traces", tracesBody([span(BigInt(T), TRACE, "b7ad6b7169203331", rest)]))[0]).toMatchObject(cells);
  });
});

describe("an invalid document is refused, naming the field", () => {
  const record = (text: string) => `{"resourceLogs":[{"scopeLogs":[{},{"logRecords":[{},${text}]}]}]}`;
  const spanWith = (text: string) => `{"resourceSpans":[{"scopeSpans":[{"spans":[{${text}}]}]}]}`;
  const deep = (levels: number) => '{"arrayValue":{"values":['.repeat(levels) + "{}" + "]}}".repeat(levels);
  const at = "resourceLogs[0].scopeLogs[1].logRecords[1]";
  it.each<[OtlpSignal, string, string]>([
    ["logs", "[]", "must be an object"],
    ["logs", '"x"', "must be an object"],
    ["logs", "12345678901234567890", "must be an object"],
    ["logs", '{"resourceLogs":{}}', "resourceLogs: must be an array"],
    ["logs", '{"resourceLogs":[null]}', "resourceLogs[0]: must be an object"],
    ["logs", '{"resourceLogs":[{"resource":[]}]}', "resourceLogs[0].resource: must be an object"],
    ["logs", '{"resourceLogs":[{"resource":{"attributes":[{"key":1}]}}]}', "resourceLogs[0].resource.attributes[0].key: must be a string"],
    ["logs", '{"resourceLogs":[{"scopeLogs":[{"scope":{"name":1}}]}]}', "resourceLogs[0].scopeLogs[0].scope.name: must be a string"],
    ["logs", record("1"), `${at}: must be an object`],
    ["logs", record('{"timeUnixNano":"1.5"}'), `${at}.timeUnixNano: must be an integer`],
    ["logs", record('{"timeUnixNano":1.5}'), `${at}.timeUnixNano: must be an integer`],
    ["logs", record('{"timeUnixNano":"-1"}'), `${at}.timeUnixNano: must be an unsigned 64-bit integer`],
    ["logs", record('{"timeUnixNano":"18446744073709551616"}'), `${at}.timeUnixNano: must be an unsigned 64-bit integer`],
    ["logs", record('{"timeUnixNano":true}'), `${at}.timeUnixNano: must be an integer`],
    ["logs", record('{"timeUnixNano":1e300}'), `${at}.timeUnixNano: must be an integer`],
    ["logs", record('{"timeUnixNano":-1e40}'), `${at}.timeUnixNano: must be an unsigned 64-bit integer`],
    ["logs", record('{"timeUnixNano":1795262400123456789.5}'), `${at}.timeUnixNano: must be an integer`],
    ["logs", record('{"eventName":5}'), `${at}.eventName: must be a string`],
    ["logs", record('{"severityText":5}'), `${at}.severityText: must be a string`],
    ["logs", record('{"severityText":12345678901234567890,"timeUnixNano":12345678901234567890}'), `${at}.severityText: must be a string`],
    ["logs", record('{"severityNumber":"LOUD"}'), `${at}.severityNumber: must be an enum's integer or name`],
    ["logs", record('{"severityNumber":1.5}'), `${at}.severityNumber: must be an enum's integer or name`],
    ["logs", record('{"severityNumber":"constructor"}'), `${at}.severityNumber: must be an enum's integer or name`],
    ["logs", record('{"body":"text"}'), `${at}.body: must be an object`],
    ["logs", record('{"body":{"stringValue":1}}'), `${at}.body.stringValue: must be a string`],
    ["logs", record('{"body":{"stringValue":"a","intValue":1}}'), `${at}.body.intValue: a value has one kind`],
    ["logs", record('{"body":{"intValue":"9223372036854775808"}}'), `${at}.body.intValue: must be a 64-bit integer`],
    ["logs", record('{"body":{"intValue":9223372036854775808}}'), `${at}.body.intValue: must be a 64-bit integer`],
    ["logs", record('{"body":{"doubleValue":"fast"}}'), `${at}.body.doubleValue: must be a number`],
    ["logs", record('{"body":{"boolValue":"true"}}'), `${at}.body.boolValue: must be true or false`],
    ["logs", record('{"body":{"bytesValue":"*"}}'), `${at}.body.bytesValue: must be base64`],
    ["logs", record('{"body":{"bytesValue":"2"}}'), `${at}.body.bytesValue: must be base64`],
    ["logs", record('{"body":{"bytesValue":"aGkxx==="}}'), `${at}.body.bytesValue: must be base64`],
    ["logs", record('{"severityNumber":2147483648}'), `${at}.severityNumber: must be an enum's integer or name`],
    ["traces", spanWith('"kind":2147483648'), "spans[0].kind: must be an enum's integer or name"],
    ["traces", spanWith('"status":{"code":-2147483649}'), "spans[0].status.code: must be an enum's integer or name"],
    [
      "logs",
      record('{"body":{"arrayValue":{"values":[{"intValue":"x"}]}}}'),
      `${at}.body.arrayValue.values[0].intValue: must be an integer`,
    ],
    ["logs", record('{"body":{"arrayValue":[]}}'), `${at}.body.arrayValue: must be an object`],
    ["logs", record(`{"body":${deep(100)}}`), "is nested deeper than 64 levels"],
    ["logs", record(`{"body":${deep(40_000)}}`), "is nested deeper than 64 levels"],
    ["logs", record('{"attributes":[{"key":"k","value":"v"}]}'), `${at}.attributes[0].value: must be an object`],
    ["logs", record('{"traceId":"abc"}'), `${at}.traceId: must be 32 hex digits`],
    ["logs", record(`{"spanId":"${"g".repeat(16)}"}`), `${at}.spanId: must be 16 hex digits`],
    ["logs", record('{"flags":-1}'), `${at}.flags: must be an unsigned 32-bit integer`],
    ["logs", record('{"flags":4294967296}'), `${at}.flags: must be an unsigned 32-bit integer`],
    ["traces", spanWith('"traceId":5'), "resourceSpans[0].scopeSpans[0].spans[0].traceId: must be a string of hex digits"],
    ["traces", spanWith('"status":{"code":"BAD"}'), "resourceSpans[0].scopeSpans[0].spans[0].status.code: must be an enum"],
    [
      "traces",
      spanWith('"events":[{"timeUnixNano":"x"}]'),
      "resourceSpans[0].scopeSpans[0].spans[0].events[0].timeUnixNano: must be an integer",
    ],
    ["traces", spanWith('"links":[{"spanId":"x"}]'), "resourceSpans[0].scopeSpans[0].spans[0].links[0].spanId: must be 16 hex digits"],
  ])("%s %#", (signal, body, message) => {
    expect(refusal(signal, body)).toEqual({ code: "invalid_payload", message: expect.stringContaining(message) });
  });

  it.each([
    ["{", "not JSON"],
    ['{"a":1}}', "not JSON"],
    [Buffer.from([0x22, 0xff, 0x22]), "not UTF-8"],
    [Buffer.from([0x0a, 0x90, 0x01, 0x0a]), "protobuf"],
  ])("what is not JSON: %#", (body, message) => {
    expect(refusal("logs", body)).toEqual({ code: "malformed_body", message: expect.stringContaining(message) });
  });

  it.each(["", "  \n", "{}", '{"resourceLogs":[]}', '{"resourceLogs":null}', '{"resourceLogs":[{}]}', '{"resource_logs":5,"future":[1]}'])(
    "but %j has no records and is fine",
    (body) => {
      expect(rowsOf("logs", body)).toEqual([]);
    },
  );
});

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

  it("that is valid becomes the rows that its records say", () => {
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

  it("that is damaged is refused with a 400 or decoded whole, and never anything else", () => {
    const anything = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom(null, -1, 1.5, "", "x", {}, [], 1e19, "NaN"));
    fc.assert(
      fc.property(anyLogs, fc.nat(), anything, fc.boolean(), (document, position, replacement, cut) => {
        const damaged = damage(document, position, replacement);
        const text = JSON.stringify(damaged);
        const body = Buffer.from(cut ? text.slice(0, position % (text.length + 1)) : text);
        for (const signal of ["logs", "traces"] as const) {
          try {
            const { accepted, dropped, sections } = decodeNow({ signal, body, context: CONTEXT });
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

const MIB = 1024 * 1024;

async function decodeWith(decoder: OtlpDecoder, body: Buffer, orgId = "org", signal: OtlpSignal = "logs"): Promise<DecodedBody> {
  using held = decoder.open(orgId);
  return await decoder.decode({ signal, body, context: { ...CONTEXT, orgId } }, held);
}

describe("the decoder's threads", () => {
  const large = (count: number) =>
    logsBody(Array.from({ length: count }, (_, index) => logRecord(BigInt(T) + BigInt(index), `line ${index}`)));

  it("decode large bodies, and a small one, to the same rows as this thread does, under the hash of the body", async () => {
    await using decoder = openOtlpDecoder(2);
    const bodies = [500, 501, 5002, 5003, 1].map(large);
    const expected = bodies.map((body) => {
      const bodyHash = String(createHash("sha256").update(body).digest().readBigUInt64BE());
      return decodeNow({ signal: "logs", body: Buffer.from(body), context: { ...CONTEXT, bodyHash } });
    });
    expect(await Promise.all(bodies.map((body) => decodeWith(decoder, body)))).toEqual(expected);
    expect(decoder.heldBytes).toBe(0);
  });

  it("are started by the first body that needs one, end when they idle, and are started again", async () => {
    await using decoder = openOtlpDecoder(2, { idleMs: 20 });
    await decodeWith(decoder, large(1));
    expect(decoder.threads).toBe(0);
    for (let turn = 0; turn < 2; turn += 1) {
      expect((await decodeWith(decoder, large(20_000))).accepted).toBe(20_000);
      expect(decoder.threads).toBe(1);
      await expect.poll(() => decoder.threads, { timeout: 30_000 }).toBe(0);
    }
  });

  it("answer a refusal with its code and field, and go on", async () => {
    await using decoder = openOtlpDecoder(1);
    const broken = Buffer.from(large(500).toString().replace(`"${T}"`, '"x"'));
    await expect(decodeWith(decoder, broken)).rejects.toMatchObject({
      code: "invalid_payload",
      message: expect.stringContaining("logRecords[0].timeUnixNano"),
    });
    expect((await decodeWith(decoder, large(500))).accepted).toBe(500);
  });

  it("hold the rows of one organisation within its share, and take another's meanwhile", async () => {
    await using decoder = openOtlpDecoder(2);
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

  it("serve another organisation next, however many bodies of one wait", async () => {
    await using decoder = openOtlpDecoder(1);
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

describe("this thread", () => {
  const body = (count: number) =>
    logsBody(Array.from({ length: count }, (_, index) => logRecord(BigInt(T), `line ${index} ${"x".repeat(200)}`)));

  it("decodes one larger body in a turn of the event loop, another organisation's next", async () => {
    await using decoder = openOtlpDecoder(1);
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

  it("leaves to the threads what the kernel does not take", async () => {
    await using decoder = openOtlpDecoder(1);
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

describe("a small body of many rows", () => {
  const resource = [stringAttribute("process.command_args", "x".repeat(15_000))];

  it("is refused before its rows are made, as a batch that can be sent in parts", async () => {
    await using decoder = openOtlpDecoder(1);
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

  it("is not decoded on this thread", async () => {
    await using decoder = openOtlpDecoder(1);
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

describe("a document of any shape", () => {
  const fill = (head: string, unit: string, tail: string) => Buffer.from(head + unit.repeat((32 * MIB - 200) / unit.length) + tail);
  const rounded = '"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":1795262400123456789}]}]}]';

  it.each([
    ["numbers", fill(`{${rounded},"x":[`, "1.5,", "1]}")],
    ["arrays", fill(`{${rounded},"x":[`, "[],", "[]]}")],
    ["nesting", fill(`{${rounded},"x":`, "[", `0${"]".repeat(0)}`)],
    ["keys", fill(`{${rounded},"x":[`, '{"aaaa":0},', "{}]}")],
  ])("costs nothing where nobody reads it: %s", async (name, body) => {
    await using decoder = openOtlpDecoder(1);
    if (name === "nesting") await expect(decodeWith(decoder, body)).rejects.toMatchObject({ code: "malformed_body" });
    else expect((await decodeWith(decoder, body)).accepted).toBe(1);
  });

  it.each([
    ["resources", fill('{"resourceLogs":[', "{},", "{}]}")],
    ["scopes", fill('{"resourceLogs":[{"scopeLogs":[', "{},", "{}]}]}")],
    ["records", fill('{"resourceLogs":[{"scopeLogs":[{"logRecords":[', "{},", "{}]}]}]}")],
    ["numbers in a record", fill('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"x":[', "1.5,", "1]}]}]}]}")],
    [
      "arrays in a record",
      fill('{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":1795262400123456789,"x":[', "[],", "0]}]}]}]}"),
    ],
    ["attributes of a resource", fill('{"resourceLogs":[{"resource":{"attributes":[', "{},", "{}]}}]}")],
    ["links of a span", fill('{"resourceSpans":[{"scopeSpans":[{"spans":[{"links":[', "{},", "{}]}]}]}]}")],
  ])("is refused where it would take gigabytes once parsed: %s", async (name, body) => {
    await using decoder = openOtlpDecoder(1);
    await expect(decodeWith(decoder, body, "org", name.endsWith("span") ? "traces" : "logs")).rejects.toMatchObject({
      code: "batch_too_large",
      message: expect.stringContaining("send smaller batches"),
    });
  });

  it("may have its fields in any order and spelling, but none twice", () => {
    const resource = '"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}';
    const scope = '"scope":{"name":"lib"}';
    const records = (...times: string[]) => `"log\\u0052ecords":[${times.map((time) => `{"timeUnixNano":${time}}`).join(" ,\n")}]`;
    const body = ` {"resourceLogs" : [ {"scopeLogs":[{${records(`"${T}"`, T)} , ${scope}},{"logRecords":null}], "later":[{}], ${resource}}, {}] } `;
    const row = { time: T, source: "shop", scope_name: "lib" };
    expect(rowsOf("logs", body)).toMatchObject([row, row]);
    expect(refusal("logs", `{"resourceLogs":[{${resource},${resource}}]}`)).toEqual({
      code: "invalid_payload",
      message: "resourceLogs[0].resource: is given twice",
    });
  });

  it.each([
    "{'a':1}",
    '{"a":01}',
    '{"a":1.}',
    '{"a":+1}',
    '{"a":nul}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":"\t"}',
    '{"a":[1,]}',
    '{"a":1,}',
    '{"a" 1}',
    "{} {}",
    '{"a":"',
    '{"a":[[',
    "{,}",
    '{"a":1e}',
    '{"a":.5}',
    '{"a":-}',
    '{"a":tru',
    "nullx",
  ])("that is no JSON is refused also where nobody reads it: %j", (text) => {
    expect(() => JSON.parse(text) as unknown).toThrow("JSON");
    expect(refusal("logs", text)).toEqual({ code: "malformed_body", message: expect.stringMatching(/not JSON: .* at byte \d+$/) });
  });

  it("is JSON to this reading exactly where it is to JavaScript", () => {
    const soup = fc
      .array(
        fc.constantFrom(
          "{",
          "}",
          "[",
          "]",
          '"a"',
          '"\\n"',
          '"\\u00e9"',
          ":",
          ",",
          "1",
          "-0",
          "1.5e-3",
          "true",
          "null",
          " ",
          '"',
          "\\",
          "0",
          "é",
          "\n",
        ),
        { maxLength: 12 },
      )
      .map((tokens) => tokens.join(""));
    const text = fc.oneof(
      soup,
      fc.json({ maxDepth: 3 }),
      fc
        .tuple(fc.json({ maxDepth: 3 }), fc.nat(), soup)
        .map(([json, at, other]) => json.slice(0, at % (json.length + 1)) + other + json.slice(at % (json.length + 1))),
    );
    fc.assert(
      fc.property(text, (inner) => {
        let isJson = true;
        try {
          JSON.parse(`{"x":${inner}}`);
        } catch {
          isJson = false;
        }
        const code = isJson ? "accepted" : refusal("logs", `{"x":${inner}}`).code;
        if (isJson) expect(rowsOf("logs", `{"x":${inner}}`)).toEqual([]);
        expect(["accepted", "malformed_body"]).toContain(code);
      }),
      { numRuns: 3000 },
    );
  });
});
