// Generates random exposition text for comparing two parsers: lines as programs write them, and unusual ones. Invariant: the same seed
// generates the same text.
import type { Random } from "../otlp/random-documents.fixture.ts";

export const NOW = 1_795_262_400_123;
const DAY = 86_400_000;
const NAMES = ["up", "http_requests_total", "a:b_c", "_x", "node_cpu_seconds_total", "x".repeat(70), "Z9", "process_resident_memory_bytes"];
const ODD_NAMES = ["", "9up", "my-metric", "é", "a b", '"quoted.name"', "x".repeat(300), "x".repeat(4097), "nan", "{", "up\u0000"];
const VALUES = [
  "GET",
  "/api/v1/things/97",
  "10.0.0.1:8080",
  "",
  "+Inf",
  "0.5",
  "żółw 🐢",
  "{}#,= x",
  "\t",
  "x".repeat(100),
  "\\n",
  '\\"',
  "\\\\",
];
const ODD_VALUES = [
  "x".repeat(257),
  "y".repeat(4096),
  "y".repeat(4097),
  '\\"'.repeat(3000),
  '"',
  "\\",
  "\\d",
  "\u0000",
  "\r",
  "\\\u0000",
  "é".repeat(2048),
];
const NUMBERS = ["0", "1", "-1", "1.5", "12345678901234567890.5", "1e10", "-1.5e-3", "2E+5", "00012", "5.", "1e400"];
const ODD_NUMBERS = [..."NaN nan +Inf -inf Infinity +3 .5 . - 1e 1e+ 0x10 1_0 x 1.2.3 --1".split(" "), "", "9".repeat(400)];
const ODD_TIMES = [
  ..."0 1 -5 1700000000.5 00000000000 00000000001 000001795262400123 2147483647 2147483648 1e300 x 99999999999999 9999999999999999 99999999999999999999999".split(
    " ",
  ),
  "",
  String(NOW - 30 * DAY),
  String(NOW - 30 * DAY - 1),
  String(NOW + 2 * DAY),
  String(NOW + 2 * DAY + 1),
  `+${NOW}`,
];
const OTHER_LINES = [
  "",
  "# HELP up x",
  "# TYPE up gauge",
  "#",
  "#\u0000 é",
  " ",
  "\r",
  "  # x",
  "{}",
  '{"error": "not json"}',
  "# ".repeat(40),
  "# EOF",
  "# EOF ",
  "# EOFs",
];
const BLANKS = ["", " ", "\t", "  "];

/** Lines, mostly as programs write them; `random.odd` is the probability that a part is unusual. The last line may have no line break. */
export function text(random: Random): string {
  const lines = Array.from({ length: 1 + random.below(random.chance(0.1) ? 60 : 8) }, () =>
    random.chance(0.15) ? random.pick(OTHER_LINES.slice(0, random.isOdd() ? OTHER_LINES.length : 4)) : sample(random),
  );
  return lines.join(random.isOdd() ? "\r\n" : "\n") + (random.chance(0.9) ? "\n" : "");
}

function sample(random: Random): string {
  const blank = (usual: string): string => (random.isOdd() ? random.pick(BLANKS) : usual);
  const name = random.isOdd() ? random.pick(ODD_NAMES) : random.pick(NAMES);
  const count = random.isOdd() ? 36 + random.below(4) : random.below(8);
  const labels = Array.from({ length: count }, (_, index) => label(random, index, blank));
  const comma = random.isOdd() ? "," : "";
  const braces = count > 0 || random.isOdd() ? `{${blank("")}${labels.join(`${blank("")},${blank("")}`)}${comma}${blank("")}}` : "";
  const number = random.isOdd() ? random.pick(ODD_NUMBERS) : random.pick(NUMBERS);
  const time = random.chance(0.6) ? `${blank(" ")}${random.isOdd() ? random.pick(ODD_TIMES) : String(NOW - random.below(100_000))}` : "";
  const end = random.isOdd() ? random.pick([" ", "\r", " # comment", ' # {trace_id="abc"} 1 2', "#x", "\u0000", " 7"]) : "";
  return `${blank("")}${name}${blank("")}${braces}${blank(" ")}${number}${time}${end}`;
}

function label(random: Random, index: number, blank: (usual: string) => string): string {
  const name = random.isOdd()
    ? random.pick([...ODD_NAMES, "__name__", "node", "host_id", "org_id", "exported_node", '"node"', "method0", '"method0"', '"a\\\\b"'])
    : `${random.pick(["method", "le", "k8s_pod_name", "a:b"])}${index}`;
  const value = random.isOdd() ? random.pick(ODD_VALUES) : random.pick(VALUES);
  return `${name}${blank("")}=${blank("")}${random.isOdd() ? value : `"${value}"`}`;
}
