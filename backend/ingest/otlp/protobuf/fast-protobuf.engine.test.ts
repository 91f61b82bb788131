/* oxlint-disable vitest/no-conditional-expect -- of two decoders, either both refuse or both decode */
// Compares the protobuf kernel with transcoding to JSON and the TypeScript decoder: if the kernel supports a body, it writes the same rows;
// otherwise the decoder decides. KERNEL_DOCUMENTS=300000 runs as many of each signal; KERNEL_SEED=n sets the first seed.
import { describe, expect, it } from "vitest";
import { CONTEXT } from "../decoded-rows.fixture.ts";
import { openComparison } from "../kernel-comparison.fixture.ts";
import { document, Random, type Signal } from "../random-documents.fixture.ts";
import { bytesField, encodeProtobuf } from "./encode.fixture.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 1000);
/** Of the replacements of a byte, a third are tried, others for the next byte; all of them with KERNEL_DOCUMENTS. */
const STRIDE = process.env["KERNEL_DOCUMENTS"] === undefined ? 3 : 1;
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const MIB = 1024 * 1024;
const T = "1795262400123456789";
const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";
/** Numbers of the fields of a record. */
const ATTRIBUTES: Record<Signal, number> = { logs: 6, traces: 9 };

const { kernel, fast, compare } = openComparison("protobuf", CONTEXT);

const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const LIST = {
  arrayValue: { values: [{ stringValue: 'a"\\\n\u0001é' }, { intValue: "-1" }, { doubleValue: -0.5 }, { boolValue: true }, {}] },
};
const MAP = { kvlistValue: { values: [{ key: "k\t", value: LIST }, { key: "", value: { doubleValue: Number.NaN } }, { key: "none" }] } };
const RESOURCE = { attributes: [text("service.name", "shop"), { key: "process.command_args", value: LIST }], droppedAttributesCount: 1 };
const SCOPE = { name: "scope", version: "1", attributes: [{ key: "x", value: { boolValue: false } }] };

/** One document of every field that the kernel knows. */
const WHOLE: Record<Signal, Buffer> = {
  logs: encodeProtobuf("logs", {
    resourceLogs: [
      {
        resource: RESOURCE,
        scopeLogs: [
          {
            scope: SCOPE,
            logRecords: [
              {
                timeUnixNano: T,
                observedTimeUnixNano: "1795262400000000000",
                severityNumber: 17,
                severityText: "ERROR",
                eventName: "bought",
                body: MAP,
                attributes: [
                  text("été", 'say "hi"'),
                  { key: "n", value: { intValue: "-9223372036854775808" } },
                  { key: "d", value: { doubleValue: 1e21 } },
                  { key: "zero", value: { doubleValue: -0 } },
                ],
                droppedAttributesCount: 0,
                flags: 1,
                traceId: TRACE_ID,
                spanId: SPAN_ID,
              },
              { timeUnixNano: T, body: { stringValue: "plain" }, traceId: "0".repeat(32) },
              {},
            ],
          },
          { logRecords: [{ observedTimeUnixNano: T }] },
        ],
      },
      { scopeLogs: [{ logRecords: [{ severityNumber: 99, attributes: [text("service.name", "label")] }] }] },
    ],
  }),
  traces: encodeProtobuf("traces", {
    resourceSpans: [
      {
        resource: RESOURCE,
        scopeSpans: [
          {
            scope: SCOPE,
            spans: [
              {
                traceId: TRACE_ID,
                spanId: SPAN_ID,
                parentSpanId: "b7ad6b7169203332",
                traceState: "a=b",
                name: "GET /",
                flags: 257,
                kind: 3,
                startTimeUnixNano: T,
                endTimeUnixNano: "1795262400123456999",
                status: { code: 2, message: "no\tpaper" },
                attributes: [{ key: "http.response.status_code", value: { intValue: "500" } }, text("service.name", "left out")],
                events: [
                  {
                    timeUnixNano: T,
                    name: 'ex"ception',
                    attributes: [text("type", "é\u0001"), { key: "list", value: MAP }, { key: "none" }],
                  },
                  {},
                ],
                links: [{ traceId: TRACE_ID, spanId: SPAN_ID, traceState: "s", attributes: [text("a", "b")], flags: 1 }, {}],
                droppedAttributesCount: 0,
                droppedEventsCount: 1,
                droppedLinksCount: 2,
              },
              { traceId: TRACE_ID, spanId: SPAN_ID, kind: 77 },
              { traceId: "", spanId: SPAN_ID },
            ],
          },
        ],
      },
    ],
  }),
};

