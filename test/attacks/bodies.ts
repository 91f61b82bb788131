// Attacks with bodies that are small as sent and large when decoded.
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Attack, Attacker } from "./attack.ts";

const MIB = 1024 * 1024;
const LOGS = "/ingest/logs/otlp";
const TRACES = "/ingest/traces";
const zipped = promisify(gzip);

async function post(attacker: Attacker, path: string, text: string, plain = false): Promise<void> {
  const { apiKey } = attacker.target;
  const body = plain ? Buffer.from(text) : await zipped(Buffer.from(text), { level: 6 });
  await attacker.call({ method: "POST", path, key: apiKey, body, headers: plain ? {} : { "content-encoding": "gzip" } });
}

const nanoseconds = (): string => `${Date.now()}000000`;

/** Logs whose resource has one attribute of so many bytes. */
export function heavyResource(attacker: Attacker, attributeBytes: number, records: number, record = "{}"): string {
  const resource = `{"attributes":[{"key":"process.command_args","value":{"stringValue":"${attacker.serial()}${"a".repeat(attributeBytes)}"}}]}`;
  return `{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"logRecords":[${Array(records).fill(record).join(",")}]}]}]}`;
}

function heavyTraceResource(attacker: Attacker, attributeBytes: number, spans: number): string {
  const resource = `{"attributes":[{"key":"a","value":{"stringValue":"${attacker.serial()}${"a".repeat(attributeBytes)}"}}]}`;
  const span = `{"traceId":"${"1".repeat(32)}","spanId":"${"2".repeat(16)}","name":"x","startTimeUnixNano":"${nanoseconds()}","endTimeUnixNano":"${nanoseconds()}"}`;
  return `{"resourceSpans":[{"resource":${resource},"scopeSpans":[{"spans":[${Array(spans).fill(span).join(",")}]}]}]}`;
}

/** A resource that is copied into each of its records. */
export const amplified: Attack = {
  group: "first",
  what: "6 kB gzipped: a resource of 6 MB over 2,000 empty records; the same for spans; 64 kB over 27,000 records; 31 kB decoded inline",
  everyMs: 5000,
  async wave(attacker, turn) {
    const record = `{"timeUnixNano":"${nanoseconds()}","body":{"stringValue":"a line of an ordinary service"}}`;
    const kinds = [
      () => post(attacker, LOGS, heavyResource(attacker, 6_000_000, 2000)),
      () => post(attacker, LOGS, heavyResource(attacker, 64_000, 27_000, record)),
      () => attacker.many(8, 2, () => post(attacker, LOGS, heavyResource(attacker, 15_000, 5000), true)),
      () => post(attacker, TRACES, heavyTraceResource(attacker, 6_000_000, 2000)),
    ];
    await kinds[turn % kinds.length]?.();
  },
};

/** `unit` over and over, in an unknown field, next to an integer that JSON.parse rounds, so that the body is read twice. */
export function dense(attacker: Attacker, units: (index: number) => string, open: string, close: string, bytes = 32 * MIB): string {
  const rounded = `"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":${Date.now()}000001,"body":{"stringValue":"${attacker.serial()}"}}]}]}]`;
  const parts: string[] = [];
  for (let index = 0, length = rounded.length + 100; ; index += 1) {
    const unit = units(index);
    length += unit.length + 1;
    if (length >= bytes) break;
    parts.push(unit);
  }
  return `{${rounded},"unknown":${open}${parts.join(",")}${close}}`;
}

/** Short, different from each other, and without a quote in it. */
const name = (index: number): string => index.toString(36).padStart(5, "0");

/** Much work and memory for JSON.parse, few brackets. */
export const denseJson: Attack = {
  group: "first",
  what: "two bodies at once of 32 kB gzipped: 32 MiB of `1.5,` or of keys that are all different, and one rounded integer",
  everyMs: 15_000,
  async wave(attacker, turn) {
    const text =
      turn % 2 === 0 ? () => dense(attacker, () => "1.5", "[", "]") : () => dense(attacker, (index) => `"${name(index)}":0`, "{", "}");
    await attacker.many(2, 2, async () => await post(attacker, LOGS, text()));
  },
};
