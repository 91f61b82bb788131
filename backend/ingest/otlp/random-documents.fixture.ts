// Generates random OTLP/JSON documents as text, for comparing two decoders: documents as collectors write them, unusual ones in which every
// part may have another type, shape, order or spelling, and documents with damaged bytes. Invariant: the same seed generates the same
// documents. It is one file, because all parts are built from the same few unusual values.
import { Random as SeededRandom } from "../../../common/random.fixture.ts";

export type Signal = "logs" | "traces";

export class Random extends SeededRandom {
  /** The probability that a part of the document is not what collectors write. */
  odd = 0;

  isOdd(): boolean {
    return this.odd > 0 && this.next() < this.odd;
  }
}

const NOW_S = 1_795_262_400;
const NAMES: Record<Signal, readonly [string, string, string]> = {
  logs: ["resourceLogs", "scopeLogs", "logRecords"],
  traces: ["resourceSpans", "scopeSpans", "spans"],
};
const WORDS = [..."GET checkout /api/items/7 exception été 日本語 😀 key=value a\tb C:\\dir line\nline".split(" "), 'say "hi"'];
const KEYS = [..."http.route k8s.pod.name service.name event.name org_id host_id instance node a é log.file.name".split(" "), ""];
export const NUMBERS =
  "0 -0 0e1 -0e1 0E5 00e1 0.5e0 1 -1 7 1.5 -2.25 0.1 1.0 1.50 100 1e3 1E-7 1e21 1e300 1e400 -1e400 5e-324 0.000001 0.0000001 0.1234567890123456 123456789012345 1234567890123456 9007199254740991 9007199254740993 -9007199254740993 9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 1795262400123456789 1.795262400123456789e18 17e17 01 1. .5 +1 - 1e 1e+ 0x10 00 -01 4294967295 4294967296 0.30000000000000004 1234567.891 -0.0 0.0 2.50e1 12345678901234567890123".split(
    " ",
  );
export const DIGITS = [
  ..."0 00 007 -1 -0 1.5 1e3 x 9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551615 18446744073709551616 99999999999999999999 4294967296".split(
    " ",
  ),
  "",
  " 1",
  "1".repeat(41),
];

/** A document as a collector writes it. */
export function document(random: Random, signal: Signal): string {
  const [resources, scopes, records] = NAMES[signal];
  const record = signal === "logs" ? logRecord : span;
  const list = (most: number, make: () => string): string => array(random, Array.from({ length: random.below(most + 1) }, make));
  const scope = (): string =>
    object(random, [
      ["scope", random.chance(0.3) ? "{}" : scopeMessage(random)],
      [records, list(5, () => record(random))],
      ...optional(random, 0.2, "schemaUrl", () => string(random, "https://opentelemetry.io/schemas/1.9.0")),
    ]);
  const resource = (): string =>
    object(random, [
      [
        "resource",
        random.chance(0.1) ? "{}" : object(random, [["attributes", attributes(random, 5)], ...dropped(random, "droppedAttributesCount")]),
      ],
      [scopes, list(2, scope)],
      ...optional(random, 0.2, "schemaUrl", () => string(random, "")),
    ]);
  return blanks(random) + object(random, [[resources, list(2, resource)]]) + blanks(random);
}

export type Member = readonly [name: string, value: string];

export function optional(random: Random, probability: number, name: string, make: () => string): Member[] {
  return random.chance(probability) ? [[name, make()]] : [];
}

function dropped(random: Random, name: string): Member[] {
  return optional(random, 0.1, name, () => integer(random, String(random.below(10))));
}

function scopeMessage(random: Random): string {
  return object(random, [
    ["name", text(random)],
    ...optional(random, 0.5, "version", () => text(random)),
    ...optional(random, 0.2, "attributes", () => attributes(random, 2)),
  ]);
}

function logRecord(random: Random): string {
  return object(random, [
    ...optional(random, 0.9, "timeUnixNano", () => time(random)),
    ...optional(random, 0.9, "observedTimeUnixNano", () => time(random)),
    ...optional(random, 0.8, "severityNumber", () => (random.isOdd() ? anything(random) : String(random.below(random.isOdd() ? 40 : 25)))),
    ...optional(random, 0.8, "severityText", () =>
      random.isOdd() ? text(random) : string(random, random.pick(["INFO", "Error", "warn", ""])),
    ),
    ...optional(random, 0.1, "eventName", () => text(random)),
    ...optional(random, 0.9, "body", () => value(random, 0)),
    ...optional(random, 0.9, "attributes", () => attributes(random, random.chance(0.05) ? 30 : 6)),
    ...dropped(random, "droppedAttributesCount"),
    ...dropped(random, "flags"),
    ...optional(random, 0.6, "traceId", () => id(random, 32)),
    ...optional(random, 0.6, "spanId", () => id(random, 16)),
  ]);
}

