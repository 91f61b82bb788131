/* oxlint-disable vitest/no-conditional-expect -- of two readings, either both refuse or both pass */
// Exposition text with and without the kernel: the same result, the same first invalid line, the same corrections, for any text. Texts are
// generated from a seed that a failure reports; KERNEL_DOCUMENTS=300000 runs as many, KERNEL_SEED=n uses another seed. Whether the result is
// right is tested in exposition.engine.test.ts, against the engine itself.
import { readFileSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import { damaged, Random } from "../otlp/random-documents.fixture.ts";
import { validateExposition, ExpositionError, withPrefixes } from "./exposition.ts";
import { PlainLines, PLAIN_LINES_FILE, type SeriesLimits } from "./plain-lines.ts";
import { NOW, text } from "./random-lines.fixture.ts";

const DOCUMENTS = Number(process.env["KERNEL_DOCUMENTS"] ?? 6000);
const SEED = Number(process.env["KERNEL_SEED"] ?? 1);
const LIMITS: SeriesLimits = {
  maxLabels: 37,
  maxNameBytes: 256,
  maxValueBytes: 4096,
  maxLabelBytes: 8192,
  oldestMs: NOW - 30 * 86_400_000,
  newestMs: NOW + 2 * 86_400_000,
};
/** A retention longer than there have been milliseconds. */
const ANY_TIME: SeriesLimits = { ...LIMITS, oldestMs: -1e13 };
const WHOLE = `# TYPE x counter
http_request_duration_seconds_bucket{method="GET",handler="/api/v1/things/7",le="+Inf"} 12.5e3 ${NOW}

up{a="b \\" \\\\ \\n é",c="",} -1
plain_line 0 ${NOW - 1}
`;

let kernel: PlainLines;
beforeAll(() => void (kernel = new PlainLines(readFileSync(PLAIN_LINES_FILE))));

async function validated(body: Buffer, limits: SeriesLimits, by: PlainLines | "none") {
  const copy = Buffer.from(body);
  try {
    return { counts: await validateExposition(copy, limits, by), body: copy };
  } catch (error) {
    if (!(error instanceof ExpositionError)) throw error;
    return { line: error.line, reason: error.message };
  }
}

/** Whether the text is exposition text. Fails when the readings differ. */
async function compare(body: Buffer, what: string, limits = LIMITS): Promise<boolean> {
  const [fast, slow] = [await validated(body, limits, kernel), await validated(body, limits, "none")];
  const description = (): string => `${what}: ${JSON.stringify(body.toString().slice(0, 3000))}`;
  if (!fast.counts || !slow.counts) {
    expect(fast, description()).toEqual(slow);
    return false;
  }
  expect(fast.counts, description()).toEqual(slow.counts);
  expect(Buffer.compare(fast.body, slow.body), description()).toBe(0);
  return true;
}

/** How many of the lines are left to the other reading. */
function leftOf(body: string): number {
  const bytes = Buffer.from(body);
  expect(kernel.open(bytes, LIMITS)).toBe(true);
  let left = 0;
  for (let at = 0; ; left += 1) {
    at = kernel.skip(at);
    if (at >= bytes.length) return left;
    at = bytes.indexOf("\n", at) + 1;
  }
}

it("the kernel accepts lines as programs write them: samples, comments and empty lines", () => {
  expect(leftOf(WHOLE)).toBe(0);
  kernel.skip(0);
  expect([kernel.lines, kernel.samples]).toEqual([5, 3]);
});

it.each(["kernel", "none"] as const)("labels that the server sets keep their values under another name (%s)", async (by) => {
  const sent = `# node="x"
kube_pod_info{node="a",pod="p"} 1 ${NOW}
kube_pod_info{pod="p",node="b"} 1 ${NOW}
x{ "host_id" = "h" , org_id="o, node=\\"y\\"" } 2
x{node="n",exported_node="e",exported_exported_node="f"} 3
up{nodes="1",anode="2",node_="3",host_ip="4"} 4
`;
  const body = Buffer.from(sent);
  const { renames = [], ...counts } = await validateExposition(body, LIMITS, by === "kernel" ? kernel : by);
  expect(counts).toEqual({ accepted: 5, dropped: {} });
  expect(withPrefixes(body, renames).toString()).toBe(
    sent
      .replace('{node="a"', '{exported_node="a"')
      .replace(',node="b"', ',exported_node="b"')
      .replace('"host_id"', '"exported_host_id"')
      .replace("org_id=", "exported_org_id=")
      .replace('{node="n"', `{${"exported_".repeat(3)}node="n"`),
  );
});

it("counts the labels of a long line as the other reading does", async () => {
  for (let length = 40; length < 60; length += 1) {
    const labels = Array.from({ length: 20 }, (_, index) => `l${index}="${"x".repeat(length)}"`).join(",");
    const body = Buffer.from(`a_metric{${labels}} 1\n`);
    expect(await compare(body, `${length} bytes a label`, { ...LIMITS, maxLabelBytes: 1000 })).toBe(true);
  }
});

it("random, odd and damaged texts have the same result", { timeout: 3_600_000 }, async () => {
  const counts = { lines: 0, left: 0 };
  for (let index = 0; index < DOCUMENTS; index += 1) {
    const random = new Random(SEED * 1_000_003 + index);
    random.odd = [0, 0.003, 0.02, 0.1][index % 4] as number;
    const made = text(random);
    const body = Buffer.from(made);
    await compare(
      index % 5 === 4 ? damaged(random, body) : body,
      `KERNEL_SEED=${SEED}, text ${index}`,
      index % 7 === 0 ? ANY_TIME : LIMITS,
    );
    if (random.odd > 0) continue;
    const whole = made.slice(0, made.lastIndexOf("\n") + 1);
    counts.lines += whole.split("\n").length - 1;
    counts.left += leftOf(whole);
  }
  // Else the comparison would say nothing.
  expect(counts.lines).toBeGreaterThan(DOCUMENTS / 2);
  expect(counts.left).toBe(0);
});

it("a text that is truncated at any byte, or with any byte replaced, has the same result", { timeout: 300_000 }, async () => {
  const whole = Buffer.from(WHOLE);
  let good = 0;
  for (let at = 0; at <= whole.length; at += 1) {
    good += Number(await compare(whole.subarray(0, at), `cut off at ${at}`));
    for (const byte of Buffer.from('"\\{}=,# 0-.eE+n:\n\r\t\u0000\u0080', "latin1")) {
      const body = Buffer.from(whole);
      if (at < body.length) body[at] = byte;
      good += Number(await compare(body, `byte ${at} is ${byte}`));
    }
  }
  expect(good).toBeGreaterThan(1000);
});

it("earlier memory of the kernel changes nothing, and it reads nothing beyond the text", () => {
  const random = new Random(SEED);
  const rest = ['",a="b"} 1 1795262400123\n', "0123456789", 'aaaa="', "\n\n\n\n", '\\"'].map((each) => each.repeat(60));
  for (let index = 0; index < 2000; index += 1) {
    random.odd = index % 2 === 0 ? 0.02 : 0;
    const body = Buffer.from(text(random)).subarray(0, 500);
    const cut = body.subarray(0, random.below(body.length + 1));
    const seen = rest.map((each) => {
      kernel.open(Buffer.from(each), LIMITS);
      kernel.open(cut, LIMITS);
      const passed = kernel.skip(0);
      expect(passed).toBeLessThanOrEqual(cut.length);
      return [passed, kernel.lines, kernel.samples].join();
    });
    expect(new Set(seen).size).toBe(1);
  }
});

it("any bytes have the same result", async () => {
  const random = new Random(SEED);
  let good = 0;
  for (let index = 0; index < DOCUMENTS / 2; index += 1) {
    const body = Buffer.from(Array.from({ length: random.below(80) }, () => random.below(256)));
    good += Number(await compare(body, `KERNEL_SEED=${SEED}, bytes ${index}`));
  }
  // Empty ones.
  expect(good).toBeLessThan(DOCUMENTS / 10);
});

it("a text of many slices has the same result, even with lines longer than a slice", { timeout: 300_000 }, async () => {
  const line = `http_requests_total{method="GET",handler="/api/v1/things",instance="10.0.0.1:8080"} 1027 ${NOW}\n`;
  const long = (bytes: number) => `up{a="${"x".repeat(bytes)}"} 1\n`;
  const digits = `up ${"0".repeat(256 * 1024)} 1\n`;
  for (const odd of ["", "bad line\n", "# x\n", `# ${"x".repeat(300_000)}\n`, long(5000), long(600_000), digits, "up +1 # x\n", "up 1"]) {
    await compare(Buffer.from(line.repeat(12_000) + odd + line.repeat(3000)), `many lines, and ${odd.slice(0, 30)}`);
  }
  expect(kernel.memoryBytes).toBeLessThanOrEqual(1024 * 1024);
});

it("rejects a kernel of other sources when it is opened", () => {
  const empty = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  expect(() => new PlainLines(empty)).toThrow("the kernel was compiled of other sources: it has no lines");
});
