/* oxlint-disable vitest/no-conditional-expect -- of two decoders, either both refuse or both decode */
// Compares the kernel with the TypeScript decoder: if the kernel supports a body, it writes the same rows; otherwise the decoder decides.
// Documents are generated from a seed, which a failure prints. KERNEL_DOCUMENTS=300000 runs as many of each signal, instead of 2,000, and
// each replacement of a byte; KERNEL_SEED=n sets the first seed.
import { describe, expect, it } from "vitest";
import { ApiError } from "../../errors.ts";
import { decodeSlowPath, decodeWithHash, logRecord, logsBody, span, stringAttribute, tracesBody } from "./otlp-body.fixture.ts";
import { Kernel } from "./fast-decode.ts";
import { openComparison } from "./kernel-comparison.fixture.ts";
import { damaged, DIGITS, document, number, NUMBERS, Random, type Signal } from "./random-documents.fixture.ts";
import type { RowContext } from "./decoded-rows.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 2000);
/** Of the replacements of a byte, a third are tried, others for the next byte; all of them with KERNEL_DOCUMENTS. */
const STRIDE = process.env["KERNEL_DOCUMENTS"] === undefined ? 3 : 1;
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const SIGNALS = ["logs", "traces"] as const;
const MIB = 1024 * 1024;
const CONTEXT: RowContext = {
  orgId: "org",
  hostId: "a host",
  node: "",
  receivedAtMs: Date.UTC(2026, 10, 21, 12, 0, 0, 123),
  firstId: "455000000000000000",
  bodyHash: "17446744073709551615",
  retentionDays: 30,
};

const { kernel, fast, compare } = openComparison("json", CONTEXT);

