// The expressions of the collector find the same level in the head of a line as the backend does, in lines of the usual libraries, and in these
// lines with parts removed, exchanged and inserted.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Kernel, KERNEL_FILE } from "../../../../backend/ingest/otlp/fast-decode.ts";
import { Random } from "../../../../backend/ingest/otlp/random-documents.fixture.ts";
import { PLAIN_LINES } from "../../../../test/fixtures/log-lines.ts";
import { MAX_HEAD_CHARACTERS } from "./level-of-head.ts";
import { logFields } from "./log-fields.ts";

const LINES_MARK = 1;
const LEVELS = ["none", "trace", "debug", "info", "warn", "error", "fatal"];

interface Operator {
  readonly id?: string;
  readonly type: string;
  readonly regex?: string;
  readonly mapping?: Readonly<Record<string, readonly string[]>>;
}
const OPERATORS = logFields({ hasRuntimeTime: true, maxAgeMs: 86_400_000 }) as readonly Operator[];
const LEVEL_OF = new Map(
  OPERATORS.flatMap(({ mapping = {} }) => Object.entries(mapping).flatMap(([level, words]) => words.map((word) => [word, level] as const))),
);

/** What the operator finds: the level, and what precedes it. */
function found(name: string, head: string): Record<string, string> | undefined {
  const { regex = "" } = OPERATORS.find(({ id }) => id === `fields-head-${name}`) ?? {};
  return new RegExp(regex.replaceAll("(?P<", "(?<")).exec(head)?.groups;
}

/** As the collector, which chooses with the expression language. */
function byExpressions(line: string): string {
  const head = line.slice(0, MAX_HEAD_CHARACTERS);
  const [capitals, marked, message] = ["capitals", "marked", "message"].map((name) => found(name, head));
  const isFirst = capitals && (!marked || (capitals["before"] as string).length <= (marked["before"] as string).length);
  const { level } = (isFirst ? capitals : (marked ?? message)) ?? {};
  return level === undefined ? "none" : (LEVEL_OF.get(level.toLowerCase()) ?? level);
}

const kernel = new Kernel(readFileSync(KERNEL_FILE));
function byKernel(line: string): string {
  const found = kernel.line(LINES_MARK, Buffer.from(line), { time: 0n, observed: 0n, receivedAtMs: Date.UTC(2026, 10, 29) });
  return LEVELS[found?.level ?? 0] as string;
}

/** Lines in other formats, empty and indented lines, which these expressions do not read. */
const OTHERS = /^\s|^$|^\{|^[A-Za-z_][\w.@/-]*=|^[IWEF]\d{4} |^\d+:[MSCX] \d\d /;
const withoutColours = (line: string): string => line.replaceAll(/\u001b\[[0-9;]*m/g, "");
const HEADS = PLAIN_LINES.map(([level, line]) => [level, withoutColours(line)] as const).filter(([, line]) => !OTHERS.test(line));

test.each(HEADS)("%s: %s", (level, line) => {
  expect(byExpressions(line)).toBe(level);
});

test("the collector and the backend find the same level", () => {
  const random = new Random(7);
  const pieces = [...new Set(HEADS.flatMap(([, line]) => line.split(/(?<=[^\w.])|(?=[^\w.])/)))];
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const different: string[] = [];
  let levels = 0;
  for (let count = 0; count < 20_000; count++) {
    let [, line] = pick(HEADS);
    for (let change = random.below(4); change > 0; change--) {
      const at = random.below(line.length + 1);
      line = line.slice(0, at) + (random.below(2) === 0 ? "" : pick(pieces)) + line.slice(at + random.below(3));
    }
    if (OTHERS.test(line)) continue;
    const level = byKernel(line);
    if (level !== "none") levels++;
    if (byExpressions(line) !== level) different.push(line);
  }
  expect(different).toEqual([]);
  expect(levels).toBeGreaterThan(5000);
});
