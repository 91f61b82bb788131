// What scripts print: their manual for `--help`, and progress. On a terminal, progress is one line that is updated; otherwise it is a line every
// 15 seconds, so that CI logs stay short. Invariant: a line that is not live is always printed, completely and once.
import { readFileSync } from "node:fs";

const EVERY_MS = 15_000;

/** The part of a stream that is used. */
export interface Sink {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** `now` is in milliseconds of any clock that does not jump. */
export function progressOn(sink: Sink, now: () => number = () => performance.now()): Progress {
  let living = false;
  let lastAt = now();
  return (line, live) => {
    if (live && !sink.isTTY && now() - lastAt < EVERY_MS) return;
    lastAt = now();
    // A line wider than the terminal would wrap, and could not be replaced.
    const text = live && sink.isTTY ? line.slice(0, (sink.columns ?? 80) - 1) : `${line}\n`;
    sink.write(`${living ? "\r\u001B[K" : ""}${text}`);
    living = live !== undefined && sink.isTTY === true;
  };
}

/** A program cannot be fetched. */
export class ToolError extends Error {
  override readonly name = "ToolError";
}

/** Prints a line about the current step. `live`: the next line replaces it; may be called every second. */
export type Progress = (line: string, live?: "live") => void;

/** `12 s` or `3 min 12 s`. */
export function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Returns the comment at the beginning of the script at `url`. */
export function readManual(url: string): string {
  const [header = ""] = readFileSync(new URL(url), "utf8").split("\nimport ");
  return header.replaceAll(/^\/\/ ?/gm, "");
}
