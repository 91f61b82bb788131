import { describe, expect, test } from "vitest";
import { bytesField, encodeProtobuf } from "../../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { BYTES, WireReader } from "../../../common/protobuf/wire-reader.ts";
import { BodyError } from "../../../common/otlp-metrics/document.ts";
import { type BatchId, type FileBatch, joinBatches, parseFileRequest, START_ATTRIBUTE } from "./file-batch.ts";

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
  return encodeProtobuf("logs", { resourceLogs: [resourceLogs(lines)] });
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

function batchOf(body: Buffer): FileBatch {
  const batches = parseFileRequest(body);
  expect(batches).toHaveLength(1);
  return batches[0] as FileBatch;
}

function forwarded(body: Buffer): Buffer {
  return joinBatches(parseFileRequest(body));
}

function keysOf(...lines: Line[]): BatchId["lines"] | undefined {
  return batchOf(request(...lines)).identity?.lines;
}

/** Messages begin with a tag and a length, which are control characters. */
function isUtf8Text(bytes: Buffer): boolean {
  return !/^[\0-\x1f*2YR]/.test(bytes.toString("latin1"));
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
    expect(forwarded(request(...placed))).toEqual(request(...lines));
  });

  test("contains neither NUL bytes of holes nor byte order marks at the beginning of a line, and no records of nothing else", () => {
    const hole = "\0".repeat(300);
    const counts = { split: 0, holes: 0 };
    const lines = ["first", hole, `${hole}after the hole`, "in\0side", "\0", "\uFEFFmarked\uFEFF", `${hole}\uFEFF`, "last\0"];
    const batches = parseFileRequest(
      request(...lines.map((text, index): Line => ({ text, offset: index * 100, turned: index % 2 === 0 }))),
      counts,
    );
    const kept = ["first", undefined, "after the hole", "in\0side", undefined, "marked\uFEFF", undefined, "last\0"];
    const expected = kept.flatMap((text, index): Line[] => (text === undefined ? [] : [{ text, turned: index % 2 === 0 }]));
    expect(joinBatches(batches)).toEqual(request(...expected));
    expect(counts).toEqual({ split: 0, holes: 3 });
  });

  test("is empty if it has only holes, and is still identified", () => {
    const [batch] = parseFileRequest(request({ text: "\0\0", offset: 0 }, { text: "\0", offset: 2 }));
    expect(batch).toMatchObject({ body: Buffer.alloc(0), identity: { lines: [expect.any(Number), expect.any(Number)] } });
  });

  test("counts lines that the collector split", () => {
    const counts = { split: 0, holes: 0 };
    parseFileRequest(request({ text: "x".repeat(1_048_576), offset: 0 }, { text: "x".repeat(1_048_575), offset: 1_048_576 }), counts);
    expect(counts).toEqual({ split: 1, holes: 0 });
  });

  test("contains path and name of the file once, on the resource", () => {
    const text = (key: string, stringValue: string): object => ({ key, value: { stringValue } });
    const file = [text("log.file.path", "/var/log/x.log"), text("log.file.name", "x.log")];
    const kept = [text("log.file.name", "other.log"), { key: "log.file.name", value: { intValue: "7" } }];
    const encode = (attributes: object[]): Buffer =>
      encodeProtobuf("logs", {
        resourceLogs: [{ resource: { attributes: file }, scopeLogs: [{ scope: {}, logRecords: [{ attributes }] }] }],
      });
    expect(forwarded(encode([...file, ...kept]))).toEqual(encode(kept));
  });

  test.each([
    ["first", "PA", "A"],
    ["last", "AP", "A"],
    ["between others", "APB", "AB"],
    ["alone", "P", ""],
    ["twice in a row", "APP", "A"],
    ["twice and nothing else", "PP", ""],
  ])("has all other attributes if the offset is %s", (_, before, after) => {
    const filled = (list: string): Buffer => {
      const attributes = list.split("").map((key) => ({ key: key === "P" ? "log.file.record_offset" : key, value: { intValue: "12" } }));
      return encodeProtobuf("logs", { resourceLogs: [{ scopeLogs: [{ logRecords: [{ attributes }] }] }] });
    };
    expect(forwarded(filled(before))).toEqual(filled(after));
  });

  test("keeps fields that this agent does not know", () => {
    const scope = bytesField(
      2,
      Buffer.concat([bytesField(2, bytesField(5, bytesField(1, Buffer.from("x")))), bytesField(3, Buffer.from("u"))]),
    );
    const body = bytesField(1, Buffer.concat([bytesField(17, Buffer.from("new")), scope, bytesField(3, Buffer.from("v"))]));
    const [kept] = parseFileRequest(body);
    for (const text of ["new", "u", "v", "x"]) expect(kept?.body.includes(text), text).toBe(true);
    expect(kept?.body).toHaveLength(body.length);
  });

  test("has the number of the collector's start, which does not leave the node", () => {
    const text = (key: string, stringValue: string): object => ({ key, value: { stringValue } });
    const encode = (...attributes: object[]): Buffer =>
      encodeProtobuf("logs", { resourceLogs: [{ ...resourceLogs([{ offset: 0 }]), resource: { attributes } }] });
    for (const value of [{ intValue: "7" }, { stringValue: "7" }]) {
      const batch = batchOf(encode(text("a", "b"), { key: START_ATTRIBUTE, value }, text("c", "d")));
      expect(batch.identity?.start).toBe(7);
      expect(batch.body).toEqual(forwarded(encode(text("a", "b"), text("c", "d"))));
    }
    expect(batchOf(encode()).identity?.start).toBe(0);
  });

  test("can be built without some of its lines", () => {
    const lines: Line[] = TEXTS.map((text, index) => ({ text, offset: index * 100 }));
    const batch = batchOf(request(...lines));
    const [, second, , fourth] = batch.identity?.lines ?? [];
    const rest = lines.filter((_, index) => index !== 1 && index !== 3).map(({ text = "" }): Line => ({ text }));
    expect(batch.without(new Set([second ?? 0, fourth ?? 0]))).toEqual(request(...rest));
  });

  test("is refused if it has so many parts that they need more memory than their bytes", () => {
    expect(() => parseFileRequest(Buffer.alloc(1_100_000, "0a00", "hex"))).toThrow(expect.objectContaining({ kind: "too_large" }));
  });

  test("is refused if it is not protobuf", () => {
    expect(() => parseFileRequest(Buffer.from("no protobuf"))).toThrow(BodyError);
    expect(parseFileRequest(Buffer.alloc(0))).toEqual([]);
  });
});

