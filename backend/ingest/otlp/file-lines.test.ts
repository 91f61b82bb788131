// Raw lines that the agent marks become the records that the agent's collector made of them before: the container runtime's prefix is removed,
// parts are joined, and bytes that are not UTF-8 are replaced. The mark counts only on the signed route for logs.
import { describe, expect, it, test } from "vitest";
import { CONTEXT, T } from "./decoded-rows.fixture.ts";
import {
  CONTAINER_LINES,
  containerLine,
  LINES,
  LINES_CONTEXT,
  lineRecord,
  linesBody,
  storedLine,
  storedLines,
  WRITTEN_NS,
} from "./file-lines.fixture.ts";
import { bytesField } from "./protobuf/encode.fixture.ts";

const READ_NS = String(BigInt(CONTEXT.receivedAtMs) * 1_000_000n);
const at = (time: string): string => `${Date.parse(time)}000000`;
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

describe("a line of a container runtime", () => {
  test.each([
    ["2026-11-21T10:00:00.123456789Z stdout F from containerd ", "from containerd ", "stdout", "1795255200123456789"],
    [
      "2026-11-21T12:00:01.5+02:00 stderr F from CRI-O, with two  spaces",
      "from CRI-O, with two  spaces",
      "stderr",
      at("2026-11-21T10:00:01.5Z"),
    ],
    ["2026-11-21T10:00:03Z stdout F ", "", "stdout", at("2026-11-21T10:00:03Z")],
    ["2026-11-21T10:00:03Z stdout F", "", "stdout", at("2026-11-21T10:00:03Z")],
    ["2026-11-21T10:00:03Z stdout F:future \ttext\t", "\ttext\t", "stdout", at("2026-11-21T10:00:03Z")],
    [
      '2026-11-21T10:00:04Z stdout F {"log":"its own","message":"x"}',
      '{"log":"its own","message":"x"}',
      "stdout",
      at("2026-11-21T10:00:04Z"),
    ],
    [
      String.raw`{"log":"from \u003cDocker\u003e \"é\" \ud83d\ude00\n","stream":"stderr","time":"2026-11-21T10:00:05.000000001Z"}`,
      'from <Docker> "é" 😀\n',
      "stderr",
      "1795255205000000001",
    ],
    ['{"log":"x","stream":"stdout","attrs":{"tag":["a"]},"time":"2026-11-21T10:00:05Z"}', "x", "stdout", at("2026-11-21T10:00:05Z")],
  ])("%s", (line, message, stream, time) => {
    const expected = { message, time, labels: { "log.iostream": stream }, level: "info", scope: "" };
    expect(storedLine(CONTAINER_LINES, line)).toMatchObject(expected);
  });

  it.each([
    "of no runtime at all",
    "2026-11-21T10:00:03Z stdin F x",
    "2026-11-21T10:00:03 stdout F x",
    "2026-11-31T10:00:03Z stdout F x",
    "2026-11-21T10:00:03Z stdout",
    "2026-11-21T10:00:03Z stdout P x\nno prefix",
    '{"log":"x","stream":"stdout"}',
    '{"log":"x","stream":"stdin","time":"2026-01-21T10:00:05Z"}',
    '{"log":"x","stream":"stdout","time":"yesterday"}',
    '{"log":"x","stream":"stdout","time":"2026-11-21T10:00:05Z"} x',
    "{",
    "",
  ])("in another format is stored unchanged: %s", (line) => {
    const stored = storedLine(CONTAINER_LINES, line);
    expect(stored).toMatchObject({ message: line, time: READ_NS, labels: {} });
  });

  it("has its level, although it is in no known format", () => {
    expect(storedLine(CONTAINER_LINES, "ERROR of no runtime").level).toBe("error");
  });

  it("of Docker has its level", () => {
    const line = JSON.stringify({ log: '{"level":"warn"}\n', stream: "stdout", time: "2026-11-21T10:00:05Z" });
    expect(storedLine(CONTAINER_LINES, line)).toMatchObject({ message: '{"level":"warn"}\n', level: "warn" });
  });

  it("of Docker that continues in the next one has a label, and the level of its beginning", () => {
    const line = JSON.stringify({ log: '{"level":"error","msg":"x', stream: "stdout", time: "2026-11-21T10:00:05Z" });
    expect(storedLine(CONTAINER_LINES, line)).toMatchObject({ level: "error", labels: { "log.incomplete": "end" } });
  });

  it("keeps the record's time if that is not a container's", () => {
    expect(storedLine(LINES, "x", { timeUnixNano: T }).time).toBe(T);
    expect(storedLine(CONTAINER_LINES, containerLine("x"), { timeUnixNano: T }).time).toBe(WRITTEN_NS);
  });
});

