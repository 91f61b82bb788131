// Upgrades of the charts: `helm upgrade --reuse-values` renders the current templates with all values of an earlier version and none of the
// new defaults. Also fails if values change without a new version, because `helm history`, `helm diff` and GitOps would not show such a
// change.
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { CHARTS, currentValues, isSame, nextVersion, recordedValues } from "../../hack/chart-values.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { ROOT, temporaryFolder } from "../fixtures/processes.ts";

/** What an installation of any version had to set. */
const REQUIRED = { backend: [], "cluster-agent": ["backendUrl=https://b.example", "clusterName=north"] };

const EARLIER = CHARTS.flatMap((chart) => recordedValues(chart).map(({ version, values }) => ({ chart, version, values })));

describe("an upgrade with --reuse-values", () => {
  test.each(EARLIER)("renders $chart with the values of $version", async ({ chart, values }) => {
    using folder = temporaryFolder();
    const copy = join(folder.path, chart);
    mkdirSync(copy);
    cpSync(join(ROOT, "charts", chart), copy, { recursive: true });
    // The release's values take the place of the chart's defaults.
    writeFileSync(join(copy, "values.yaml"), JSON.stringify(values));
    const set = REQUIRED[chart].flatMap((value) => ["--set", value]);
    const run = await execa(await toolPath("helm"), ["template", "t", copy, "--namespace", "telemetry", ...set], { reject: false });
    expect(run.stderr).toBe("");
    expect(run.stdout).toContain("kind: ServiceAccount");
  });
});

function compare(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

describe("the version of a chart", () => {
  test.each(CHARTS)("of %s increases with each change of its values or their schema", (chart) => {
    const last = recordedValues(chart).at(-1);
    const current = currentValues(chart);
    expect(isSame(last, current), `values of ${chart} changed: run \`node hack/chart-values.ts\` and commit`).toBe(true);
    expect(compare(current.version, last?.version ?? "")).toBeGreaterThanOrEqual(0);
  });

  test("increases by a patch, and ends a pre-release", () => {
    expect([nextVersion("0.1.9"), nextVersion("0.2.0-rc.1")]).toEqual(["0.1.10", "0.2.0"]);
  });
});
