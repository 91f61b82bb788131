// Limits of a query: the records and bytes that it reads one by one, and its computing time. With small limits, on the real engine; the
// limits of production are in the last test.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type LokiApp, type LokiOrg, openLokiApp } from "../../../test/fixtures/loki-app.ts";
import { logRecord } from "../../ingest/otlp/otlp-body.fixture.ts";
import { type Bounds, BOUNDS } from "./regex.ts";

const WIDE: Bounds = { records: 1e9, bytes: 1e12, computeMs: 1e9 };
const startNs = (BigInt(Math.floor(Date.now() / 60_000)) - 10n) * 60_000_000_000n;
const RANGE = { start: String(startNs), end: String(startNs + 60_000_000_000n) };
const ADVICE = "add line filters or labels to the selector, or ask for a shorter range";

/** Limits of the one engine of this process; each test sets its own. */
const bounds: { -readonly [name in keyof Bounds]: number } = { ...WIDE };
let app: LokiApp;
let org: LokiOrg;
beforeAll(async () => {
  app = await openLokiApp({}, bounds);
  org = await app.org();
  await org.send(LINES.map((line, index) => logRecord(startNs + BigInt(index + 1), line)));
});
afterEach(() => void Object.assign(bounds, WIDE));
afterAll(() => app?.[Symbol.asyncDispose]());

const LINES = Array.from({ length: 12 }, (_, index) => `n=${index} of=${"x".repeat(100)}`);
/** What reads one by one, in each way that there is. */
const READ_ONE_BY_ONE = [
  ["query_range", { query: '{service_name="shop"} | logfmt | n="none"', ...RANGE }],
  ["query_range", { query: 'sum(count_over_time({service_name="shop"} | logfmt --strict | n > 3 [1m]))', ...RANGE, step: "60" }],
  ["query", { query: 'quantile_over_time(0.9, {service_name="shop"} | logfmt --strict | unwrap n [1m]) by (level)', time: RANGE.end }],
  ["detected_fields", { query: '{service_name="shop"} | logfmt | n="none"', ...RANGE }],
] as const;

async function refusal(path: string, params: Record<string, string>): Promise<string> {
  const answer = await org.get(path, params);
  expect([answer.statusCode, answer.json().error], answer.body).toEqual([400, "query_too_expensive"]);
  return answer.json().message as string;
}

describe.each([
  [{ records: 11 }, "has stages that read more than 11 records, or "],
  [{ bytes: 1024 }, "records, or 0.0009765625 MiB, one by one"],
  [{ computeMs: -1 }, "takes more than -0.001 s to compute here"],
] as const)("a query over %j", (small, words) => {
  beforeEach(() => void Object.assign(bounds, small));

  it.each(READ_ONE_BY_ONE)("is rejected with what to do instead: %s %j", async (path, params) => {
    const message = await refusal(path, params);
    expect(message).toContain(words);
    expect(message).toContain(ADVICE);
  });

  it("does not count for the engine's counts or after a line filter", async () => {
    if ("computeMs" in small) Object.assign(bounds, WIDE);
    const counted = await org.get("query", { query: 'sum(count_over_time({service_name="shop"}[1m]))', time: RANGE.end });
    expect(counted.json().data.result).toMatchObject([{ value: [expect.any(Number), "12"] }]);
    const one = await org.get("query_range", { query: '{service_name="shop"} |= "n=7 " | logfmt | n="7"', ...RANGE });
    expect([one.statusCode, one.json().data.result]).toMatchObject([200, [{ values: [[expect.any(String), LINES[7]]] }]]);
  });
});

it("at its limit is answered", async () => {
  bounds.records = LINES.length;
  const [path, params] = READ_ONE_BY_ONE[1];
  const answer = await org.get(path, params);
  expect([answer.statusCode, answer.json().data.result]).toMatchObject([200, [{ values: [[expect.any(Number), "8"]] }]]);
});

describe("an expression that reads the rest of a text at each position, or takes long for each character", () => {
  it.each([
    [
      "has regular expressions that take more than 1 s for one record",
      '| line_format `{{ repeat 100000 "a" }}` | line_format `{{ regexReplaceAll "[^b]*z|a" __line__ "b" }}`',
    ],
    [
      "has regular expressions that take more than 1 s for one record",
      '| line_format `{{ repeat 100000 "a" }}` | line_format `{{ count "[^b]*z|a" __line__ }}`',
    ],
    ["has a regular expression of many parts that reads more than ", '| line_format `{{ repeat 200000 "a" }}b` |~ `a.{60}[yz]`'],
    [
      "has a regular expression of many parts that reads more than ",
      '| line_format `{{ repeat 200000 "a" }}b` | regexp `a(?P<found>.{60})[yz]`',
    ],
    [
      "has a regular expression of many parts that reads more than ",
      '| label_format long=`{{ repeat 200000 "a" }}b` | long =~ `a.{60}[yz]`',
    ],
  ])("is rejected before it delays others: %s %s", async (words, stages) => {
    const message = await refusal("query_range", { query: `{service_name="shop"} |= "n=7 " ${stages}`, ...RANGE });
    expect(message).toContain(words);
    expect(message).toContain(ADVICE);
  });
});

it("in production has the limits of the contract", () => {
  expect(BOUNDS).toEqual({ records: 200_000, bytes: 128 * 1024 * 1024, computeMs: 5000 });
});
