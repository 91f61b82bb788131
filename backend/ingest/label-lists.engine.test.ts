/* oxlint-disable vitest/no-conditional-expect -- a list is either accepted or refused */
// Label lists of every spelling on the real engine: what is accepted is stored in full under exactly the expected labels, and belongs to its
// sender's organisation; what is not names the label. Lists are generated from a fixed seed; LABEL_LISTS=300000 tries as many.
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { startTestEngine, type TestEngine } from "../../test/fixtures/metrics-engine.ts";
import { VictoriaMetricsStore } from "../storage/metrics/metric-store.ts";
import { storeLimits } from "./exposition/exposition-ingest.ts";
import { validateExposition } from "./exposition/exposition.ts";
import { checkWrite } from "./remote-write/check-write.ts";
import { type TestSeries, writeBody } from "./remote-write/write-request.fixture.ts";

const LISTS = Number(process.env["LABEL_LISTS"] ?? 3000);
const BATCH = 20_000;
const OWN = { orgId: "own", hostId: "host-1", node: "node-1" };
const FORCED: Readonly<Record<string, string>> = { org_id: "own", host_id: "host-1", node: "node-1" };
const NOW = Date.now();
const LIMITS = storeLimits(NOW, 30 * 86_400_000);

let engine: TestEngine;
beforeAll(async () => void (engine = await startTestEngine()));
afterAll(async () => await engine?.[Symbol.asyncDispose]());

type Label = readonly [name: string, value: string];
const names = "a b __name__ org_id host_id node instance job le quantile exported_node exported_org_id A _ __x".split(" ");
const name = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...names) },
  { weight: 2, arbitrary: fc.constantFrom("http.x", "a b", 'x"y', "x\\y", "x\\\\y", "x\ny", "é", "{", "=", "") },
);
const value = fc.constantFrom("v", "w", "", "other", "own", 'q"', "\\", "\\n", "\n", "é", "{a=b}", "x,y");
const list = fc.array(fc.tuple(name, value), { maxLength: 7 });