describe("a line in parts", () => {
  const part = (tag: string, text: string, second: number): string => `2026-11-21T10:00:0${second}Z stdout ${tag} ${text}`;

  it("is joined without separators, at the time of its first part", () => {
    const line = [part("P", "in ", 2), part("P", "three", 3), part("F", " parts", 4)].join("\n");
    expect(storedLine(CONTAINER_LINES, line)).toMatchObject({
      message: "in three parts",
      time: at("2026-11-21T10:00:02Z"),
      labels: { "log.iostream": "stdout" },
    });
  });

  it("has the level in the joined text", () => {
    const line = [part("P", '{"msg":"x","lev', 2), part("F", 'el":"error"}', 3)].join("\n");
    expect(storedLine(CONTAINER_LINES, line)).toMatchObject({ message: '{"msg":"x","level":"error"}', level: "error" });
  });

  it("has a label and the fields of its beginning if its end is missing", () => {
    const json = `{"level":"error","trace_id":"${TRACE}","msg":"`;
    for (const line of [part("P", json, 2), [part("P", json.slice(0, 20), 2), part("P", json.slice(20), 2)].join("\n")]) {
      expect(storedLine(CONTAINER_LINES, line)).toMatchObject({
        message: json,
        level: "error",
        traceId: TRACE,
        labels: { "log.iostream": "stdout", "log.incomplete": "end" },
      });
    }
  });

  it("keeps a character that is split between two parts", () => {
    const [first, second] = [part("P", "ab", 2), part("F", "cd", 3)];
    const line = Buffer.concat([Buffer.from(first), Buffer.from([0xf0, 0x9f]), Buffer.from("\n"), Buffer.from(second).subarray(0, -2)]);
    const body = Buffer.concat([line, Buffer.from([0x98, 0x80]), Buffer.from("cd")]);
    expect(storedLine(CONTAINER_LINES, body).message).toBe("ab😀cd");
  });

  it("may have 10,000 parts of nothing", () => {
    const line = [...Array.from({ length: 10_000 }, () => part("P", "", 2)), part("F", "x", 3)].join("\n");
    expect(storedLine(CONTAINER_LINES, line).message).toBe("x");
  });

  it("of a megabyte has the level of its beginning", () => {
    const message = `{"level":"fatal","msg":"${"x".repeat(1024 * 1024)}`;
    const parts = Array.from({ length: Math.ceil(message.length / 16_384) }, (_, index) =>
      message.slice(index * 16_384, (index + 1) * 16_384),
    );
    expect(storedLine(CONTAINER_LINES, parts.map((text) => part("P", text, 2)).join("\n"))).toMatchObject({ message, level: "fatal" });
  });
});

test("a line that the collector split after 1 MiB is marked, and has the level of its beginning", () => {
  const beginning = '{"level":"error","message":"';
  const whole = `${beginning}${"x".repeat(1_048_576 - beginning.length)}`;
  expect(storedLine(LINES, whole)).toMatchObject({ level: "error", labels: { "log.incomplete": "end" } });
  expect(storedLine(LINES, whole.slice(1)).labels).toEqual({});
});

describe("bytes that are not UTF-8", () => {
  test.each([
    ["a\xffb", "a\uFFFDb"],
    ["a\xff\xfe\x80b", "a\uFFFDb"],
    ["\xe2\x82", "\uFFFD"],
    ["\xe2\x82x\xf0\x9f\x98\x80\xed\xa0\x80\xff", "\uFFFDx😀\uFFFD"],
    ["\xc3\xa9\xc3", "é\uFFFD"],
  ])("%j", (bytes, expected) => {
    expect(storedLine(LINES, Buffer.from(bytes, "latin1")).message).toBe(expected);
    expect(storedLine(CONTAINER_LINES, Buffer.from(containerLine(bytes), "latin1")).message).toBe(expected);
  });

  it("do not hide the level", () => {
    expect(storedLine(LINES, Buffer.from('{"msg":"\xff","level":"error"}', "latin1")).level).toBe("error");
  });
});

