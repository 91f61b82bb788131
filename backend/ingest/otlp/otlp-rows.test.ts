// The row of a log record and of a span: level, text, time, labels, and the cells of a span.
import { describe, expect, it } from "vitest";
import { CONTEXT, mapOf, NOW_MS, onlyLog, rowsOf, T, TRACE } from "./decoded-rows.fixture.ts";
import { decodeWithHash, logRecord, logsBody, span, stringAttribute, tracesBody } from "./otlp-body.fixture.ts";

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

  it("determines whether a repeated body is recognised", () => {
    const decode = (record: object) => decodeWithHash({ signal: "logs", body: logsBody([record, { timeUnixNano: T }]), context: CONTEXT });
    expect(decode({ observedTimeUnixNano: T }).bodyHash).toBe("42");
    expect(decode({}).bodyHash).toBeUndefined();
  });

  it("splits the rows by day", () => {
    const day = 86_400_000_000_000n;
    const body = logsBody([0n, 1n, 0n, 2n].map((days) => logRecord(BigInt(T) - days * day, "x")));
    const { sections } = decodeWithHash({ signal: "logs", body, context: CONTEXT });
    expect(sections.map(({ day, count }) => [day, count])).toEqual([
      [20_778, 2],
      [20_777, 1],
      [20_776, 1],
    ]);
  });
});

describe("labels", () => {
  it("join resource and record, and prefer the record's; reserved keys and the resource's service.name are omitted", () => {
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

  it("without service.name have the source unknown", () => {
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
