// GET /query/logs/histogram and /query/logs/fields on the real engine.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { logRecord, nanosecondsOf, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";

const MINUTE_NS = 60_000_000_000n;
const start = new Date(Math.floor(Date.now() / 60_000) * 60_000 - 10 * 60_000);
const startNs = nanosecondsOf(start);
const minute = (n: number): string => new Date(start.getTime() + n * 60_000).toISOString();
const record = (n: number, severityText: string, message = "m", rest: object = {}) =>
  logRecord(startNs + BigInt(n) * MINUTE_NS, message, { severityText, ...rest });
const range = `start=${minute(0)}&end=${minute(5)}`;

let logs: LogsApp;
beforeAll(async () => {
  logs = await openLogsApp();
});
afterAll(() => logs?.[Symbol.asyncDispose]());

interface Stretch {
  start: string;
  end: string;
  counts: Record<string, number>;
}

const histogram = async (orgId: string, query: string): Promise<Stretch[]> => {
  const answer = await logs.get(orgId, `/query/logs/histogram?${query}`);
  expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
  return answer.json();
};

describe("the histogram", () => {
  it("counts by level in intervals without gaps, of its own organisation, with every filter", async () => {
    await logs.send("red", [
      record(0, "INFO"),
      record(0, "Error", "boom"),
      record(1, "info"),
      record(4, "error", "bang"),
      record(6, "info"),
    ]);
    await logs.send("blue", [record(0, "info"), record(3, "fatal")]);
    const red = await histogram("red", `${range}&buckets=5`);
    expect(red.map(({ counts }) => counts)).toEqual([{ info: 1, error: 1 }, { info: 1 }, {}, {}, { error: 1 }]);
    expect(red.map((one) => [Date.parse(one.start), Date.parse(one.end)])).toEqual(
      [0, 1, 2, 3, 4].map((n) => [Date.parse(minute(n)), Date.parse(minute(n + 1))]),
    );
    expect(red.slice(1).map((one) => one.start)).toEqual(red.slice(0, -1).map((one) => one.end));
    expect((await histogram("blue", `${range}&buckets=1`)).map(({ counts }) => counts)).toEqual([{ info: 1, fatal: 1 }]);
    expect((await histogram("red", `${range}&buckets=1&regex=^b&not_q=bang`)).map(({ counts }) => counts)).toEqual([{ error: 1 }]);
    expect(await histogram("unknown", range)).toHaveLength(60);
  });

  it("is exact at the ends of intervals and of the range, and has no more intervals than nanoseconds", async () => {
    const at = (ns: bigint) => logRecord(startNs + ns, "m", { severityText: "info" });
    await logs.send("edges", [at(-1n), at(0n), at(1n), at(2n), at(3n), at(4n)]);
    const three = `start=${start.toISOString().replace("Z", "000000Z")}&end=${start.toISOString().replace("Z", "000003Z")}`;
    expect((await histogram("edges", `${three}&buckets=2`)).map(({ counts }) => counts["info"])).toEqual([2, 2]);
    expect((await histogram("edges", `${three}&buckets=500`)).map(({ counts }) => counts["info"])).toEqual([1, 1, 2]);
    expect(await histogram("edges", `start=${minute(1)}&end=${minute(0)}`)).toEqual([]);
    expect(await histogram("edges", "start=0001-01-01T00:00:00Z&end=9999-12-31T23:59:59Z&buckets=500")).toHaveLength(500);
  });

  it("starts intervals of a minute or longer at whole minutes, whatever the ends of the range are", async () => {
    const at = (seconds: number) => logRecord(startNs + BigInt(seconds) * 1_000_000_000n, "m", { severityText: "info" });
    await logs.send("unaligned", [at(29), at(30), at(60), at(119), at(120), at(270), at(271)]);
    const second = (n: number): string => minute(n / 60);
    const bars = await histogram("unaligned", `start=${second(30)}&end=${second(270)}&buckets=4`);
    expect(bars.map(({ start, end, counts }) => [Date.parse(start), Date.parse(end), counts["info"] ?? 0])).toEqual(
      [
        [30, 60, 1],
        [60, 120, 2],
        [120, 180, 1],
        [180, 240, 0],
        [240, 270, 1],
      ].map(([from = 0, to = 0, count]) => [Date.parse(second(from)), Date.parse(second(to)), count]),
    );
  });

  it("does not lengthen intervals if the range is less than a second longer than they are together", async () => {
    await logs.send("slightly-longer", [record(0, "info"), record(4, "error")]);
    const end = new Date(start.getTime() + 4 * 60_000 + 50).toISOString();
    const bars = await histogram("slightly-longer", `start=${minute(0)}&end=${end}&buckets=4`);
    expect(bars.map((bar) => Date.parse(bar.start))).toEqual([0, 1, 2, 3].map((n) => Date.parse(minute(n))));
    expect(bars.map(({ counts }) => counts)).toEqual([{ info: 1 }, {}, {}, { error: 1 }]);
    expect(Date.parse(bars.at(-1)?.end ?? "")).toBe(Date.parse(end));
  });

  it("returns the most frequent of very many levels, and counts all", async () => {
    const levels = Array.from({ length: 300 }, (_, n) => record(0, `level ${n}`));
    await logs.send("levels", [...levels, record(0, "info"), record(0, "info"), record(0, "__proto__"), record(0, "__proto__")]);
    const [only] = await histogram("levels", `${range}&buckets=1`);
    const counts = Object.entries(only?.counts ?? {});
    expect(counts).toHaveLength(21);
    expect(counts.reduce((sum, [, n]) => sum + n, 0)).toBe(304);
    expect(counts).toContainEqual(["info", 2]);
    expect(counts).toContainEqual(["__proto__", 2]);
    expect(counts).toContainEqual(["other", 304 - 2 - 2 - 18]);
  });

  it.each(["buckets=0", "buckets=501", "buckets=ten", "limit=5", "cursor=x", "regex=(", "start=yesterday", "label=x"])(
    "rejects %s by name",
    async (query) => {
      for (const path of query.startsWith("buckets") ? ["histogram"] : ["histogram", "fields"]) {
        const answer = await logs.get("red", `/query/logs/${path}?${query}`);
        expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
        expect(answer.json().message).toContain(query.split("=")[0]);
      }
    },
  );
});

