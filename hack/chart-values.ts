// The values of each version of the charts, in charts/<chart>/ci/earlier-values.json: `helm upgrade --reuse-values` brings them to newer
// templates, so test/contract/chart-values.test.ts renders all of them. A change of values.yaml or values.schema.json needs a new version.
//
//   node hack/chart-values.ts    raises the version of each chart whose values or schema changed, and records them
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

const CHARTS_FOLDER = join(dirname(dirname(fileURLToPath(import.meta.url))), "charts");
export const CHARTS = ["backend", "cluster-agent"] as const;

export interface RecordedValues {
  /**
   * Version of the chart. Versions from 0.1.0-1 on were not raised when the values changed; they are numbered in the order of their
   * commits.
   */
  readonly version: string;
  /** SHA-256 of values.schema.json; absent in records from before versions were raised. */
  readonly schema?: string;
  readonly values: Readonly<Record<string, unknown>>;
}

export function recordedValues(chart: string): RecordedValues[] {
  return JSON.parse(readFileSync(recordFile(chart), "utf8")) as RecordedValues[];
}

/** The values in the checkout. */
export function currentValues(chart: string): RecordedValues {
  const read = (name: string): string => readFileSync(join(CHARTS_FOLDER, chart, name), "utf8");
  const { version } = parse(read("Chart.yaml")) as { version: string };
  const schema = createHash("sha256")
    .update(JSON.stringify(JSON.parse(read("values.schema.json"))))
    .digest("hex");
  return { version, schema, values: parse(read("values.yaml")) as Record<string, unknown> };
}

export function isSame(one: RecordedValues | undefined, other: RecordedValues): boolean {
  return one?.schema === other.schema && JSON.stringify(one?.values) === JSON.stringify(other.values);
}

/** Also called for each release (hack/version.ts), whose appVersion is new. */
export function raiseVersion(chartFile: string): string {
  return chartFile.replace(/^version: (.*)$/m, (_, version: string) => `version: ${nextVersion(version)}`);
}

/** 0.1.3 becomes 0.1.4, and 0.2.0-rc.1 becomes 0.2.0. */
export function nextVersion(version: string): string {
  const [, core = "", patch = "", suffix] = /^(\d+\.\d+\.)(\d+)(-.*)?$/.exec(version) ?? [];
  return core + (suffix === undefined ? Number(patch) + 1 : patch);
}

/** Returns the new version; undefined if nothing has changed since the last record. */
function record(chart: string): string | undefined {
  const records = recordedValues(chart);
  const last = records.at(-1);
  const current = currentValues(chart);
  if (isSame(last, current)) return undefined;
  const version = nextVersion(current.version);
  const chartFile = join(CHARTS_FOLDER, chart, "Chart.yaml");
  writeFileSync(chartFile, raiseVersion(readFileSync(chartFile, "utf8")));
  const lines = [...records, { ...current, version }].map((entry) => JSON.stringify(entry));
  writeFileSync(recordFile(chart), `[\n${lines.join(",\n")}\n]\n`);
  return version;
}

function recordFile(chart: string): string {
  return join(CHARTS_FOLDER, chart, "ci", "earlier-values.json");
}

if (import.meta.main) {
  for (const chart of CHARTS) {
    const version = record(chart);
    console.log(version === undefined ? `${chart}: unchanged` : `${chart}: ${version}; now: npm test -- test/contract/charts.test.ts -u`);
  }
}
