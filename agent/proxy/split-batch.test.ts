import { expect, test } from "vitest";
import { BodyError } from "../../common/otlp-metrics/json-body.ts";
import { splitBatch } from "./split-batch.ts";

const record = (index: number, text = "x") => ({
  timeUnixNano: String(1_700_000_000_000_000_000n + BigInt(index)),
  body: { stringValue: text },
});
const resource = (name: string) => ({ attributes: [{ key: "service.name", value: { stringValue: name } }] });
const document = {
  future: 1,
  resourceLogs: [
    {
      resource: resource("a"),
      schemaUrl: "u",
      scopeLogs: [{ scope: { name: "s" }, logRecords: [0, 1, 2, 3].map((index) => record(index)) }, {}],
    },
    { resource: resource("empty") },
    {
      resource: resource("b"),
      scopeLogs: [{ scope: { name: "t" }, logRecords: null }, { logRecords: [record(4), record(5, "y".repeat(5000)), record(6)] }],
    },
  ],
};
const json = Buffer.from(JSON.stringify(document));

interface Parsed {
  resourceLogs: { resource: object; schemaUrl?: string; scopeLogs: { scope?: object; logRecords: object[] }[] }[];
}

function parts(limits: { storedBytes?: number; sentBytes?: number }) {
  return [...splitBatch("logs", json, { storedBytes: 1e9, sentBytes: 1e9, ...limits })];
}

function flat(body: Buffer): object[] {
  const { resourceLogs } = JSON.parse(body.toString()) as Parsed;
  return resourceLogs.flatMap(({ resource: of, schemaUrl, scopeLogs }) =>
    scopeLogs.flatMap(({ scope, logRecords }) => logRecords.map((each) => ({ of, schemaUrl, scope, each }))),
  );
}

test.each([{ storedBytes: 1 }, { storedBytes: 900 }, { storedBytes: 3000 }, { sentBytes: 400 }, {}])(
  "within %j each record comes once, in order, with its resource and scope, and the same bytes each time",
  (limits) => {
    const found = parts(limits);
    expect(found.flatMap(({ body }) => flat(body))).toEqual(expectedRecords());
    expect(found.map(({ records }) => records)).toEqual(found.map(({ body }) => flat(body).length));
    expect(parts(limits)).toEqual(found);
    for (const { body } of found) expect(JSON.parse(body.toString())).toMatchObject({ future: 1 });
  },
);

test("a part is as large as it may be, and a record that is too large is a part of its own", () => {
  expect(parts({ storedBytes: 1 }).map(({ records }) => records)).toEqual([1, 1, 1, 1, 1, 1, 1]);
  expect(parts({}).map(({ records }) => records)).toEqual([7]);
  expect(parts({ storedBytes: 3000 }).map(({ records }) => records)).toEqual([5, 1, 1]);
  for (const { body, records } of parts({ sentBytes: 600 })) expect(records === 1 || body.length < 800).toBe(true);
});

test("spans are cut likewise; nothing gives no part, and what is no document is malformed", () => {
  const spans = Buffer.from(JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [{ name: "1" }, { name: "2" }] }] }] }));
  expect([...splitBatch("traces", spans, { storedBytes: 1, sentBytes: 1 })].map(({ body }) => body.toString())).toEqual(
    ["1", "2"].map((name) => `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"${name}"}]}]}]}`),
  );
  const split = (text: string) => [...splitBatch("logs", Buffer.from(text), { storedBytes: 1, sentBytes: 1 })];
  expect(split("{}")).toEqual([]);
  for (const text of ["", "[", "null", '{"resourceLogs":{}}', '{"resourceLogs":[null]}']) expect(() => split(text)).toThrow(BodyError);
});

function expectedRecords(): object[] {
  const [a, , b] = document.resourceLogs;
  const of = (at: typeof a, scope: object | undefined, records: object[]) =>
    records.map((each) => ({ of: at?.resource, schemaUrl: at?.schemaUrl, scope, each }));
  return [
    ...of(
      a,
      { name: "s" },
      [0, 1, 2, 3].map((index) => record(index)),
    ),
    ...of(b, undefined, [record(4), record(5, "y".repeat(5000)), record(6)]),
  ];
}

test("a document of millions of empty objects is too large, and no other kind of wrong", () => {
  const hostile = Buffer.from(`{"resourceLogs":[${"{},".repeat(3_100_000)}{}]}`);
  const split = (): unknown => [...splitBatch("logs", hostile, { storedBytes: 1 << 20, sentBytes: 1 << 20 })];
  expect(split).toThrow(expect.objectContaining({ name: "BodyError", kind: "too_large" }));
});
