/* oxlint-disable vitest/no-conditional-expect -- a body that takes no memory, and a text at random, may be one that is refused */
// Which documents are accepted, and with which messages others are refused: because of their fields, their JSON, or their size once parsed.
import type { OtlpSignal } from "./decoded-rows.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeWith, refusal, rowsOf, T } from "./decoded-rows.fixture.ts";
import { OtlpDecoder } from "./otlp-decoder.ts";

const MIB = 1024 * 1024;

describe("rejects an invalid document, naming the field", () => {
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
    ["logs", record('{"body":{},"body":{}}'), `${at}.body: is given twice`],
    ["logs", record(String.raw`{"attributes":[],"\u0061ttributes":[]}`), `${at}.attributes: is given twice`],
    ["logs", record('{"body":{"kvlistValue":{"values":[{"key":"a","key":"b"}]}}}'), `${at}.body.kvlistValue.values[0].key: is given twice`],
    ["logs", '{"resourceLogs":[{"resource":{"attributes":[],"attributes":[]},"scopeLogs":[{}]}]}', "resource.attributes: is given twice"],
    ["logs", '{"resourceLogs":[{"scopeLogs":[{"scope":{"name":"a","name":"b"}}]}]}', "scope.name: is given twice"],
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
    ["traces", spanWith('"name":"a","name":"b"'), "spans[0].name: is given twice"],
    ["traces", spanWith('"events":[{"name":"a","name":"b"}]'), "spans[0].events[0].name: is given twice"],
    ["traces", spanWith('"status":{"code":1,"code":2}'), "spans[0].status.code: is given twice"],
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
    ['{"resource_logs":[]}', "resource_logs: OTLP/JSON names this field resourceLogs"],
    ['{"resourceSpans":[{}]}', "resourceSpans: is not a field of this request, which has resourceLogs instead"],
    ['{"resourceLogs":[{"scope_logs":[]}]}', "resourceLogs[0].scope_logs: OTLP/JSON names this field scopeLogs"],
    ['{"resourceLogs":[{"instrumentationLibraryLogs":[]}]}', "resourceLogs[0].instrumentationLibraryLogs: is not a field"],
    ['{"resourceLogs":[{"scopeLogs":[{"log_records":[{}]}]}]}', "resourceLogs[0].scopeLogs[0].log_records: OTLP/JSON names"],
    [record('{"time_unix_nano":"1"}'), `${at}.time_unix_nano: OTLP/JSON names this field timeUnixNano`],
    [record(String.raw`{"time\u005funix_nano":"1"}`), `${at}.time_unix_nano: OTLP/JSON names this field timeUnixNano`],
    [record('{"body":{"string_value" :"x"}}'), `${at}.body.string_value: OTLP/JSON names this field stringValue`],
  ])("fields of another message: %s", (body, message) => {
    expect(refusal("logs", body)).toEqual({ code: "invalid_payload", message: expect.stringContaining(message) });
  });

  it.each([
    ["{", "not JSON"],
    ['{"a":1}}', "not JSON"],
    [Buffer.from([0x22, 0xff, 0x22]), "not UTF-8"],
    [Buffer.from([0x0a, 0x90, 0x01, 0x0a]), "protobuf"],
  ])("what is not JSON: %#", (body, message) => {
    expect(refusal("logs", body)).toEqual({ code: "malformed_body", message: expect.stringContaining(message) });
  });

  it.each(["", "  \n", "{}", '{"resourceLogs":[]}', '{"resourceLogs":null}', '{"resourceLogs":[{}]}', '{"future":[1]}'])(
    "but %j has no records and is accepted",
    (body) => {
      expect(rowsOf("logs", body)).toEqual([]);
    },
  );
});

describe("a document of any shape", () => {
  const fill = (head: string, unit: string, tail: string) => Buffer.from(head + unit.repeat((32 * MIB - 200) / unit.length) + tail);
  const rounded = '"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":1795262400123456789}]}]}]';

  it.each([
    ["numbers", fill(`{${rounded},"x":[`, "1.5,", "1]}")],
    ["arrays", fill(`{${rounded},"x":[`, "[],", "[]]}")],
    ["nesting", fill(`{${rounded},"x":`, "[", `0${"]".repeat(0)}`)],
    ["keys", fill(`{${rounded},"x":[`, '{"aaaa":0},', "{}]}")],
  ])("is skipped at no cost where no field is read: %s", async (name, body) => {
    await using decoder = new OtlpDecoder(1);
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
  ])("is rejected if it would expand to gigabytes: %s", async (name, body) => {
    await using decoder = new OtlpDecoder(1);
    await expect(decodeWith(decoder, body, "org", name.endsWith("span") ? "traces" : "logs")).rejects.toMatchObject({
      code: "batch_too_large",
      message: expect.stringContaining("send smaller batches"),
    });
  });

  it("can have its fields in any order and spelling, but none twice", () => {
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
  ])("that is no JSON is rejected even where no field is read: %j", (text) => {
    expect(() => JSON.parse(text) as unknown).toThrow("JSON");
    expect(refusal("logs", text)).toEqual({ code: "malformed_body", message: expect.stringMatching(/not JSON: .* at byte \d+$/) });
  });

  it("is JSON for this parser exactly if it is for JavaScript", () => {
    const soup = fc
      .array(fc.constantFrom(...'{ } [ ] "a" "\\n" "\\u00e9" : , 1 -0 1.5e-3 true null " \\ 0 é \n'.split(" "), " "), { maxLength: 12 })
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
