// Time intervals as in Alertmanager: a route does not notify in its mute time intervals, nor outside of its active ones. Each field is a list
// of ranges, of which one has to contain the time; a missing field contains every time. Invariant: an interval begins and ends with a minute.
import { closedSchema, invalidField } from "../../http/schemas.ts";
import { MAX_TIME_RANGES } from "../notification-limits.ts";

export interface TimeInterval {
  readonly times?: readonly { readonly start_time: string; readonly end_time: string }[];
  readonly weekdays?: readonly string[];
  readonly days_of_month?: readonly string[];
  readonly months?: readonly string[];
  readonly years?: readonly string[];
  readonly location?: string;
}

const ranges = (description: string) => ({
  type: "array",
  minItems: 1,
  maxItems: MAX_TIME_RANGES,
  items: { type: "string", maxLength: 40 },
  description,
});
const CLOCK_TIME = { type: "string", pattern: "^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)$" };
const TIME_RANGE = closedSchema({ start_time: CLOCK_TIME, end_time: CLOCK_TIME });

export const TIME_INTERVAL_SCHEMA = closedSchema([], {
  times: {
    type: "array",
    minItems: 1,
    maxItems: MAX_TIME_RANGES,
    items: TIME_RANGE,
    description: "from `start_time` to before `end_time`",
  },
  weekdays: ranges("such as `monday:friday`"),
  days_of_month: ranges("such as `1:5`; `-1` is the last day"),
  months: ranges("such as `january:march` or `1:3`"),
  years: ranges("such as `2026:2028`"),
  location: { type: "string", maxLength: 64, description: "IANA time zone such as `Europe/Berlin`; without it: UTC" },
});

const WEEKDAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
const MONTHS = "january february march april may june july august september october november december".split(" ");
type Range = readonly [begin: number, end: number];

/** Throws ApiError `invalid_field`. */
export function checkTimeInterval(field: string, interval: TimeInterval): void {
  try {
    compileTimeInterval(interval)(new Date(0));
  } catch (error) {
    throw invalidField(field, (error as Error).message, error);
  }
}

/** A function that returns whether one of the intervals contains a time. Throws Error for an interval that `checkTimeInterval` refuses. */
export function compileTimeIntervals(intervals: readonly TimeInterval[]): (at: Date) => boolean {
  const tests = intervals.map(compileTimeInterval);
  return (at) => tests.some((contains) => contains(at));
}

function compileTimeInterval(interval: TimeInterval): (at: Date) => boolean {
  const times = interval.times?.map(({ start_time: start, end_time: end }) =>
    ordered(`${start}-${end}`, [minuteOf(start), minuteOf(end) - 1]),
  );
  const weekdays = interval.weekdays?.map((text) => parseRange(text, (name) => WEEKDAYS.indexOf(name)));
  const days = interval.days_of_month?.map(parseDays);
  const months = interval.months?.map((text) => parseRange(text, (name) => MONTHS.indexOf(name) + 1 || numberOf(name, 1, 12)));
  const years = interval.years?.map((text) => parseRange(text, (name) => numberOf(name, 0, 9999)));
  const fieldsOf = zonedTime(interval.location ?? "UTC");
  return (at) => {
    const { minute, weekday, day, month, year } = fieldsOf(at);
    const daysInMonth = new Date(Date.UTC(year, month, 0)).getUTCDate();
    return (
      isIn(times, minute) &&
      isIn(weekdays, weekday) &&
      isIn(months, month) &&
      isIn(years, year) &&
      isIn(
        days?.map((range) => range.map((number) => (number < 0 ? daysInMonth + number + 1 : number)) as unknown as Range),
        day,
      )
    );
  };
}

function isIn(allowed: readonly Range[] | undefined, value: number): boolean {
  return allowed === undefined || allowed.some(([begin, end]) => begin <= value && value <= end);
}

/** `a:b` or `a`. `toNumber` returns a negative number for an unknown name. */
function parseRange(text: string, toNumber: (name: string) => number): Range {
  const [begin = "", end = begin, ...others] = text.toLowerCase().split(":");
  const range: Range = [toNumber(begin), toNumber(end)];
  if (others.length > 0 || range.some((number) => number < 0)) throw new Error(`${JSON.stringify(text)} is not a range`);
  return ordered(text, range);
}

function parseDays(text: string): Range {
  const [begin = "", end = begin, ...others] = text.split(":");
  const range: Range = [numberOf(begin, -31, 31, Number.NaN), numberOf(end, -31, 31, Number.NaN)];
  if (others.length > 0 || range.some((day) => Number.isNaN(day) || day === 0))
    throw new Error(`${JSON.stringify(text)} is not a range of days`);
  if (range[0] < 0 && range[1] > 0) throw new Error(`${JSON.stringify(text)}: a range that begins with a negative day must end with one`);
  // Months have different lengths, so only an order that is wrong in every month is refused.
  if (range[0] > 0 === range[1] > 0) ordered(text, range);
  return range;
}

function ordered(text: string, range: Range): Range {
  if (range[0] > range[1]) throw new Error(`${JSON.stringify(text)} ends before it begins`);
  return range;
}

function numberOf(text: string, least: number, most: number, otherwise = -1): number {
  const number = /^-?\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  return number >= least && number <= most ? number : otherwise;
}

function minuteOf(clockTime: string): number {
  const [hours = 0, minutes = 0] = clockTime.split(":").map(Number);
  return 60 * hours + minutes;
}

interface ZonedTime {
  /** Since midnight. */
  readonly minute: number;
  /** 0: Sunday. */
  readonly weekday: number;
  readonly day: number;
  readonly month: number;
  readonly year: number;
}

/** By time zone in lower case, of which there are about 600: creating one takes 0.1 to 3 ms, and a pass evaluates many intervals. */
const FORMATS = new Map<string, Intl.DateTimeFormat>();

function zonedTime(location: string): (at: Date) => ZonedTime {
  // Intl also accepts offsets, which Alertmanager does not.
  if (!/^[A-Za-z]/.test(location)) throw new Error(`${JSON.stringify(location)} is not a time zone`);
  const digits = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric" } as const;
  const create = () => new Intl.DateTimeFormat("en-US", { timeZone: location, hourCycle: "h23", weekday: "long", ...digits });
  const zone = location.toLowerCase();
  const format = FORMATS.get(zone) ?? create();
  FORMATS.set(zone, format);
  return (at) => {
    const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]));
    return {
      minute: 60 * Number(parts["hour"]) + Number(parts["minute"]),
      weekday: WEEKDAYS.indexOf(String(parts["weekday"]).toLowerCase()),
      day: Number(parts["day"]),
      month: Number(parts["month"]),
      year: Number(parts["year"]),
    };
  };
}
