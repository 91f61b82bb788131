// Formats text and numbers for the console, and searches the targets of the command palette. Invariant: every character of a sender's text
// is visible, and none changes the direction of the surrounding text.

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

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** `112.7 MB`. */
export function bytesText(bytes: number): string {
  const power = Math.min(BYTE_UNITS.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${Number((bytes / 1000 ** power).toPrecision(4)).toLocaleString("en")} ${BYTE_UNITS[power]}`;
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
export function shortNumber(value: number): string {
  if (Math.abs(value) >= HUGE) return Number(value.toPrecision(4)).toExponential();
  for (const [size, unit] of NUMBER_UNITS) if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))}${unit}`;
  return String(Number(value.toPrecision(5)));
}

/** A target that the command palette can open. */
export interface Target {
  /** `screen`, `service`, `pod`, … */
  readonly kind: string;
  readonly name: string;
  readonly href: string;
}

const MOST_RESULTS = 20;

/** Targets with every typed word in their name or kind; those whose name begins with the first word come first. */
export function findTargets(targets: readonly Target[], typed: string): Target[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const [first = ""] = words;
  return targets
    .flatMap((target) => {
      const name = target.name.toLowerCase();
      const isFound = words.every((word) => name.includes(word) || target.kind.includes(word));
      return isFound ? [{ target, rank: name === typed.toLowerCase() ? 0 : name.startsWith(first) ? 1 : 2 }] : [];
    })
    .toSorted((a, b) => a.rank - b.rank || a.target.name.length - b.target.name.length)
    .slice(0, MOST_RESULTS)
    .map(({ target }) => target);
}