describe("lines are recognised", () => {
  const LINES: Line[] = [
    { text: 'one "quoted"', offset: 0 },
    { text: "two", offset: 14 },
  ];

  test("if they are read at another time, with their attributes in another order", () => {
    const again = LINES.map((line): Line => ({ ...line, readAt: "1763714999000000000", turned: true }));
    expect(keysOf(...again)).toEqual(keysOf(...LINES));
    expect(batchOf(request(...again)).identity?.readAtMs).toBe(1_763_714_999_000);
  });

  test.each(["/var/log/x.log.1", "/var/log/x.log.20261122-070000"])("after their file is renamed to %s", (path) => {
    expect(keysOf(...LINES.map((line): Line => ({ ...line, path })))).toEqual(keysOf(...LINES));
  });

  const OTHERS: [string, Line][] = [
    ["another offset", { text: "two", offset: 15 }],
    ["another text", { text: "twO", offset: 14 }],
    ["another file", { text: "two", offset: 14, path: "/var/log/y.log" }],
    ["a time of its own", { text: "two", offset: 14, time: "1763714400000000000" }],
  ];
  test.each(OTHERS)("not if they have %s", (_, other) => {
    const [first, second] = keysOf(LINES[0] ?? {}, other) ?? [];
    expect(first).toBe(keysOf(...LINES)?.[0]);
    expect(second).not.toBe(keysOf(...LINES)?.[1]);
  });

  test("in whatever batch they are", () => {
    const [first, second] = LINES;
    expect([...(keysOf(first ?? {}) ?? []), ...(keysOf(second ?? {}, { text: "three", offset: 18 }) ?? [])].slice(0, 2)).toEqual(
      keysOf(...LINES),
    );
  });

  test("by an agent of another version, because the keys are on disk", () => {
    const placed: Line[] = [
      { text: 'eins "zwei" ü 𝄞', offset: 0, path: "/var/log/x.log.1" },
      { text: "", offset: 9, path: "/var/log/x.log.1" },
    ];
    expect(keysOf(...placed)).toEqual([7_442_002_710_393_166, 194_166_914_162_697]);
  });

  test("whatever the order of the fields of a message is, because the collector writes the last one first", () => {
    const turnedFields = (bytes: Buffer, depth: number): Buffer => {
      const fields: Buffer[] = [];
      const reader = new WireReader(bytes);
      reader.message(0, bytes.length, () => {
        const isMessage = depth > 0 && reader.wireType === BYTES && !isUtf8Text(bytes.subarray(reader.start, reader.end));
        const content = bytes.subarray(reader.start, reader.end);
        fields.push(isMessage ? bytesField(reader.field, turnedFields(content, depth - 1)) : bytes.subarray(reader.tagStart, reader.end));
      });
      return Buffer.concat(fields.toReversed());
    };
    const [first, second] = LINES.toReversed();
    expect(keysOf(...LINES)).toEqual(batchOf(turnedFields(request(first ?? {}, second ?? {}), 5)).identity?.lines);
  });

  test("not if a line has no offset or is no text", () => {
    expect(keysOf(...LINES, { text: "three" })).toBeUndefined();
    expect(keysOf(...LINES, { offset: 18, body: { kvlistValue: { values: [] } } })).toBeUndefined();
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
  const together = encodeProtobuf("logs", { resourceLogs: BATCHES.map(resourceLogs) });

  test("are recognised individually, as if each was sent alone", () => {
    const batches = parseFileRequest(together);
    expect(batches.map(({ identity }) => identity?.lines)).toEqual(BATCHES.map((lines) => keysOf(...lines)));
    expect(batches.map(({ identity }) => identity?.readAtMs)).toEqual([1_763_714_400_123, 1_763_714_401_000, undefined]);
  });

  test("are byte-identical, whether they leave together, in part or in another batch", () => {
    const batches = parseFileRequest(together);
    const [first, second, third] = BATCHES.map((lines) => request(...lines.map((line): Line => ({ ...line, offset: undefined }))));
    expect(joinBatches(batches)).toEqual(Buffer.concat([first, second, third] as Buffer[]));
    expect(joinBatches(batches.toSpliced(1, 1))).toEqual(Buffer.concat([first, third] as Buffer[]));
    expect(joinBatches(batches.slice(0, 1))).toEqual(forwarded(request(...(BATCHES[0] ?? []))));
  });

  test("have the same key if the file's path is an attribute of the resource", () => {
    const lines: Line[] = [
      { text: "one", offset: 0 },
      { text: "two", offset: 4 },
    ];
    const hoisted = encodeProtobuf("logs", {
      resourceLogs: [
        {
          resource: { attributes: [{ key: "log.file.path", value: { stringValue: "/var/log/x.log" } }] },
          scopeLogs: [
            {
              logRecords: lines.map(({ text, offset }) => ({
                observedTimeUnixNano: "1763714400123456789",
                body: { stringValue: text },
                attributes: [{ key: "log.file.record_offset", value: { intValue: String(offset) } }],
              })),
            },
          ],
        },
      ],
    });
    expect(batchOf(hoisted).identity?.lines).toEqual(keysOf(...lines));
  });
});

test("has the keys that agents of two former commits gave to these batches, 523bb1f9 and 0244d6ed", () => {
  const lines: Line[] = [
    { text: 'a "quoted" \\ line\twith ünï 𝄞', offset: 0, path: "/var/log/x.log.1", time: "1763714400123456789" },
    { text: "", offset: 40, path: "/var/log/x.log.1" },
    { text: "of another file", offset: 41, path: "/var/log/y.log" },
  ];
  expect(
    batchOf(request(...lines))
      .formerKeys()
      .of(3),
  ).toEqual(["_BssMVbAagR1J4GXL47G", "dWG5CLOmeias78aw_J8m"]);
  const padded = batchOf(request({ text: " \tpadded  ", offset: 7 }));
  expect(padded.formerKeys().of(1)[1]).toBe(
    batchOf(request({ text: "padded", offset: 7 }))
      .formerKeys()
      .of(1)[1],
  );
});