function span(random: Random): string {
  return object(random, [
    ["traceId", id(random, 32)],
    ["spanId", id(random, 16)],
    ...optional(random, 0.5, "parentSpanId", () => id(random, 16)),
    ...optional(random, 0.2, "traceState", () => text(random)),
    ...optional(random, 0.9, "name", () => text(random)),
    ...optional(random, 0.9, "kind", () => (random.isOdd() ? anything(random) : String(random.below(random.isOdd() ? 9 : 6)))),
    ...optional(random, 0.9, "startTimeUnixNano", () => time(random)),
    ...optional(random, 0.9, "endTimeUnixNano", () => time(random)),
    ...optional(random, 0.9, "attributes", () => attributes(random, random.chance(0.05) ? 30 : 6)),
    ...optional(random, 0.3, "events", () =>
      array(
        random,
        Array.from({ length: random.below(3) }, () => event(random)),
      ),
    ),
    ...optional(random, 0.2, "links", () =>
      array(
        random,
        Array.from({ length: random.below(3) }, () => link(random)),
      ),
    ),
    ...optional(random, 0.7, "status", () => status(random)),
    ...["flags", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"].flatMap((name) => dropped(random, name)),
  ]);
}

function event(random: Random): string {
  return object(random, [
    ...optional(random, 0.9, "timeUnixNano", () => time(random)),
    ...optional(random, 0.9, "name", () => text(random)),
    ...optional(random, 0.7, "attributes", () => attributes(random, 3)),
    ...dropped(random, "droppedAttributesCount"),
  ]);
}

function link(random: Random): string {
  return object(random, [
    ...optional(random, 0.9, "traceId", () => id(random, 32)),
    ...optional(random, 0.9, "spanId", () => id(random, 16)),
    ...optional(random, 0.3, "traceState", () => text(random)),
    ...optional(random, 0.5, "attributes", () => attributes(random, 2)),
    ...dropped(random, "flags"),
  ]);
}

function status(random: Random): string {
  return object(random, [
    ...optional(random, 0.5, "message", () => text(random)),
    ...optional(random, 0.5, "code", () => (random.isOdd() ? anything(random) : String(random.below(3)))),
  ]);
}

export function attributes(random: Random, most: number): string {
  const first = random.below(900);
  const items = Array.from({ length: random.below(most + 1) }, (_, index) => {
    const key = random.isOdd() ? random.pick(KEYS) : `${random.pick(["http.", "k", "a-longer-key.", "é"])}${first + index}`;
    return object(random, [
      ["key", random.isOdd() ? anything(random) : string(random, key)],
      ["value", value(random, 0)],
    ]);
  });
  return array(random, items);
}

function value(random: Random, depth: number): string {
  const kind = random.below(random.isOdd() ? 12 : depth < 4 ? 10 : 8);
  const member = (name: string, made: string): string => object(random, [[name, made]]);
  if (kind < 5) return member("stringValue", text(random));
  if (kind === 5) return member("boolValue", random.pick(["true", "false"]));
  if (kind === 6) return member("intValue", integer(random, String(random.below(2000) - 500)));
  if (kind === 7)
    return member(
      "doubleValue",
      random.isOdd()
        ? random.pick([...NUMBERS, '"NaN"', '"Infinity"', '"-Infinity"', '"1.5"'])
        : String(random.next() * 10 ** random.below(12)),
    );
  if (kind === 8) {
    const values = array(
      random,
      Array.from({ length: random.below(4) }, () => value(random, depth + 1)),
    );
    return member("arrayValue", random.chance(0.1) ? "{}" : object(random, [["values", values]]));
  }
  if (kind === 9) {
    const pair = (_: unknown, index: number): string =>
      object(random, [
        ["key", string(random, random.isOdd() ? random.pick(KEYS) : `m${index}`)],
        ...optional(random, 0.95, "value", () => value(random, depth + 1)),
      ]);
    return member("kvlistValue", object(random, [["values", array(random, Array.from({ length: random.below(4) }, pair))]]));
  }
  if (kind === 10) return member("bytesValue", string(random, random.pick(["aGk=", "_-8", "", "x", "====", "aGk"])));
  return random.chance(0.5) ? "{}" : anything(random);
}

export function text(random: Random): string {
  if (random.isOdd()) return anything(random);
  const words = Array.from({ length: random.below(random.chance(0.05) ? 60 : 4) }, () => random.pick(WORDS));
  return string(random, words.join(random.pick(["", " ", "/"])));
}

export function integer(random: Random, digits: string): string {
  if (random.isOdd()) return random.chance(0.5) ? random.pick(NUMBERS) : JSON.stringify(random.pick(DIGITS));
  return random.chance(0.7) ? `"${digits}"` : digits;
}

export function time(random: Random): string {
  if (random.isOdd()) return random.chance(0.3) ? anything(random) : integer(random, random.pick(DIGITS));
  const days = random.chance(0.05) ? random.below(80) - 40 : 0;
  return `"${NOW_S + days * 86_400 - random.below(100)}${String(random.below(1e9)).padStart(9, "0")}"`;
}

function id(random: Random, digits: number): string {
  if (random.isOdd())
    return random.chance(0.5) ? anything(random) : string(random, random.pick(["", "0".repeat(digits), "g".repeat(digits), "ab"]));
  const hex = Array.from({ length: digits }, () => random.below(16).toString(16)).join("");
  return string(random, random.chance(0.05) ? hex.toUpperCase() : hex);
}

/** A number of any shape, or nearly one. */
export function number(random: Random): string {
  const digits = (most: number): string =>
    Array.from({ length: random.below(most + 1) }, () => random.pick(["0", "0", "9", "1", "5"])).join("");
  const sign = random.pick(["", "", "-", "+"]);
  const whole = digits(random.pick([1, 1, 6, 15, 16, 17, 20]));
  const fraction = random.pick(["", "", `.${digits(random.pick([1, 5, 6, 7, 15, 17]))}`]);
  return sign + whole + fraction + random.pick(["", "", "", `e${digits(2)}`, `E-${digits(2)}`, `e+${digits(3)}`, "e", " "]);
}

/** A JSON value of any type, or nearly one. */
export function anything(random: Random): string {
  const depth = random.below(70);
  const open = random.pick(["[", '{"a":']).repeat(depth);
  const close = open.startsWith("[") ? "]" : "}";
  return random.pick([
    ...'null true false nul {} [] [null] {"a":1,"a":2} "" "x" "SEVERITY_NUMBER_WARN" "\\ud800" "\\ud83d\\ude00" "\\udc00\\ud800" "\\x" "a\u0001b" "\u2028\u007f\uffff" "unclosed'.split(
      " ",
    ),
    random.pick(NUMBERS),
    `${open}1${close.repeat(depth)}`,
    JSON.stringify(random.pick(DIGITS)),
  ]);
}

/** The text as JSON, with characters escaped in different equivalent ways. */
export function string(random: Random, plain: string): string {
  if (!random.isOdd()) return JSON.stringify(plain);
  const units = Array.from(plain + random.pick(["", "\u0000", "\u001f\b\f", "/", "\u2028"]), (character) => {
    const escaped = JSON.stringify(character).slice(1, -1);
    const hex = Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(
      "",
    );
    return random.pick([escaped, escaped, hex, hex.toUpperCase().replaceAll("\\U", "\\u"), character === "/" ? "\\/" : escaped]);
  });
  return `"${units.join("")}"`;
}

export function blanks(random: Random): string {
  return random.isOdd() ? random.pick([" ", "\n", "\t\r\n  ", "", "\u000b", "\ufeff", " ".repeat(70)]) : "";
}

export function array(random: Random, items: readonly string[]): string {
  if (random.isOdd() && random.chance(0.3)) return anything(random);
  const joined = items.map((item) => blanks(random) + item + blanks(random)).join(",");
  return `[${joined}${random.isOdd() && random.chance(0.1) ? "," : ""}${blanks(random)}]`;
}

export function object(random: Random, given: readonly Member[]): string {
  if (random.isOdd() && random.chance(0.2)) return anything(random);
  const members = [...given];
  if (random.isOdd()) members.sort(() => random.next() - 0.5);
  if (random.isOdd())
    members.splice(random.below(members.length + 1), 0, [
      random.pick(["schemaUrl", "x", "", "valuE", "ké", "attributesX"]),
      anything(random),
    ]);
  if (random.isOdd() && random.chance(0.2) && members.length > 0) members.push(random.pick(members));
  const text = members.map(([name, value]) => {
    const quoted = random.isOdd() && random.chance(0.2) ? string(random, name) : `"${name}"`;
    const made = random.isOdd() && random.chance(0.3) ? "null" : value;
    return `${blanks(random)}${quoted}${blanks(random)}:${blanks(random)}${made}${blanks(random)}`;
  });
  return `{${text.join(",")}}`;
}

const BYTES = Buffer.from('"\\{}[]:,0123456789.eE+-tfn \n\u0000\u001f\u0080\u00ff', "latin1");

/** A copy with some bytes changed, inserted, left out, moved or cut off. */
export function damaged(random: Random, body: Buffer): Buffer {
  let copy = Buffer.from(body);
  for (let times = 1 + random.below(3); times > 0; times -= 1) {
    const at = random.below(copy.length + 1);
    const end = Math.min(copy.length, at + random.below(random.chance(0.2) ? 200 : 3));
    const byte = random.chance(0.8) ? (BYTES[random.below(BYTES.length)] as number) : random.below(256);
    switch (random.below(5)) {
      case 0:
        copy = Buffer.concat([copy.subarray(0, at), Buffer.of(byte), copy.subarray(at)]);
        break;
      case 1:
        copy = Buffer.concat([copy.subarray(0, at), copy.subarray(end)]);
        break;
      case 2:
        copy = copy.subarray(0, at);
        break;
      case 3:
        copy = Buffer.concat([copy.subarray(0, end), copy.subarray(at, end), copy.subarray(end)]);
        break;
      default:
        if (at < copy.length) copy[at] = byte;
    }
  }
  return copy;
}
