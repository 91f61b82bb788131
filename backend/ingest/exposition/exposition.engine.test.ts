import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { validateExposition, ExpositionError } from "./exposition.ts";
import type { SeriesLimits } from "./plain-lines.ts";

const NOW = Date.now();
const DAY = 86_400_000;
const LIMITS: SeriesLimits = {
  maxLabels: 37,
  maxNameBytes: 256,
  maxValueBytes: 4096,
  maxLabelBytes: 8192,
  oldestMs: NOW - 30 * DAY,
  newestMs: NOW + 2 * DAY,
};

async function validate(text: string | Buffer) {
  const body = Buffer.from(text);
  try {
    return { ...(await validateExposition(body, LIMITS)), body: body.toString() };
  } catch (error) {
    if (!(error instanceof ExpositionError)) throw error;
    return { line: error.line, reason: error.message };
  }
}

describe("exposition text", () => {
  test.each([
    "up 1",
    `up 1 ${NOW}`,
    `up\t1\t${NOW / 1000}`,
    `  up   1   ${NOW}  `,
    "up{} 1",
    'up{a="b"} 1',
    'up { a = "b" , c="d", } 1',
    'up{a="b"}1',
    'up{a="with \\" quote, \\\\ backslash and \\n line"} 1',
    'up{a="{}#,="} 1',
    'up{a=""} 1',
    "a:b_c 1e10",
    "up -1.5e-3",
    "up .5",
    "up 1.",
    "up NaN",
    "up +Inf",
    "up -inf",
    "up Infinity",
    '{"my.metric","a b"="c"} 1',
    '{a="b","my.metric"} 1',
    'up{"quoted"="x"} 1',
    'up{a="żółw 🐢"} 1',
  ])("%s is parsed as one sample", async (line) => {
    const kept = line.endsWith("NaN") ? { accepted: 0, dropped: { not_a_number: 1 } } : { accepted: 1, dropped: {} };
    for (const body of [line, `${line}\n`, `${line}\r\n`]) expect(await validate(body)).toMatchObject(kept);
  });

  test.each([
    "up",
    "up ",
    "up x",
    "up 1 x",
    "up 1 NaN",
    "up 1 2 3",
    "up 0x10",
    "up 1_000",
    "up - 1",
    "up 1e",
    "up .",
    "9up 1",
    "my-metric 1",
    "a b{} 1",
    "up{a} 1",
    "up{a=b} 1",
    'up{a="b} 1',
    'up{a="b" 1',
    'up{a="b"',
    'up{a="b" c="d"} 1',
    'up{=""} 1',
    'up{""="x"} 1',
    'up{"second"} 1',
    '{a="b"} 1',
    '{""} 1',
    'up{a="b",,} 1',
    "up{,} 1",
    '{"error": "not json either"}',
    "up 1\r",
    "<html>",
  ])("%j is rejected", async (line) => {
    expect(await validate(`fine 1\n${line === "up 1\r" ? "up 1\r\r" : line}\nfine 2\n`)).toMatchObject({ line: 2 });
  });

  test("comments, HELP, TYPE, EOF and empty lines are no samples, but count as lines", async () => {
    expect(await validate("# HELP up x\n# TYPE up gauge\n\n  # any\r\nup 1\n\r\n# EOF\n")).toMatchObject({ accepted: 1 });
    expect(await validate("# HELP up x\n\n\r\nbad\n")).toMatchObject({ line: 4, reason: "line 4: the value is missing" });
    expect(await validate("")).toMatchObject({ accepted: 0 });
  });

  test.each(["up 1\n", "# HELP up x\n", " x"])("%j after # EOF is rejected, and blank lines are accepted", async (rest) => {
    const plain = "# EOFs, # EOF x and # eof are comments\n# EOF x\nup 1\n# EOF\n\r\n \n";
    expect(await validate(plain)).toMatchObject({ accepted: 1 });
    expect(await validate(plain + rest)).toMatchObject({ line: 7, reason: "line 7: text after # EOF, which ends the text" });
  });

  test("reports the number of a line that is not UTF-8", async () => {
    const bad = Buffer.concat([Buffer.from('up 1\nup{a="'), Buffer.from([0xc3, 0x28]), Buffer.from('"} 1\n')]);
    expect(await validate(bad)).toEqual({ line: 2, reason: "line 2: not UTF-8" });
  });

  test("rejects a line above the engine's limit", async () => {
    expect(await validate(`up 1\nup{a="${"x".repeat(300_000)}"} 1\n`)).toMatchObject({ line: 2 });
  });

  test("replaces exemplars and plus signs with blanks, so that the engine reads the sample", async () => {
    const { body } = (await validate('c_total 5 # {trace_id="x"} 1\nup{a="b"} +7 +1700000000000 # {b="c"} 1\n')) as { body: string };
    expect(body.replaceAll(/ +/g, " ")).toBe('c_total 5 \nup{a="b"} 7 1700000000000 \n');
    expect(body).toHaveLength('c_total 5 # {trace_id="x"} 1\nup{a="b"} +7 +1700000000000 # {b="c"} 1\n'.length);
  });

  test("validates large bodies in slices with correct line numbers", async () => {
    const line = 'http_requests_total{method="GET",handler="/api/v1/things",instance="10.0.0.1:8080"} 1027 1700000000000\n';
    expect(await validate(`${line.repeat(60_000)}bad line\n`)).toMatchObject({ line: 60_001 });
  });
});

