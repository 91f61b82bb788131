import { describe, expect, it } from "vitest";
import { seriesName, type Series, sparklines } from "./sparkline.ts";

const RANGE = { startS: 1000, endS: 1070, stepS: 10 };
const series = (metric: Record<string, string>, values: [number, string][]): Series => ({ metric, values });
const every10s = (values: readonly (number | string)[]) => values.map((value, at): [number, string] => [1000 + at * 10, String(value)]);

describe("sparklines", () => {
  it("draw each series between its minimum and maximum, with the last value, over the whole range", () => {
    const lines = sparklines(
      [
        series({ __name__: "up", job: "a" }, every10s([0, 1, 2, 3, 4, 5, 6, 7])),
        series({}, every10s([1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6])),
        series({ job: "half" }, every10s([-1, -2, -3, -4])),
      ],
      RANGE,
      60,
    );
    expect(lines).toEqual([
      "SERIES                                 MIN      MAX     LAST",
      'up{job="a"}   ▁▁▂▂▃▃▃▄▄▅▅▆▆▆▇▇███        0        7        7',
      "{}            ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄  1000000  1000000  1000000",
      '{job="half"}  ██▆▆▃▃▃▁▁                 -4       -1       -4',
    ]);
  });

  it("draw the mean per character, nothing without a number, and infinity as text", () => {
    const draw = (values: [number, string][], columns = 60) => sparklines([series({ a: "b" }, values)], RANGE, columns)[1];
    expect(draw([...every10s([1, "NaN", 3]), [1070, "3"]], 40)).toMatch(/^\{a="b"\} +▁+ +█+ {3,}█+ +3$/);
    expect(draw(every10s(["NaN", "NaN"]))).toMatch(/^\S+ +- +- +-$/);
    expect(draw(every10s([0, "+Inf", "-Inf", 5]))).toMatch(/ -Infinity +Infinity +5$/);
    const second = Array.from({ length: 71 }, (_, at): [number, string] => [1000 + at, String(at < 36 ? 0 : 7)]);
    expect(sparklines([series({ a: "b" }, second)], { ...RANGE, stepS: 1 }, 60)[1]).toMatch(/▁{8,}[▂-▇]?█{8,}/);
  });

  it.each([1, 40, 60, 80, 250])("of %i columns are no wider, and at least 40, whatever the names", (columns) => {
    const long = { __name__: "a".repeat(300), label: "b".repeat(300) };
    const lines = sparklines([series(long, every10s([1, 2, 3])), series({ a: "b" }, every10s([1.23456789e-300]))], RANGE, columns);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(Math.max(40, columns));
  });

  it("print shared labels once; narrow ones show the last value only", () => {
    const of = (job: string) => series({ __name__: "up", cluster: "a".repeat(100), job }, every10s([1, 2, 3]));
    const [common, head, one, other] = sparklines([of("x"), of("y")], RANGE, 60);
    expect([common, head]).toEqual([`all: up{cluster="${"a".repeat(42)}…`, expect.stringMatching(/^SERIES +  MIN + MAX +LAST$/)]);
    expect([one, other]).toEqual([expect.stringMatching(/^\{job="x"\}/), expect.stringMatching(/^\{job="y"\}/)]);
    expect(sparklines([of("x"), of("y")], RANGE, 40).slice(1)).toEqual([
      expect.stringMatching(/^SERIES +LAST$/),
      expect.stringMatching(/^\{job="x"\}.* 3$/),
      expect.stringMatching(/^\{job="y"\}.* 3$/),
    ]);
  });

  it("name a series as PromQL does, without terminal control sequences", () => {
    expect(seriesName({ __name__: "up", job: 'a"b', path: "c\\d" })).toBe('up{job="a\\"b",path="c\\\\d"}');
    expect(seriesName({ job: "\u001b]0;x\u0007\u009b\u202e" })).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    expect([seriesName({ __name__: "up" }), seriesName({})]).toEqual(["up", "{}"]);
  });
});
