// Formats times, and converts the time range of a screen. A range is `from` and `to` in the address: a duration back from now (`1h`) or an
// instant (RFC 3339); without `to`, it ends now. Times are shown in the reader's zone, or in UTC if the reader chose that.
import { signal } from "@preact/signals";
import { ageText } from "../../client/text.ts";
import { choose, route } from "./route.ts";
import { dayAt, durationMs, two } from "./typed-range.ts";

export interface Range {
  readonly fromMs: number;
  readonly toMs: number;
  /** The duration back from now; undefined if the range is fixed. */
  readonly last: string | undefined;
}

const DEFAULT_RANGE = "1h";
export const RELATIVE_RANGES = ["5m", "15m", "1h", "6h", "24h", "7d", "30d"] as const;
export const utc = signal(localStorage.getItem("atherops.utc") === "1");
utc.subscribe((chosen) => localStorage.setItem("atherops.utc", chosen ? "1" : "0"));

/** The range in the address; invalid values are replaced by the default. */
export function parseRange(query: URLSearchParams, nowMs: number): Range {
  const [from, to] = [query.get("from") ?? DEFAULT_RANGE, query.get("to")];
  const toMs = to === null ? nowMs : Date.parse(to);
  const backMs = durationMs(from);
  const fromMs = backMs === undefined ? Date.parse(from) : nowMs - backMs;
  if (!(fromMs < toMs)) return { fromMs: nowMs - (durationMs(DEFAULT_RANGE) ?? 0), toMs: nowMs, last: DEFAULT_RANGE };
  return { fromMs, toMs, last: backMs !== undefined && to === null ? from : undefined };
}

export function rangeQuery({ fromMs, toMs }: Pick<Range, "fromMs" | "toMs">): { start: string; end: string } {
  return { start: new Date(fromMs).toISOString(), end: new Date(toMs).toISOString() };
}

export function showRange(fromMs: number, toMs: number): void {
  choose({ from: new Date(Math.floor(fromMs)).toISOString(), to: new Date(Math.ceil(toMs)).toISOString() });
}

/** A range for an address that covers something with this start and duration, plus a margin on either side. */
export function around(startMs: number, tookMs: number, marginMs = 60_000): { from: string; to: string } {
  return { from: new Date(startMs - marginMs).toISOString(), to: new Date(startMs + tookMs + marginMs).toISOString() };
}

export type AddressRange = { readonly from?: string | undefined; readonly to?: string | undefined };

/** Changes the range around its middle: half as long, or twice as long. */
export function zoom({ fromMs, toMs }: Range, factor: number): void {
  const [middle, half] = [(fromMs + toMs) / 2, ((toMs - fromMs) / 2) * factor];
  showRange(middle - half, Math.min(middle + half, Date.now()));
}

/** `14:03:22.125`. */
export function timeText(at: Date, { withMs = true } = {}): string {
  const [h, m, s, ms] = utc.value
    ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds(), at.getUTCMilliseconds()]
    : [at.getHours(), at.getMinutes(), at.getSeconds(), at.getMilliseconds()];
  return `${two(h)}:${two(m)}:${two(s)}${withMs ? `.${String(ms).padStart(3, "0")}` : ""}`;
}

/** `2026-11-22`. */
export function day(at: Date): string {
  return dayAt(at.getTime(), utc.value);
}

/** `2026-11-22 14:03:22`, with `Z` in UTC. */
export function timestampText(at: Date | string | number): string {
  const date = new Date(at);
  return `${day(date)} ${timeText(date, { withMs: false })}${utc.value ? "Z" : ""}`;
}

/** `2026-11-22T14:03:22`, for a date-time field, in the displayed time zone. */
export function forField(ms: number): string {
  return timestampText(ms).replace(" ", "T").replace("Z", "");
}

/** The value of such a field; undefined if it is empty. */
export function fieldMs(text: string): number | undefined {
  const ms = Date.parse(`${text}${utc.peek() ? "Z" : ""}`);
  return Number.isFinite(ms) ? ms : undefined;
}

/** `2 min ago`. */
export function ago(at: string | null, nowMs: number): string {
  return at === null ? "never" : ageText(nowMs - Date.parse(at));
}

/** `12 µs`, `3.4 ms`, `1.20 s`, `2 min 5 s`, `3 h 20 min`. */
export function span(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(2)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600).toLocaleString("en")} h ${Math.floor((s % 3600) / 60)} min`;
}

/** The displayed time zone: `UTC`, or the city of the reader's zone, such as `Berlin`. */
export function zoneName(isUtc = utc.value): string {
  if (isUtc) return "UTC";
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone ?? "local";
  return zone.slice(zone.lastIndexOf("/") + 1).replaceAll("_", " ");
}

const [QUARTER_MS, DAY_MS] = [900_000, 86_400_000];

/** Formats the times of an axis: with seconds in a short range, and with the day if the range has more than one. */
export function axisTime(fromMs: number, toMs: number): (atMs: number) => string {
  return (atMs) => {
    const at = new Date(atMs);
    const time = timeText(at, { withMs: false });
    if (toMs - fromMs <= QUARTER_MS) return time;
    return toMs - fromMs <= DAY_MS ? time.slice(0, 5) : `${day(at).slice(5)} ${time.slice(0, 5)}`;
  };
}

export const currentRange = (): Range => parseRange(route.value.query, Date.now());
