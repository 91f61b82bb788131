// Compares the fast and the slow path over raw lines that are generated: lines of known formats that are cut, joined, mixed and damaged, random
// bytes, and long lines in parts. KERNEL_DOCUMENTS=300000 runs as many bodies; KERNEL_SEED=n sets the first seed.
import { describe, expect, it } from "vitest";
import { CONTAINER_LINES, LINES, LINES_CONTEXT, lineRecord, linesBody } from "./file-lines.fixture.ts";
import { decodeSlowPath } from "./otlp-body.fixture.ts";
import { asJson, KERNEL_LIMITS } from "./decode-body.ts";
import type { DecodedBody } from "./decoded-rows.ts";
import { Kernel, KERNEL_FILE } from "./fast-decode.ts";
import { readFileSync } from "node:fs";
import { Random } from "./random-documents.fixture.ts";

const BODIES = Number(process.env["KERNEL_DOCUMENTS"] ?? 1000);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const TRACE = "0af7651916cd43dd8448eb211c80319c";

const PIECES: readonly string[] = [
  "2026-11-21T10:59:00.123456789Z stdout F ",
  "2026-11-21T12:59:00,5+02:00 stderr P ",
  "\n2026-11-21T10:59:01Z stdout F ",
  '{"level":"error","ts":1795258740.123,"msg":"',
  `","trace_id":"${TRACE}","span_id":"b7ad6b7169203331"}`,
  '{"log":"{\\"level\\":\\"warn\\"}\\n","stream":"stderr","time":"2026-11-21T10:59:00Z"}',
  `level=warn ts=2026-11-21T10:58:00Z traceID=${TRACE} msg="a b" `,
  "E1121 10:58:00.123456       1 leader.go:12] ",
  "2026/11/21 10:58:00 [crit] 31#31: ",
  "2026-11-21 10:58:00,123 [main] ERROR com.example.App - ",
  "\u001b[31mWARN\u001b[0m",
  "\u001b[",
  '{"a":{"b":[1,2.5e3,null,true],"otel":{"trace_id":"',
  '"}}',
  "\\u00e9\\n\\",
  "é日本😀",
  "\t  ",
  "\n",
  "\0\0",
  " P ",
  "=",
  ":",
  "{[",
  "]}",
  "7".repeat(30),
];

/** A line of up to so many pieces, of which some are cut. */
function line(random: Random, pieces: number): Buffer {
  const parts = Array.from({ length: 1 + random.below(pieces) }, () => {
    if (random.below(12) === 0) return Buffer.from(Array.from({ length: random.below(40) }, () => random.below(256)));
    const piece = Buffer.from(PIECES[random.below(PIECES.length)] as string);
    return random.below(4) === 0 ? piece.subarray(random.below(piece.length), random.below(piece.length + 1)) : piece;
  });
  // Most lines have a prefix, so that what follows is read.
  const prefix = random.below(3) === 0 ? "" : (PIECES[random.below(2)] as string);
  const bytes = Buffer.concat([Buffer.from(prefix), ...parts]);
  for (let count = random.below(8) === 0 ? 1 + random.below(3) : 0; count > 0 && bytes.length > 0; count -= 1)
    bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}

function body(random: Random): Buffer<ArrayBuffer> {
  const scope = { ...(random.below(2) === 0 ? LINES : CONTAINER_LINES), ...(random.below(10) === 0 && { version: "raw" }) };
  const records = Array.from({ length: 1 + random.below(4) }, () => {
    const rest = {
      ...(random.below(8) === 0 && { severityNumber: random.below(26) }),
      ...(random.below(8) === 0 && { severityText: "Warn" }),
      ...(random.below(8) === 0 && { traceId: "1".repeat(32) }),
      ...(random.below(8) === 0 && { timeUnixNano: "1795258740000000001" }),
      ...(random.below(8) === 0 && { attributes: [{ key: random.below(2) === 0 ? "log.iostream" : "a", value: { stringValue: "x" } }] }),
    };
    return lineRecord(random.below(200) === 0 ? line(random, 6000) : line(random, 8), rest);
  });
  return linesBody(scope, records, [{ key: "service.name", value: { stringValue: "s" } }]);
}

/** The rows by the kernel, or undefined if it fell back. Throws if they differ from those of the slow path. */
function compare(kernel: Kernel, bytes: Buffer, what: string): DecodedBody | undefined {
  const fast = kernel.read("logs", { encoding: "protobuf", bytes }, LINES_CONTEXT, KERNEL_LIMITS)?.take(LINES_CONTEXT.bodyHash);
  const task = { signal: "logs", body: bytes, encoding: "protobuf", context: LINES_CONTEXT, bodyHash: LINES_CONTEXT.bodyHash } as const;
  const slow = decodeSlowPath({ ...asJson(task), context: LINES_CONTEXT });
  const isSame = fast?.sections.every(({ bytes: rows }, at) => Buffer.compare(rows, slow.sections[at]?.bytes ?? Buffer.alloc(0)) === 0);
  expect([isSame ?? true, fast?.accepted ?? slow.accepted, fast?.dropped ?? slow.dropped], what).toEqual([
    true,
    slow.accepted,
    slow.dropped,
  ]);
  return fast;
}

describe("raw lines that are random, cut or joined", () => {
  it("become the same rows on both paths", { timeout: 3_600_000 }, () => {
    const kernel = new Kernel(readFileSync(KERNEL_FILE));
    const counts = { fast: 0, levels: 0 };
    for (let index = 0; index < BODIES; index += 1) {
      const bytes = body(new Random(SEED * 1_000_003 + index));
      const fast = compare(kernel, bytes, `KERNEL_SEED=${SEED}, body ${index}: ${bytes.toString("latin1").slice(0, 2000)}`);
      if (fast) counts.fast += 1;
      if (fast?.sections.some(({ bytes: rows }) => Buffer.from(rows).includes("error"))) counts.levels += 1;
    }
    console.log(`${counts.fast} of ${BODIES} bodies taken by the kernel, ${counts.levels} with an error`);
    // Otherwise the comparison would prove nothing.
    expect(counts.fast / BODIES).toBeGreaterThan(0.8);
    expect(counts.levels / BODIES).toBeGreaterThan(0.1);
    expect(kernel.traps).toBe(0);
  });

  it("leave other records unchanged, wherever they are cut", { timeout: 300_000 }, () => {
    const whole = Buffer.concat(PIECES.slice(0, 16).map((piece) => Buffer.from(piece)));
    const kernel = new Kernel(readFileSync(KERNEL_FILE));
    const other = lineRecord("2026-11-21T10:59:00Z stdout F after");
    for (const scope of [CONTAINER_LINES, LINES]) {
      for (let length = 0; length <= whole.length; length += 1) {
        const records = [lineRecord(whole.subarray(0, length)), other, lineRecord(whole.subarray(length)), other];
        compare(kernel, linesBody(scope, records), `${length} bytes`);
      }
    }
    expect(kernel.traps).toBe(0);
  });
});