const REPLACEMENTS = [0, 1, 2, 8, 0x0a, 0x12, 0x1a, 0x2a, 0x32, 0x3a, 0x42, 0x4a, 0x5a, 0x7f, 0x80, 0xff];

describe.each(["logs", "traces"] as const)("%s", (signal) => {
  it("with every known field are decoded by the kernel to the same rows", () => {
    expect(compare(signal, WHOLE[signal], "whole")).toBe(true);
  });

  it("that are random, whole or damaged become the same rows, or use the other decoder", { timeout: 3_600_000 }, () => {
    const taken = { whole: 0, damaged: 0 };
    let made = 0;
    for (let index = 0; index < DOCUMENTS; index += 1) {
      const random = new Random(SEED * 1_000_003 + index);
      const body = encoded(signal, document(random, signal));
      if (body === undefined || body.length === 0) continue;
      made += 1;
      const what = `KERNEL_SEED=${SEED}, document ${index}`;
      if (compare(signal, body, what)) taken.whole += 1;
      for (let count = 1 + random.below(3); count > 0; count -= 1) body[random.below(body.length)] = random.below(256);
      if (compare(signal, body, `${what}, damaged`)) taken.damaged += 1;
    }
    console.log(signal, `${taken.whole} of ${made} taken, ${taken.damaged} damaged ones`);
    // Otherwise the comparison would prove nothing.
    expect(made).toBeGreaterThan(DOCUMENTS / 2);
    expect(taken.whole / made).toBeGreaterThan(0.8);
    expect(taken.damaged / made).toBeGreaterThan(0.05);
    expect(kernel.traps).toBe(0);
  });

  it(
    "that are truncated at any byte, or with any byte replaced, become the same rows or use the other decoder",
    { timeout: 300_000 },
    () => {
      const whole = WHOLE[signal];
      for (let length = 0; length < whole.length; length += 1) {
        expect(fast(signal, whole)).toBeDefined();
        compare(signal, whole.subarray(0, length), `${length} bytes`);
      }
      for (let at = 0; at < whole.length; at += 1) {
        for (let nth = at % STRIDE; nth < REPLACEMENTS.length; nth += STRIDE) {
          const byte = REPLACEMENTS[nth] ?? 0;
          const body = Buffer.from(whole);
          body[at] = byte;
          compare(signal, body, `byte ${at} is ${byte}`);
        }
      }
      expect(kernel.traps).toBe(0);
    },
  );

  it("that would exceed the kernel's memory use the other decoder, and the kernel stays within its limit", () => {
    const inRequest = (records: Buffer, resource: Buffer = Buffer.alloc(0)): Buffer =>
      bytesField(1, Buffer.concat([bytesField(1, resource), bytesField(2, records)]));
    const attribute = bytesField(
      1,
      Buffer.concat([bytesField(1, Buffer.from("a")), bytesField(2, bytesField(1, Buffer.alloc(200_000, "x")))]),
    );
    const empty = bytesField(2, Buffer.alloc(0));
    let nested: Buffer = bytesField(1, Buffer.from("x"));
    for (let level = 0; level < 5000; level += 1) nested = bytesField(5, bytesField(1, nested));
    const list = bytesField(5, Buffer.alloc(300_000, Buffer.from([0x0a, 0])));
    const bodies = [
      inRequest(Buffer.alloc(4_900_000, empty)),
      inRequest(Buffer.alloc(4000, empty), attribute),
      inRequest(bytesField(2, bytesField(ATTRIBUTES[signal], bytesField(2, nested)))),
      inRequest(bytesField(2, bytesField(ATTRIBUTES[signal], bytesField(2, list)))),
      Buffer.alloc(5.5 * MIB, 0xff),
      Buffer.alloc(MIB, Buffer.from([0x0a, 0])),
    ];
    for (const [index, body] of bodies.entries()) expect([index, fast(signal, body)]).toEqual([index, undefined]);
    expect(kernel.memoryBytes).toBeLessThanOrEqual(50 * MIB);
    expect(kernel.traps).toBe(0);
    expect(fast(signal, WHOLE[signal])).toBeDefined();
  });
});

/** Undefined for a document without a protobuf form: one with a name of an enumeration, or invalid JSON. */
function encoded(signal: Signal, json: string): Buffer | undefined {
  try {
    return encodeProtobuf(signal, JSON.parse(json) as object);
  } catch {
    return undefined;
  }
}
