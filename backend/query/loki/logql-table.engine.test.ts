// Runs scripts in the format of Loki's tests: records, queries, and Loki's results. Each query must return the same result, or be refused
// with a message that names the unsupported part. LOGQL_TESTS can name a folder with Loki's own scripts
// (pkg/logql/internal/logqltest/testdata).
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Evaluation, readScript, type ScriptRecord, seriesKey } from "../../../test/fixtures/logql-script.ts";
import { type LokiApp, type LokiOrg, openLokiApp } from "../../../test/fixtures/loki-app.ts";
import { logRecord, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const OWN = join(import.meta.dirname, "../../../test/vectors/logql");
const FOLDER = process.env["LOGQL_TESTS"] ?? OWN;
const EPOCH_NS = (BigInt(Math.floor(Date.now() / 3_600_000)) - 2n) * 3_600_000_000_000n;
/** Labels that records have in addition to those of a script. */
const MARK = "zz";
const REFUSED = /not supported|parse error|invalid line template/;
/** Expected outcomes of this repository's own scripts. */
const EXPECTED: Readonly<Record<string, object>> = { "shop.logqltest": { alike: 35, refused: 2, clashing: 0, otherwise: [] } };

let app: LokiApp;
beforeAll(async () => void (app = await openLokiApp()));
afterAll(() => app?.[Symbol.asyncDispose]());

it.each(readdirSync(FOLDER).filter((name) => name.endsWith(".logqltest")))(
  "%s: returns for each query what Loki does, or rejects it by name",
  async (name) => {
    const found = { alike: 0, refused: 0, clashing: 0, otherwise: [] as string[] };
    let org = await app.org();
    let clashes = false;
    for (const command of readScript(readFileSync(join(FOLDER, name), "utf8"))) {
      if (command.kind === "clear") [org, clashes] = [await app.org(), false];
      else if (command.kind === "load") {
        // A record has one value of a name here, whether it is a label of its stream or metadata.
        clashes ||= command.clashes;
        await load(org, command.records);
      } else if (clashes) found.clashing += 1;
      else {
        const problem = await problemOf(org, command.evaluation);
        if (problem === undefined) found.alike += 1;
        else if (problem === "refused") found.refused += 1;
        else found.otherwise.push(`${command.evaluation.query}: ${problem}`);
      }
    }
    console.log(name, JSON.stringify({ ...found, otherwise: found.otherwise.length }));
    expect(found).toEqual(FOLDER === OWN ? EXPECTED[name] : { ...found, otherwise: [] });
  },
);

async function load(org: LokiOrg, records: readonly ScriptRecord[]): Promise<void> {
  const attributes = ({ labels }: ScriptRecord) => labels.map(([key, value]) => stringAttribute(key, value));
  await org.send(
    records.map((one) => logRecord(EPOCH_NS + one.atNs, one.line, { severityText: MARK, attributes: attributes(one) })),
    MARK,
  );
}

/** Undefined: it is answered alike. */
async function problemOf(org: LokiOrg, evaluation: Evaluation): Promise<string | undefined> {
  const { query, fromNs, toNs, stepNs } = evaluation;
  const [start, end] = [EPOCH_NS + fromNs, EPOCH_NS + toNs].map(String) as [string, string];
  const answer =
    stepNs === undefined
      ? await org.get("query", { query, time: start })
      : await org.get("query_range", { query, start, end, step: String(Number(stepNs) / 1e9) });
  if (evaluation.fails) return answer.statusCode === 400 ? undefined : `${answer.statusCode}, Loki refuses it`;
  if (answer.statusCode !== 200) return REFUSED.test(answer.json().message) ? "refused" : answer.body.slice(0, 300);
  const got = seriesOf(answer.json().data, evaluation);
  const [wanted, given] = [[...evaluation.series], [...got]];
  const isAlike =
    wanted.length === given.length && wanted.every(([key, points]) => points.every((point, index) => isNear(point, got.get(key)?.[index])));
  const isInOrder = !evaluation.isOrdered || wanted.every(([key], index) => given[index]?.[0] === key);
  return isAlike && isInOrder && wanted.every(([key]) => got.has(key))
    ? undefined
    : `${JSON.stringify(given)} instead of ${JSON.stringify(wanted)}`;
}

type Data =
  | { readonly resultType: "scalar"; readonly result: readonly [number, string] }
  | {
      readonly resultType: "matrix" | "vector";
      readonly result: readonly { metric: Record<string, string>; value?: [number, string]; values?: [number, string][] }[];
    };

function seriesOf({ resultType, result }: Data, { fromNs, stepNs = 1_000_000_000n }: Evaluation): Map<string, (number | undefined)[]> {
  if (resultType === "scalar") return new Map([[seriesKey([]), [Number(result[1])]]]);
  const start = Number((EPOCH_NS + fromNs) / 1_000_000n) / 1000;
  return new Map(
    result.map(({ metric, value, values = value ? [value] : [] }) => {
      const own = Object.entries(metric).filter(([name, text]) => text !== MARK && name !== "host_id" && name !== "node");
      const points: (number | undefined)[] = [];
      for (const [second, text] of values)
        points[Math.round((second - start) / (Number(stepNs) / 1e9))] = Number(text.replace(/Inf$/, "Infinity"));
      return [seriesKey(own), points];
    }),
  );
}

function isNear(one: number | undefined, other: number | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return Object.is(one, other) || one === other || Math.abs(one - other) <= 1e-9 * Math.max(1, Math.abs(one));
}
