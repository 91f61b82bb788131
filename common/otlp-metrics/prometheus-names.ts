// Converts OpenTelemetry names to Prometheus names: metric names with unit and type suffixes, label names, label values. Invariants: the
// result is a valid classic Prometheus name; the same input always gives the same result. Source: OpenTelemetry specification,
// compatibility/prometheus_and_openmetrics.md; where it leaves a choice, the strategy UnderscoreEscapingWithSuffixes of
// prometheus/otlptranslator, so that names equal those of Prometheus' own OTLP receiver.
import { createHash } from "node:crypto";
import { MAX_LABEL_NAME_LENGTH, MAX_LABEL_VALUE_BYTES } from "./otlp-metrics-limits.ts";

export type NamedAs = "counter" | "gauge" | "other";

const UNITS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    d: "days",
    h: "hours",
    min: "minutes",
    s: "seconds",
    ms: "milliseconds",
    us: "microseconds",
    ns: "nanoseconds",
    By: "bytes",
    KiBy: "kibibytes",
    MiBy: "mebibytes",
    GiBy: "gibibytes",
    TiBy: "tebibytes",
    kBy: "kilobytes",
    KBy: "kilobytes",
    MBy: "megabytes",
    GBy: "gigabytes",
    TBy: "terabytes",
    m: "meters",
    V: "volts",
    A: "amperes",
    J: "joules",
    W: "watts",
    g: "grams",
    Cel: "celsius",
    Hz: "hertz",
    "1": "",
    "%": "percent",
  }),
);

/** The unit after `/`, in the singular. */
const PER_UNITS: ReadonlyMap<string, string> = new Map(
  Object.entries({ s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month", y: "year" }),
);

/**
 * `http.server.duration`, `s`, other → `http_server_duration_seconds`. Words of the unit that the name already contains are not added
 * again, nor is a second `_total`, so that a scraped name does not change. Empty if no part of the name is usable.
 */
export function metricName(name: string, unit: string, namedAs: NamedAs): string {
  let words = name.split(/[^a-zA-Z0-9:]+/).filter(Boolean);
  if (words.length === 0) return "";
  if (namedAs === "counter") words = words.at(-1) === "total" ? words.slice(0, -1) : words.filter((word) => word !== "total");
  for (const suffix of unitSuffixes(unit)) {
    if (!words.includes(suffix) && !words.join("_").endsWith(`_${suffix}`)) words.push(suffix);
  }
  if (namedAs === "counter") words.push("total");
  if (namedAs === "gauge" && unit === "1") words = [...words.filter((word) => word !== "ratio"), "ratio"];
  const joined = words.join("_");
  return /^\d/.test(joined) ? `_${joined}` : joined;
}

/** `By/s` → `bytes`, `per_second`; text in braces is an annotation, not a unit. */
function unitSuffixes(unit: string): string[] {
  const slash = unit.indexOf("/");
  const main = (slash === -1 ? unit : unit.slice(0, slash)).trim();
  const per = slash === -1 ? "" : unit.slice(slash + 1).trim();
  const mainSuffix = /[{}]/.test(main) ? "" : cleanUnit(UNITS.get(main) ?? main);
  const perSuffix = /[{}]/.test(per) ? "" : cleanUnit(PER_UNITS.get(per) ?? per);
  return [mainSuffix, perSuffix === "" ? "" : `per_${perSuffix}`].filter(Boolean);
}

function cleanUnit(unit: string): string {
  return unit.replace(/[^a-zA-Z0-9:]+/g, "_").replace(/^_|_$/g, "");
}

/** `http.method` → `http_method`, `1st` → `key_1st`. A reserved name such as `__name__` loses its meaning: `_name_`. */
export function labelName(key: string): string {
  const clean = key.replace(/[^a-zA-Z0-9]+/g, "_").slice(0, MAX_LABEL_NAME_LENGTH);
  return /^\d/.test(clean) ? `key_${clean}` : clean;
}

/** Escaped for use within quotes, and cut to MAX_LABEL_VALUE_BYTES. */
export function labelValue(value: string): string {
  const fitting = value.length * 3 <= MAX_LABEL_VALUE_BYTES ? value : cutToBytes(value, MAX_LABEL_VALUE_BYTES);
  return NEEDS_ESCAPE.test(fitting) ? fitting.replace(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`)) : fitting;
}

const NEEDS_ESCAPE = /[\\"\n]/;

/** Ends with a hash if it is cut: series whose values differ only behind the cut must not become one. */
function cutToBytes(value: string, maxBytes: number): string {
  const bytes = Buffer.from(value, "utf8");
  if (bytes.length <= maxBytes) return value;
  const hash = `…${createHash("sha256").update(bytes).digest("hex").slice(0, 16)}`;
  let end = maxBytes - Buffer.byteLength(hash);
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + hash;
}

/** Formats like Go's `strconv.FormatFloat(x, 'f', -1, 64)`, which writes `le` and `quantile`: shortest digits, no exponent, `+Inf`. */
export function plainDecimal(value: number): string {
  if (!Number.isFinite(value)) return sampleValue(value);
  const text = String(value);
  const exponentAt = text.indexOf("e");
  if (exponentAt === -1) return text;
  const sign = text.startsWith("-") ? "-" : "";
  const [whole = "", fraction = ""] = text.slice(sign.length, exponentAt).split(".");
  const point = whole.length + Number(text.slice(exponentAt + 1));
  const digits = whole + fraction;
  return point <= 0 ? `${sign}0.${"0".repeat(-point)}${digits}` : sign + digits.padEnd(point, "0");
}

/** A sample's value; JavaScript writes the same shortest digits as every Prometheus client. */
export function sampleValue(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}