const escaped = (text: string): string => text.replaceAll(/[\\"\n]/g, (sign) => (sign === "\n" ? "\\n" : `\\${sign}`));
const isClassic = (text: string): boolean => /^[a-zA-Z_:][\w:]*$/.test(text);

/** The labels that the engine must have, empty ones left out. */
function stored(labels: readonly Label[]): Record<string, string> {
  return Object.fromEntries([...labels.filter(([, text]) => text !== ""), ...Object.entries(FORCED)]);
}

/** Compares what the engine has for a metric with what was accepted, by value. */
async function expectStored(metric: string, expected: ReadonlyMap<number, Record<string, string>>): Promise<void> {
  const of = async (org: string): Promise<string[]> => {
    const match = encodeURIComponent(`{__name__="${metric}",org_id="${org}"}`);
    const text = await (await fetch(`${engine.queryUrl}/api/v1/export?match[]=${match}`)).text();
    return text.split("\n").filter(Boolean);
  };
  // The engine finds a new series only after a moment, even after a flush.
  const found = await vi.waitFor(
    async () => {
      await engine.flush();
      const series = (await of("own")).flatMap((line) => {
        const { metric: labels, values } = JSON.parse(line) as { metric: Record<string, string>; values: number[] };
        return values.map((at): [number, object] => [at, labels]);
      });
      const last = new Map(series);
      expect(last.size).toBe(expected.size);
      return last;
    },
    { timeout: 30_000, interval: 200 },
  );
  expect(await of("other")).toEqual([]);
  for (const [at, labels] of expected) expect(found.get(at), `list ${at}`).toEqual({ __name__: metric, ...labels });
}

test("stores lists in exposition text as sent, or rejects them with a message that names the label", { timeout: 3_600_000 }, async () => {
  const store = new VictoriaMetricsStore({ writeUrl: engine.writeUrl, queryUrl: engine.queryUrl });
  const spelling = fc.tuple(list, fc.boolean(), fc.boolean(), fc.boolean());
  let refused = 0;
  for (const [from, lists] of batches(fc.sample(spelling, { numRuns: LISTS, seed: 43 }))) {
    const metric = `text_${from}`;
    const accepted = new Map<number, Record<string, string>>();
    let body = "";
    for (const [at, [labels, isQuoted, isInside, hasComma]] of lists.entries()) {
      const pairs = [["id", String(at)] as const, ...labels].map(
        ([key, text]) => `${isClassic(key) && !isQuoted ? key : `"${escaped(key)}"`}="${escaped(text)}"`,
      );
      const inner = [...(isInside ? [`"${metric}"`] : []), ...pairs].join(hasComma ? " , " : ",");
      const line = `${isInside ? "" : metric}{${inner}} ${at} ${NOW}\n`;
      const all = labels.map(([key]) => key);
      const bad = all.find((key, index) => key === "" || key === "__name__" || all.indexOf(key) < index);
      const outcome = await validateExposition(Buffer.from(line), LIMITS).then(
        ({ accepted: count }) => String(count),
        (error: Error) => error.message,
      );
      if (bad === undefined) {
        expect(outcome, line).toBe("1");
        accepted.set(at, stored([["id", String(at)], ...labels]));
        body += line;
      } else {
        expect(outcome, line).toContain(
          bad === "" ? "an empty name" : bad === "__name__" ? "__name__" : `${JSON.stringify(bad)} is given twice`,
        );
        refused += 1;
      }
    }
    await store.write(OWN, Buffer.from(body), NOW);
    await expectStored(metric, accepted);
  }
  expect(refused).toBeGreaterThan(LISTS / 10);
});

test(
  "stores lists in remote write as sent with exported_ names, or omits them with a message that names the label",
  { timeout: 3_600_000 },
  async () => {
    const store = new VictoriaMetricsStore({ writeUrl: engine.writeUrl, queryUrl: engine.queryUrl });
    let refused = 0;
    for (const [from, lists] of batches(fc.sample(fc.tuple(list, fc.boolean()), { numRuns: LISTS, seed: 43 }))) {
      const metric = `write_${from}`;
      const accepted = new Map<number, Record<string, string>>();
      const series: TestSeries[] = [];
      for (const [at, [labels, isSorted]] of lists.entries()) {
        const all: Label[] = [["__name__", metric], ["id", String(at)], ...labels];
        const sent = isSorted ? all.toSorted(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b))) : all;
        const made = { labels: sent, samples: [[at, NOW] as const] };
        const keys = all.map(([key]) => key);
        const isBad = keys.some((key, index) => key === "" || keys.indexOf(key) < index);
        const renamed = all.map(([key, text]): Label => [key in FORCED && text !== "" ? freeName(key, keys) : key, text]);
        const found = checkWrite({
          body: writeBody([made, { labels: [["__name__", "good"]], samples: [[1, NOW]] }]),
          version: 1,
          limits: LIMITS,
        });
        expect(found.accepted, JSON.stringify(sent)).toBe(isBad ? 1 : 2);
        if (isBad) {
          expect(found.faults?.first[0], JSON.stringify(sent)).toMatch(
            /^timeseries\[0\]: (?:the label ".*" is given twice|label \d+ has no name)$/s,
          );
          refused += 1;
        } else {
          const { __name__: _name, ...rest } = stored(renamed);
          accepted.set(at, rest);
          series.push(made);
        }
      }
      const { bodies } = checkWrite({ body: writeBody(series), version: 1, limits: LIMITS });
      for (const body of bodies) await store.writeRequest(OWN, Buffer.from(body));
      await expectStored(metric, accepted);
    }
    expect(refused).toBeGreaterThan(LISTS / 10);
  },
);

/** Prometheus, too, repeats the prefix while another label has the name. */
function freeName(key: string, taken: readonly string[]): string {
  const name = `exported_${key}`;
  return taken.includes(name) ? freeName(name, taken) : name;
}

function batches<T>(all: readonly T[]): [number, T[]][] {
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, at) => [at, all.slice(at * BATCH, (at + 1) * BATCH)]);
}
