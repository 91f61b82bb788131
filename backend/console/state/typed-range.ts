// Time ranges and durations as people type them.
const UNIT_MS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** undefined if it is not a duration such as `90m`. */
export function durationMs(text: string): number | undefined {
  const [, count, unit = ""] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  return count === undefined ? undefined : Number(count) * (UNIT_MS[unit] ?? 0);
}

const TIME_UNITS: Readonly<Record<string, string>> = { second: "s", sec: "s", minute: "m", min: "m", hour: "h", day: "d", week: "w" };

/**
 * Parses the range that the user types: `30m`, `last 2 hours`, `today`, `yesterday`, `14:00`, `2026-11-25`, or two of these with `to` between
 * them. Returns parameters of the address; undefined if it is none of these.
 */
export function typedRange(text: string, nowMs: number, isUtc: boolean): { from: string; to: string | undefined } | undefined {
  const typed = text
    .trim()
    .toLowerCase()
    .replace(/^last\s+/, "");
  const duration = parseBack(typed);
  if (duration !== undefined) return { from: duration, to: undefined };
  if (typed === "today") return { from: isoOf(midnight(nowMs, 0, isUtc)), to: undefined };
  if (typed === "yesterday") return { from: isoOf(midnight(nowMs, -1, isUtc)), to: isoOf(midnight(nowMs, 0, isUtc)) };
  const [first = "", second = "now", ...more] = typed.split(/\s+to\s+|\s*\.\.\s*|\s+[–-]\s+/);
  const parse = (typed: string): number | undefined => parseInstant(typed, nowMs, isUtc);
  const [todayMs, todayEndMs] = [parse(first), parse(second)];
  // A clock time that is still to come is that of yesterday.
  const isYesterday = /^\d{1,2}:\d{2}/.test(first) && todayMs !== undefined && todayMs > nowMs;
  const back = isYesterday ? midnight(nowMs, 0, isUtc) - midnight(nowMs, -1, isUtc) : 0;
  const fromMs = todayMs === undefined ? undefined : todayMs - back;
  const isClockTime = /^\d{1,2}:\d{2}/.test(second) && todayEndMs !== undefined && fromMs !== undefined;
  // `23:00 to 01:00` ends today.
  const toMs = isClockTime && todayEndMs - back > fromMs ? todayEndMs - back : todayEndMs;
  if (more.length > 0 || fromMs === undefined || toMs === undefined || fromMs >= toMs) return undefined;
  return { from: isoOf(fromMs), to: second === "now" ? undefined : isoOf(toMs) };
}

/** `30m` of `30m`, `30 minutes` and `30m ago`. */
function parseBack(text: string): string | undefined {
  const [, count, unit = ""] = /^(\d{1,6})\s*([a-z]+)(?:\s+ago)?$/.exec(text) ?? [];
  if (count === undefined) return undefined;
  const short = unit.length === 1 ? unit : TIME_UNITS[unit.replace(/s$/, "")];
  const duration = `${count}${short ?? unit}`;
  return durationMs(duration) ? duration : undefined;
}

function parseInstant(text: string, nowMs: number, isUtc: boolean): number | undefined {
  if (text === "now") return nowMs;
  const back = parseBack(text);
  if (back !== undefined) return nowMs - (durationMs(back) ?? 0);
  if (text === "today") return midnight(nowMs, 0, isUtc);
  if (text === "yesterday") return midnight(nowMs, -1, isUtc);
  const zone = isUtc ? "Z" : "";
  const [, clockTime] = /^(\d{1,2}:\d{2}(?::\d{2})?)$/.exec(text) ?? [];
  const date = clockTime && dayAt(nowMs, isUtc);
  const instant = clockTime
    ? `${date}T${clockTime.padStart(clockTime.length < 6 ? 5 : 8, "0")}`
    : text.replace(/z$/, "").replace(" ", "T").toUpperCase();
  const hasZone = text.endsWith("z") || /[+-]\d{2}:\d{2}$/.test(text);
  const ms = Date.parse(
    hasZone ? text.replace(" ", "T").toUpperCase() : /^\d{4}-\d{2}-\d{2}$/.test(instant) ? `${instant}T00:00${zone}` : `${instant}${zone}`,
  );
  return /^\d{1,4}[-:]/.test(text) && Number.isFinite(ms) ? ms : undefined;
}

function midnight(nowMs: number, days: number, isUtc: boolean): number {
  const now = new Date(nowMs);
  if (isUtc) return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + days);
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + days).getTime();
}

/** `2026-11-22`. */
export function dayAt(ms: number, isUtc: boolean): string {
  const at = new Date(ms);
  if (isUtc) return at.toISOString().slice(0, 10);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

const isoOf = (ms: number): string => new Date(ms).toISOString();

export const two = (value: number): string => String(value).padStart(2, "0");
