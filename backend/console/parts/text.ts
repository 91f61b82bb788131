// Formats text and numbers. Invariant: every character of a sender's text is visible, and none changes the direction of the surrounding
// text.

/** Control characters except tab and line feed, and characters that change the direction of text. */
// oxlint-disable-next-line no-control-regex -- the expression looks for control characters
export const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Such as `1 host` or `2,300 spans`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Control and direction characters as `\x1b` or `\u202e`; tabs and line breaks stay. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}

const NUMBER_UNITS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
] as const;

/** Larger numbers are written with an exponent, because no unit makes them readable. */
export const HUGE = 1e15;

/** `1.2M`, `0.0034`, `1.5e+21`. */
export function shortNumber(value: number, digits = 5): string {
  if (Math.abs(value) >= HUGE) return Number(value.toPrecision(4)).toExponential();
  for (const [size, unit] of NUMBER_UNITS) if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))}${unit}`;
  return String(Number(value.toPrecision(digits)));
}
