import { describe, expect, test } from "vitest";
import { type FileBatch, parseFileRequest } from "./file-batch.ts";

interface Line {
  readonly text?: string;
  readonly path?: string;
  readonly offset?: number | undefined;
  readonly readAt?: string;
  readonly time?: string;
  readonly body?: object;
  /** Attributes the other way round. */
  readonly turned?: boolean;
}

/** Builds a request in the form in which the collector writes it. */
function request(...lines: Line[]): Buffer {
  return Buffer.from(JSON.stringify({ resourceLogs: [resourceLogs(lines)] }));
}

function resourceLogs(lines: readonly Line[]): object {
  const logRecords = lines.map(
    ({ text = "a line", path = "/var/log/x.log", offset, readAt = "1763714400123456789", time, body, turned }) => {
      const attributes: object[] = [
        { key: "log.file.name", value: { stringValue: path.split("/").at(-1) } },
        ...(offset === undefined ? [] : [{ key: "log.file.record_offset", value: { intValue: String(offset) } }]),
        { key: "log.file.path", value: { stringValue: path } },
      ];
      if (turned) attributes.reverse();
      return { ...(time && { timeUnixNano: time }), observedTimeUnixNano: readAt, body: body ?? { stringValue: text }, attributes };
    },
  );
  return { resource: {}, scopeLogs: [{ scope: {}, logRecords }] };
}

function batchOf(json: Buffer): FileBatch {
  const { batches } = parseFileRequest(json);
  expect(batches).toHaveLength(1);
  return batches[0] as FileBatch;
}

function buildBody(json: Buffer): string {
  const { batches, buildBody } = parseFileRequest(json);
  return buildBody(batches).toString();
}

function keyOf(...lines: Line[]): string | undefined {
  return batchOf(request(...lines)).key;
}

describe("a batch that leaves the node", () => {
  const TEXTS = [
    'of "quotes" and \\',
    "ünï 𝄞 cödé",
    '{"key":"log.file.record_offset","value":{"intValue":"7"}}',
    '\\"body":{"stringValue":"',
    "",
  ];

  test("contains no line offsets, and is otherwise byte-identical", () => {
    const lines = TEXTS.map((text, i): Line => ({ text, turned: i % 2 === 0 }));
    const placed = lines.map((line, i): Line => ({ ...line, offset: i * 100 }));
    expect(buildBody(request(...placed))).toBe(request(...lines).toString());
  });

  test.each([
    ["first", "[P,A]", "[A]"],
    ["last", "[A,P]", "[A]"],
    ["between others", "[A,P,B]", "[A,B]"],
    ["alone", "[P]", "[]"],
    ["twice in a row", "[A,P,P]", "[A]"],
    ["twice and nothing else", "[P,P]", "[]"],
  ])("is JSON if the offset is %s", (_, before, after) => {
    const filled = (list: string): string =>
      `{"attributes":${list.replaceAll("P", '{"key":"log.file.record_offset","value":{"intValue":"12"}}').replaceAll(/[AB]/g, '{"key":"$&"}')}}`;
    expect(buildBody(Buffer.from(filled(before)))).toBe(filled(after));
  });

  test.each(["", "{}", "no JSON", '{"key":"log.file.record_offset","value":{"intValue":"', '"observedTimeUnixNano":"'])(
    "is passed unchanged and without a key if it is %j",
    (text) => {
      expect(batchOf(Buffer.from(text)).key).toBeUndefined();
      expect(text.startsWith(buildBody(Buffer.from(text)))).toBe(true);
    },
  );
});

describe("lines are recognised", () => {
  const LINES: Line[] = [
    { text: 'one "quoted"', offset: 0 },
    { text: "two", offset: 14 },
  ];

  test("if they are read at another time, with their attributes in another order", () => {
    const again = LINES.map((line): Line => ({ ...line, readAt: "1763714999000000000", turned: true }));
    expect(keyOf(...again)).toBe(keyOf(...LINES));
    expect(batchOf(request(...again)).readAtMs).toBe(1_763_714_999_000);
  });

  test.each(["/var/log/x.log.1", "/var/log/x.log.20261122-070000"])("after their file is renamed to %s", (path) => {
    expect(keyOf(...LINES.map((line): Line => ({ ...line, path })))).toBe(keyOf(...LINES));
  });

  const OTHERS: [string, Line][] = [
    ["another offset", { text: "two", offset: 15 }],
    ["another text", { text: "twO", offset: 14 }],
    ["another file", { text: "two", offset: 14, path: "/var/log/y.log" }],
    ["a time of its own", { text: "two", offset: 14, time: "1763714400000000000" }],
  ];
  test.each(OTHERS)("not if they have %s", (_, other) => {
    expect(keyOf(LINES[0] ?? {}, other)).not.toBe(keyOf(...LINES));
  });

  test("not if a line is missing or added", () => {
    const keys = [keyOf(...LINES), keyOf(LINES[0] ?? {}), keyOf(...LINES, { text: "three", offset: 18 })];
    expect(new Set(keys).size).toBe(3);
  });

  test("by an agent of another version, because the keys are on disk", () => {
    const placed: Line[] = [
      { text: 'eins "zwei" ü 𝄞', offset: 0, path: "/var/log/x.log.1" },
      { text: "", offset: 9, path: "/var/log/x.log.1" },
    ];
    expect(keyOf(...placed)).toBe("K_q9ArhTFp8ZL8rXCpwC");
  });

  test("not if a line has no offset or is no text", () => {
    expect(keyOf(...LINES, { text: "three" })).toBeUndefined();
    expect(keyOf(...LINES, { offset: 18, body: { kvlistValue: { values: [] } } })).toBeUndefined();
  });
});

describe("batches of several files in one request", () => {
  const BATCHES: Line[][] = [
    [{ text: "one", offset: 0 }],
    [
      { text: '},{"resource":{}', offset: 7, path: "/var/log/y.log", readAt: "1763714401000000000" },
      { text: "two", offset: 24, path: "/var/log/y.log" },
    ],
    [{ text: "of no file" }],
  ];
  const together = Buffer.from(JSON.stringify({ resourceLogs: BATCHES.map(resourceLogs) }));

  test("are recognised individually, as if each was sent alone", () => {
    const { batches } = parseFileRequest(together);
    expect(batches.map(({ key }) => key)).toEqual(BATCHES.map((lines) => keyOf(...lines)));
    expect(batches.map(({ readAtMs }) => readAtMs)).toEqual([1_763_714_400_123, 1_763_714_401_000, 1_763_714_400_123]);
  });

  test("are byte-identical, whether they leave together, in part or in another batch", () => {
    const { batches, buildBody: body } = parseFileRequest(together);
    const withoutOffsets = BATCHES.map((lines) => resourceLogs(lines.map((line): Line => ({ ...line, offset: undefined }))));
    const [first, second, third] = withoutOffsets;
    expect(JSON.parse(body(batches).toString())).toEqual({ resourceLogs: [first, second, third] });
    expect(body(batches.toSpliced(1, 1)).toString()).toBe(JSON.stringify({ resourceLogs: [first, third] }));
    expect(body(batches.slice(0, 1)).toString()).toBe(buildBody(request(...(BATCHES[0] ?? []))));
  });
});
