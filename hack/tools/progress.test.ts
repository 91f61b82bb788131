import { describe, expect, test } from "vitest";
import { progressOn } from "./progress.ts";

function written(isTTY: boolean): { texts: string[]; clock: { ms: number }; progress: ReturnType<typeof progressOn> } {
  const texts: string[] = [];
  const clock = { ms: 0 };
  const sink = { isTTY, columns: 30, write: (text: string) => texts.push(text) };
  return { texts, clock, progress: progressOn(sink, () => clock.ms) };
}

describe("progress of long work", () => {
  test("on a terminal is one line that is overwritten, and makes room for permanent lines", () => {
    const { texts, progress } = written(true);
    progress("building, 1 s of about 60 s", "live");
    progress("building, 2 s of about 60 s", "live");
    progress("ready");
    progress("next");
    expect(texts).toEqual(["building, 1 s of about 60 s", "\r\u001B[Kbuilding, 2 s of about 60 s", "\r\u001B[Kready\n", "next\n"]);
  });

  test("never wraps on a terminal", () => {
    const { texts, progress } = written(true);
    progress("x".repeat(200), "live");
    expect(texts).toEqual(["x".repeat(29)]);
  });

  test("elsewhere is a line each quarter minute, and every permanent line", () => {
    const { texts, clock, progress } = written(false);
    progress("building");
    for (let second = 1; second <= 40; second += 1) {
      clock.ms = second * 1000;
      progress(`building, ${second} s`, "live");
    }
    progress("ready");
    expect(texts).toEqual(["building\n", "building, 15 s\n", "building, 30 s\n", "ready\n"]);
  });
});
