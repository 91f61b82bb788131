// Bodies of logs and traces that cost the most for their size, for tests: resources that are copied into thousands of records, and every
// dense form of JSON. `answer` is the expected result.
import type { OtlpSignal } from "./decoded-rows.ts";
import { logsBody, stringAttribute, tracesBody } from "./otlp-body.fixture.ts";

const MIB = 1024 * 1024;

export interface HostileBody {
  readonly name: string;
  readonly signal: OtlpSignal;
  readonly answer: "204" | "413 batch_too_large";
  readonly make: () => Buffer;
}

/** A body near the size limit: `head`, as many `unit`s as fit, `tail`. */
function filled(head: string, unit: (index: number) => string, tail: string): Buffer {
  const body = Buffer.alloc(32 * MIB);
  let at = body.write(head);
  for (let index = 0; at < 31.5 * MIB; index += 1) at += body.write(unit(index), at, "latin1");
  return Buffer.from(body.subarray(0, at + body.write(tail, at)));
}

const empty = (count: number) => Array.from({ length: count }, () => ({}));
const resource = (bytes: number) => [stringAttribute("a", "x".repeat(bytes))];
const records = (text: string) => `{"resourceLogs":[{"scopeLogs":[{"logRecords":[${text}`;
const ROUNDED = '"timeUnixNano":1795262400123456789';
const DOCUMENT = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{${ROUNDED}}]}]}],"x":[`;
const keys = (index: number) => Array.from({ length: 4000 }, (_, key) => `"k${index}_${key}":0`).join(",");

export const HOSTILE_BODIES: readonly HostileBody[] = [
  {
    name: "a resource of 6 MB over 2,000 records",
    signal: "logs",
    answer: "413 batch_too_large",
    make: () => logsBody(empty(2000), resource(6_000_000)),
  },
  {
    name: "a resource of 15 kB over 5,000 records, below 32 KiB",
    signal: "logs",
    answer: "204",
    make: () => logsBody(empty(5000), resource(15_000)),
  },
  {
    name: "a resource of 6 MB over 2,000 spans that are dropped",
    signal: "traces",
    answer: "413 batch_too_large",
    make: () => tracesBody(empty(2000), resource(6_000_000)),
  },
  { name: "numbers in an unknown field", signal: "logs", answer: "204", make: () => filled(DOCUMENT, () => "1.5,", "1]}") },
  {
    name: "numbers in a record",
    signal: "logs",
    answer: "413 batch_too_large",
    make: () => filled(records(`{${ROUNDED},"x":[`), () => "1.5,", "1]}]}]}]}"),
  },
  {
    name: "unique keys in an unknown field",
    signal: "logs",
    answer: "204",
    make: () => filled(DOCUMENT, (index) => `{"k${index}":0},`, "{}]}"),
  },
  {
    name: "unique keys in records",
    signal: "logs",
    answer: "204",
    make: () => filled(records(""), (index) => `{${ROUNDED},${keys(index)}},`, "{}]}]}]}"),
  },
  {
    name: "objects of unique keys in records",
    signal: "logs",
    answer: "204",
    make: () =>
      filled(
        records(""),
        (index) => `{"x":[${Array.from({ length: 4000 }, (_, key) => `{"k${index}_${key}":0}`).join(",")}]},`,
        "{}]}]}]}",
      ),
  },
  { name: "tiny records", signal: "logs", answer: "413 batch_too_large", make: () => filled(records(""), () => "{},", "{}]}]}]}") },
  {
    name: "a nested text of 31 MiB",
    signal: "logs",
    answer: "204",
    make: () => Buffer.from(records(`{"body":{"arrayValue":{"values":[{"stringValue":"😀${"x".repeat(31 * MIB)}"}]}}}]}]}]}`)),
  },
];
