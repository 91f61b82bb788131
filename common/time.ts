// Parses times of requests, of options and of fields: the one parser of RFC 3339 of both programs. Invariant: nanoseconds are bigint, never
// doubles. JavaScript's own parser takes February 30 for March 2, and a time without an offset for one of the machine's zone.

/** The last second that ClickHouse's DateTime64(9) holds, in 2262. */
export const MAX_TIME_NS = 9_223_372_036_000_000_000n;

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+ -])(\d\d):(\d\d))$/;

/**
 * RFC 3339 to nanoseconds since 1970, clamped to what the store can hold; further digits are dropped. A blank before the offset is a "+"
 * that the client did not encode. Undefined for any other text.
 */
export function parseTime(text: string): bigint | undefined {
  const match = RFC_3339.exec(text);
  const [, year, month, day, hour, minute, second, fraction = "", sign, offsetHour = "0", offsetMinute = "0"] = match ?? [];
  // A leap second becomes the second after 59.
  const wholeMs = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  const valid =
    match &&
    new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day) &&
    Number(month) >= 1 &&
    Number(month) <= 12 &&
    Number(hour) <= 23 &&
    Number(minute) <= 59 &&
    Number(second) <= 60 &&
    Number(offsetHour) <= 23 &&
    Number(offsetMinute) <= 59;
  if (!valid) return undefined;
  const offsetMs = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60_000 * (sign === "-" ? -1 : 1);
  const time = BigInt(wholeMs - offsetMs) * 1_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, "0"));
  if (time < 0n) return 0n;
  return time > MAX_TIME_NS ? MAX_TIME_NS : time;
}