describe("a marked record", () => {
  it("keeps its own level and ids", () => {
    const line = `level=error trace_id=${TRACE} span_id=${SPAN}`;
    const other = "1".repeat(32);
    expect(storedLine(LINES, line, { severityNumber: 5, traceId: other })).toMatchObject({ level: "debug", traceId: other, spanId: "" });
    expect(storedLine(LINES, line, { severityText: "Custom" })).toMatchObject({ level: "custom", severity: "0", traceId: TRACE });
  });

  it("has its labels, those of its resource, and those of the line, which replace others of the same name", () => {
    const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
    const resource = [attribute("k8s.pod.name", "p"), attribute("service.name", "s")];
    const [own, replaced] = [[attribute("log.file.path", "/a")], [attribute("log.iostream", "x")]].map((attributes) =>
      linesBody(CONTAINER_LINES, [lineRecord(containerLine("x"), { attributes })], resource),
    ) as [Buffer, Buffer];
    expect(storedLines(own).map(({ labels }) => labels)).toEqual([
      { "log.file.path": "/a", "log.iostream": "stdout", "k8s.pod.name": "p" },
    ]);
    expect(storedLines(replaced, { isFast: false }).map(({ labels }) => labels)).toEqual([
      { "log.iostream": "stdout", "k8s.pod.name": "p" },
    ]);
  });

  it("whose scope has the version `raw` is not parsed for fields, but its parts are joined", () => {
    const line = `${containerLine('{"level":"error","time":"2026-11-21T10:00:00Z"').replace(" F ", " P ")}\n${containerLine("}")}`;
    const expected = { message: '{"level":"error","time":"2026-11-21T10:00:00Z"}', level: "info", time: WRITTEN_NS };
    expect(storedLine({ ...CONTAINER_LINES, version: "raw" }, line)).toMatchObject(expected);
    expect(storedLine({ ...LINES, version: "raw" }, "ERROR x").level).toBe("info");
    expect(storedLine({ ...LINES, version: "1" }, "ERROR x").level).toBe("error");
  });

  it("whose body is no text is stored like any other", () => {
    const value = { kvlistValue: { values: [{ key: "level", value: { stringValue: "error" } }] } };
    const records = [{ timeUnixNano: T, body: value }, { timeUnixNano: T }];
    const rows = storedLines(linesBody(LINES, records)).map(({ message, level, scope }) => ({ message, level, scope }));
    expect(rows).toEqual([
      { message: '{"level":"error"}', level: "info", scope: "" },
      { message: "", level: "info", scope: "" },
    ]);
  });

  it("does not change records of other scopes in the same body", () => {
    const body = Buffer.concat([linesBody(CONTAINER_LINES, [lineRecord("ERROR a")]), linesBody({ name: "app" }, [lineRecord("ERROR b")])]);
    expect(storedLines(body).map(({ scope, level }) => [scope, level])).toEqual([
      ["", "error"],
      ["app", "info"],
    ]);
  });

  it("is stored like any other on other routes", () => {
    const body = linesBody(CONTAINER_LINES, [lineRecord(containerLine("ERROR x"))]);
    expect(storedLines(body, { context: CONTEXT })).toMatchObject([
      { message: containerLine("ERROR x"), level: "info", scope: "atherops/cri-lines", labels: {} },
    ]);
  });
});

test("text that is not UTF-8 in a record without a mark is rejected on the route that knows the mark", () => {
  const body = linesBody({ name: "app" }, [lineRecord(Buffer.from([0xff]))]);
  expect(() => storedLines(body, { isFast: false })).toThrow("resourceLogs[0].scopeLogs[0].logRecords[0].body.stringValue: is not UTF-8");
});

test("a body in two fields is decided by the slow path", () => {
  const twice = Buffer.concat([bytesField(1, Buffer.from("ERROR a")), bytesField(1, Buffer.from("WARN b"))]);
  const scope = bytesField(1, bytesField(1, Buffer.from(LINES.name)));
  const record = bytesField(2, bytesField(5, twice));
  const body = bytesField(1, bytesField(2, Buffer.concat([scope, record])));
  expect(storedLines(body, { context: LINES_CONTEXT, isFast: false })).toMatchObject([{ message: "WARN b", level: "warn" }]);
});