/** One document of every field that the kernel knows. */
const WHOLE: Record<Signal, Buffer> = {
  logs: Buffer.from(
    JSON.stringify({
      resourceLogs: [
        {
          resource: { attributes: [stringAttribute("service.name", "shop"), stringAttribute("pod", "p-1")], droppedAttributesCount: 1 },
          scopeLogs: [
            {
              scope: { name: "scope", version: "1", attributes: [{ key: "x", value: { boolValue: false } }] },
              logRecords: [
                {
                  timeUnixNano: "1795262400123456789",
                  observedTimeUnixNano: 1795262400000,
                  severityNumber: 17,
                  severityText: "ERROR",
                  eventName: "bought",
                  body: { kvlistValue: { values: [{ key: "k\n", value: { arrayValue: { values: [{ doubleValue: 0.1 }, {}] } } }] } },
                  attributes: [stringAttribute("été", 'say "hi"'), { key: "n", value: { intValue: "-12" } }],
                  droppedAttributesCount: 0,
                  flags: 1,
                  traceId: "0AF7651916cd43dd8448eb211c80319c",
                  spanId: "b7ad6b7169203331",
                },
                logRecord(1795262400123456790n, "plain"),
                {},
              ],
              schemaUrl: "https://opentelemetry.io/schemas/1.9.0",
            },
          ],
        },
      ],
    }),
  ),
  traces: tracesBody([
    span(1795262400123456789n, "0AF7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", {
      parentSpanId: "b7ad6b7169203332",
      traceState: "a=b",
      flags: 257,
      kind: 3,
      status: { code: 2, message: "no\tpaper" },
      attributes: [{ key: "http.response.status_code", value: { intValue: 500 } }, stringAttribute("service.name", "left out")],
      events: [
        {
          timeUnixNano: "1795262400123456789",
          name: "exception",
          attributes: [stringAttribute("type", "é\u0001"), { key: "n", value: { doubleValue: 2 } }],
        },
        {},
      ],
      links: [{ traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", traceState: "", attributes: [{ key: "a" }] }],
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    }),
    span(1795262400123456789n, "", "b7ad6b7169203331"),
  ]),
};

/** Members that no message has. Their content is not read, so it may have the name of any field. */
const UNKNOWN = ['"future":{"time_unix_nano":"1","string_value":[]}', '"x":"\\"trace_id\\":"', '"newer_field":{"attributes":5}'];

describe.each(SIGNALS)("%s", (signal) => {
  it("with unknown fields have the same rows as without them, on both paths", () => {
    const text = String(WHOLE[signal]);
    const slow = (body: string): unknown => decodeSlowPath({ signal, body: Buffer.from(body), context: CONTEXT });
    for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at + 1)) {
      for (const member of UNKNOWN) {
        const body = `${text.slice(0, at + 1)}${member}${text[at + 1] === "}" ? "" : ","}${text.slice(at + 1)}`;
        expect(slow(body), body).toEqual(slow(text));
        expect([compare(signal, Buffer.from(body), "unknown"), body]).toEqual([!member.includes("newer_field"), body]);
      }
    }
  });

  it("with every known field are decoded by the kernel to the same rows", () => {
    expect(compare(signal, WHOLE[signal], "whole")).toBe(true);
  });

  it("that are random, odd or damaged become the same rows, or use the other decoder", { timeout: 3_600_000 }, () => {
    const kinds = [
      { odd: 0, isDamaged: false, least: 0.8 },
      { odd: 0.01, isDamaged: false, least: 0.3 },
      { odd: 0.05, isDamaged: false, least: 0.2 },
      { odd: 0.005, isDamaged: true, least: 0.05 },
    ].map((kind) => ({ ...kind, made: 0, taken: 0 }));
    for (let index = 0; index < DOCUMENTS; index += 1) {
      const kind = kinds[index % kinds.length] as (typeof kinds)[number];
      const random = new Random(SEED * 1_000_003 + index);
      random.odd = kind.odd;
      const made = Buffer.from(document(random, signal));
      kind.made += 1;
      if (compare(signal, kind.isDamaged ? damaged(random, made) : made, `KERNEL_SEED=${SEED}, document ${index}`)) kind.taken += 1;
    }
    console.log(
      signal,
      kinds.map(({ odd, isDamaged, made, taken }) => `${isDamaged ? "damaged" : odd}: ${taken} of ${made} taken`).join(", "),
    );
    // Else the comparison would say nothing.
    for (const { made, taken, least } of kinds) expect(taken / made).toBeGreaterThan(least);
    expect(kernel.traps).toBe(0);
  });

  it("that are truncated at any byte use the other decoder, although the kernel's memory contains the rest", () => {
    const whole = WHOLE[signal];
    for (let length = 0; length < whole.length; length += 1) {
      expect(fast(signal, whole)).toBeDefined();
      expect([length, fast(signal, whole.subarray(0, length))]).toEqual([length, undefined]);
    }
  });

  it("with any byte replaced become the same rows, or use the other decoder", { timeout: 300_000 }, () => {
    const bytes = Buffer.from('"\\{}[]:,0-.e n\n\u0000\u001f\u0080\u00ff', "latin1");
    for (let at = 0; at < WHOLE[signal].length; at += 1) {
      for (let nth = at % STRIDE; nth < bytes.length; nth += STRIDE) {
        const byte = bytes[nth] ?? 0;
        const body = Buffer.from(WHOLE[signal]);
        body[at] = byte;
        compare(signal, body, `byte ${at} is ${byte}`);
      }
    }
    expect(kernel.traps).toBe(0);
  });

  it("with numbers in every form and position become the same rows, or use the other decoder", { timeout: 300_000 }, () => {
    const text = WHOLE[signal].toString();
    const places = [...text.matchAll(/(?<=":)(?:-?[\d.]+|"\d{19}"|"-12")(?=[,}])/g)];
    expect(places.length).toBeGreaterThan(5);
    const random = new Random(SEED);
    const numbers = [...NUMBERS, ...DIGITS, ...Array.from({ length: 900 / STRIDE }, () => number(random))];
    const taken = numbers.flatMap((written) =>
      [written, JSON.stringify(written)].filter((value) =>
        places
          .map(({ 0: was, index }) => text.slice(0, index) + value + text.slice(index + was.length))
          .map((changed) => compare(signal, Buffer.from(changed), value))
          .includes(true),
      ),
    );
    expect(taken.length).toBeGreaterThan(100);
  });

  it("of many days, or dropped for their time, become the same rows", () => {
    const day = 86_400_000_000_000n;
    const times = [0n, 1n, -1n, 0n, 3n, 29n, 30n, 31n, -2n, 5n, 3n].map((days) => 1795262400123456789n - days * day);
    const body =
      signal === "logs"
        ? logsBody(times.map((time) => logRecord(time, String(time))))
        : tracesBody(times.map((time, index) => span(time, "0af7651916cd43dd8448eb211c80319c", String(index + 1).padStart(16, "0"))));
    expect(compare(signal, body, "days")).toBe(true);
    expect(Object.keys(fast(signal, body)?.dropped ?? {})).toEqual(["too_old", "too_far_ahead"]);
  });

  it.each([
    ["128 keys, which have a dictionary", 128, 10],
    ["129 keys, which have none", 129, 10],
    ["keys of 9,000 bytes, which have none", 3, 3000],
    ["short keys, each once", 20, 1],
  ])("with %s become the same rows", (_, keys, length) => {
    const attributes = Array.from({ length: keys }, (_key, index) =>
      stringAttribute(String.fromCharCode(256 + index).padEnd(length, "k"), ""),
    );
    const time = 1795262400123456789n;
    const [trace, id] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
    const record = (rest: object) => (signal === "logs" ? logRecord(time, "", rest) : span(time, trace, id, rest));
    const make = signal === "logs" ? logsBody : tracesBody;
    const records = Array.from({ length: 20 }, (_record, index) => record({ attributes: attributes.slice(index % 2), traceState: "é" }));
    expect(compare(signal, make(length === 1 ? records.slice(0, 1) : records), String(keys))).toBe(true);
  });

  it("that would exceed the kernel's memory use the other decoder, and the kernel stays within its limit", () => {
    const attribute = stringAttribute("a", "x".repeat(200_000));
    const make = signal === "logs" ? logsBody : tracesBody;
    const filled = (unit: string) =>
      Buffer.from(
        make([])
          .toString()
          .replace("[]}]}]", `[${unit.repeat((4.9 * MIB) / unit.length)}{}]}]}]`),
      );
    const bodies = [
      make(
        Array.from({ length: 2000 }, () => ({})),
        [attribute],
      ),
      filled("{},"),
      filled('{"x":[1]},'),
      Buffer.from("[".repeat(4 * MIB)),
      Buffer.from(`{"x":"${"y".repeat(5 * MIB)}"}`),
      make([{ x: "y".repeat(300_000) }]),
    ];
    for (const body of bodies) expect(fast(signal, body)).toBeUndefined();
    expect(kernel.memoryBytes).toBeLessThanOrEqual(50 * MIB);
    expect(fast(signal, WHOLE[signal])).toBeDefined();
  });
});

it("any bytes end neither the kernel nor the process", () => {
  const random = new Random(SEED);
  const words = [
    ...'{ } [ ] : , " \\ null true 1 - "key": "value": "attributes":[ {"stringValue":" "resourceLogs":[ "scopeLogs":[ "logRecords":[ "body": "kvlistValue":{"values":[ "arrayValue":{"values":[ "timeUnixNano":"1 "traceId":" \u0000 é'.split(
      " ",
    ),
    " ",
  ];
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const soup = Array.from({ length: random.below(60) }, () => random.pick(words)).join("");
    const body =
      index % 2 === 0
        ? Buffer.from(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{${soup}`)
        : Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)));
    for (const signal of SIGNALS) compare(signal, body, `KERNEL_SEED=${SEED}, soup ${index}`);
  }
  expect(kernel.traps).toBe(0);
});

it("leaves invalid UTF-8 to the other decoder, which rejects it", () => {
  const body = Buffer.from(WHOLE.logs.toString().replace("plain", "pl\u00e4in"), "latin1");
  expect(fast("logs", body)).toBeUndefined();
  expect(() => decodeWithHash({ signal: "logs", body, context: CONTEXT })).toThrow(ApiError);
});

it("rejects a kernel of other sources when it is opened, not at the first body", () => {
  const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  expect(() => new Kernel(empty)).toThrow("the kernel was compiled of other sources: it has no decode");
});