/** Lines that mean to be right, in every spelling. */
const validLine = fc
  .record({
    name: fc.stringMatching(/^[a-z_:][a-z0-9_:]{0,12}$/),
    quoteName: fc.boolean(),
    labels: fc.array(
      fc.tuple(
        fc.stringMatching(/^[a-z_][a-z0-9_]{0,8}$/),
        fc.string({
          unit: fc.constantFrom("a", "é", "🐢", "{", "}", "#", ",", "=", " ", '\\"', "\\\\", "\\n", "\\d", "\t"),
          maxLength: 12,
        }),
        fc.boolean(),
      ),
      { maxLength: 6 },
    ),
    blank: fc.constantFrom("", " ", "\t", "  "),
    value: fc.oneof(
      fc.double().map(String),
      fc.constantFrom("NaN", "+Inf", "-Inf", "inf", "1e400", "1e-400", "00012", "12345678901234567890.5", "+3", ".5", "5."),
    ),
    time: fc.constantFrom(
      "",
      " 1",
      " 1700000000.5",
      ` ${NOW}`,
      ` ${NOW + 3 * DAY}`,
      ` ${NOW - 40 * DAY}`,
      " -5",
      " 0",
      ` +${NOW}`,
      " 1e300",
    ),
    end: fc.constantFrom("", " ", "\r", " # comment", ' # {trace_id="abc"} 1 2', "#x", "\t# {"),
  })
  .map(({ name, quoteName, labels, blank, value, time, end }) => {
    const pairs = labels
      .filter(([label], at) => labels.findIndex(([other]) => other === label) === at)
      .map(([label, text, quoted]) => `${quoted ? `"${label}"` : label}${blank}=${blank}"${text}"`);
    if (quoteName) pairs.unshift(`"${name}"`);
    const braces = pairs.length > 0 ? `{${blank}${pairs.join(`${blank},${blank}`)}${blank}}` : "";
    return `${quoteName ? "" : name}${braces} ${value}${time}${end}`;
  });

const TOKENS = ["up", "a", "{", "}", '"', "=", ",", " ", "\t", "#", "1", "-", "+", ".", "e", "NaN", "\\", "1700000000000", "\r", "é"];
const soup = fc.array(fc.constantFrom(...TOKENS), { maxLength: 14 }).map((tokens) => tokens.join(""));
const mutated = fc
  .tuple(validLine, fc.nat(), fc.constantFrom("", ...TOKENS))
  .map(([line, where, token]) => `${line.slice(0, where % line.length)}${token}${line.slice((where % line.length) + 1)}`);
const anyLine = fc.oneof(validLine, mutated, soup).map((line) => line.replaceAll("\n", " "));

/**
 * Where this reading is stricter than the engine's on purpose: the engine takes any bytes as a name without quotes, reads NaN as a time,
 * and searches comments for labels.
 */
