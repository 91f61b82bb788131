// Formats the times of an axis.
import { day, timeText } from "../state/time.ts";

const [QUARTER_MS, DAY_MS] = [900_000, 86_400_000];

/** With seconds in a short range, and with the day if the range has more than one. */
export function axisTime(fromMs: number, toMs: number): (atMs: number) => string {
  return (atMs) => {
    const at = new Date(atMs);
    const time = timeText(at, { withMs: false });
    if (toMs - fromMs <= QUARTER_MS) return time;
    return toMs - fromMs <= DAY_MS ? time.slice(0, 5) : `${day(at).slice(5)} ${time.slice(0, 5)}`;
  };
}