interface Field {
  name: string;
  records: number;
  values: { value: string; count: number }[];
}

const fields = async (orgId: string, query = range): Promise<Field[]> => (await logs.get(orgId, `/query/logs/fields?${query}`)).json();

describe("the fields", () => {
  it("are those of its own organisation's matching records, with values by frequency", async () => {
    const labelled = (key: string, value: string) => ({ attributes: [stringAttribute(key, value)] });
    await logs.send("shop", [
      record(0, "info", "a", labelled("k8s.pod.name", "b")),
      record(1, "info", "b", labelled("k8s.pod.name", "a")),
      record(2, "warn", "c", labelled("k8s.pod.name", "b")),
      record(2, "warn", "d", labelled("it's \"\n", "\\ü")),
    ]);
    const all = await fields("shop");
    expect(all.map(({ name }) => name).toSorted()).toEqual([
      "host_id",
      "label.it's \"\n",
      "label.k8s.pod.name",
      "level",
      "node",
      "scope",
      "source",
    ]);
    const values = (of: Field[], name: string) => of.find((one) => one.name === name)?.values;
    expect(all.slice(0, 5).map(({ name }) => name.startsWith("label."))).toEqual([false, false, false, false, false]);
    expect(values(all, "level")).toEqual([
      { value: "info", count: 2 },
      { value: "warn", count: 2 },
    ]);
    expect(values(all, "label.k8s.pod.name")).toEqual([
      { value: "b", count: 2 },
      { value: "a", count: 1 },
    ]);
    expect(values(all, "label.it's \"\n")).toEqual([{ value: "\\ü", count: 1 }]);
    expect(values(await fields("shop", `${range}&not_label.k8s.pod.name=b&q=b`), "label.k8s.pod.name")).toEqual([{ value: "a", count: 1 }]);
    expect(await fields("unknown")).toEqual([]);
  });

  it("are limited in fields, values and lengths, whatever labels there are", async () => {
    const labels = (n: number) => [
      stringAttribute("same", `value ${n}`),
      stringAttribute("long", "x".repeat(100_000)),
      stringAttribute("k".repeat(1000), "v"),
      ...Array.from({ length: 100 }, (_, key) => stringAttribute(`key ${n}/${key}`, "v")),
    ];
    await logs.send(
      "hostile",
      Array.from({ length: 50 }, (_, n) => record(0, "info", "m", { attributes: labels(n) })),
    );
    const all = await fields("hostile");
    expect(all).toHaveLength(200);
    expect(all.find(({ name }) => name === "label.same")?.values).toHaveLength(20);
    expect(all.find(({ name }) => name === "label.long")?.values).toEqual([{ value: "x".repeat(256), count: 50 }]);
    expect(all.filter(({ name }) => name.length > 256)).toEqual([]);
    // As the console filters by a value that is cut.
    const start = `/^${"x".repeat(256)}/`;
    expect(
      (await logs.get("hostile", `/query/logs/histogram?${range}&buckets=1&query=${encodeURIComponent(`long:${start}`)}`)).json(),
    ).toMatchObject([{ counts: { info: 50 } }]);
    // More than the listed values.
    const records = Object.fromEntries(all.map((field) => [field.name, field.records]));
    expect(records).toMatchObject({ level: 50, source: 50, "label.same": 50, "label.long": 50, "label.key 0/0": 1 });
  });
});