function isStricter(line: string, reason: string): boolean {
  if (
    /must start with|cannot hold without quotes|label without a value|label value must be quoted|an empty name|given twice|the label __name__/.test(
      reason,
    )
  )
    return true;
  if (/not a number|follows the timestamp/.test(reason) && /\{|nan|-\+/i.test(line)) return true;
  return line.includes("#");
}

describe("compared with the engine itself", () => {
  let engine: TestEngine;
  beforeAll(async () => {
    engine = await startTestEngine();
  });
  afterAll(() => engine[Symbol.asyncDispose]());

  const invalid = () => engine.counter('vm_rows_invalid_total{type="prometheus"}');
  const ignored = (reason: string) => engine.counter(`vm_rows_ignored_total{reason="${reason}"}`);
  const read = () => engine.counter('vm_protoparser_rows_read_total{type="prometheus"}');
  async function post(body: string): Promise<void> {
    const labels = "extra_label=org_id=o&extra_label=host_id=h&extra_label=node=n";
    const answer = await fetch(`${engine.writeUrl}/api/v1/import/prometheus?${labels}`, { method: "POST", body });
    expect(answer.status).toBe(204);
  }

  test("the engine stores every accepted line, and drops samples for the counted reasons", async () => {
    const lines = fc.sample(anyLine, { numRuns: 9000, seed: 7 });
    const long = "x".repeat(5000);
    const many = Array.from({ length: 38 }, (_, index) => `l${index}="v"`).join(",");
    lines.push(
      `up{a="${long}"} 1`,
      `up{a${"b".repeat(256)}="x"} 1`,
      `up{${many}} 1`,
      `up{${many.replace(',l37="v"', "")},e=""} 1`,
      `up{a="${'\\"'.repeat(4000)}"} 1`,
    );
    const before = { invalid: await invalid(), read: await read() };
    let accepted = 0;
    const dropped: Record<string, number> = {};
    const bodies: string[] = [];
    for (const line of lines) {
      const result = await validate(line);
      if (!("accepted" in result)) continue;
      accepted += result.accepted;
      for (const [reason, count] of Object.entries(result.dropped)) dropped[reason] = (dropped[reason] ?? 0) + count;
      bodies.push(result.body);
    }
    expect(accepted).toBeGreaterThan(1000);
    await post(bodies.join("\n"));
    const { time_zero = 0, ...seen } = dropped;
    expect(time_zero).toBeGreaterThan(0);
    const rows = accepted + Object.values(seen).reduce((sum, count) => sum + count, 0);
    await vi.waitFor(async () => expect((await read()) - before.read).toBe(rows), { timeout: 50_000, interval: 100 });
    expect(await invalid()).toBe(before.invalid);
    const { before_retention = 0, too_far_ahead = 0, not_a_number = 0, ...counted } = { ...seen, out_of_time: 0 };
    counted.out_of_time = before_retention + too_far_ahead;
    expect(not_a_number).toBeGreaterThan(0);
    await vi.waitFor(
      async () =>
        expect({
          too_many_labels: await ignored("too_many_labels"),
          too_long_label_name: await ignored("too_long_label_name"),
          too_long_label_value: await ignored("too_long_label_value"),
          // Times beyond 64 bits turn into small ones in the engine.
          out_of_time: (await ignored("small_timestamp")) + (await ignored("big_timestamp")),
        }).toEqual(counted),
      { timeout: 50_000, interval: 100 },
    );
  });

  test("the engine rejects every rejected line too, except where this parser is stricter on purpose", async () => {
    const refused: string[] = [];
    for (const line of fc.sample(fc.oneof(mutated, soup), { numRuns: 6000, seed: 11 })) {
      const result = await validate(line);
      if (result.reason !== undefined && !isStricter(line, result.reason)) refused.push(line);
    }
    expect(refused.length).toBeGreaterThan(200);
    const before = await invalid();
    await post(refused.join("\n"));
    await vi.waitFor(async () => expect((await invalid()) - before).toBe(refused.length), { timeout: 50_000, interval: 100 });
  });

  test("accepts every line of the valid generator", async () => {
    for (const line of fc.sample(validLine, { numRuns: 2000, seed: 3 })) {
      expect([line, await validate(line)]).toMatchObject([line, { dropped: {} }]);
    }
  });
});
