// `npm run compliance -- [--only promql,remote-write,logql,otlp,openmetrics,jaeger,alertmanager,alert-generator] [--compliance FOLDER]
// [--opentelemetry-proto FOLDER] [--openmetrics FOLDER] [--jaeger FOLDER] [--prometheus PROGRAM]`: runs the tests that others publish for such
// a backend, and replaces their sections of docs/reference/compliance.md. The folders are checkouts of the repositories of these names;
// PROGRAM is a Prometheus (Debian: `prometheus`). remote-write and alert-generator need Go, alert-generator takes 40 minutes; logql builds Loki,
// alertmanager builds Alertmanager. It measures no times, so other load of the machine does not matter.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { toolPath } from "../../hack/fetch-tools.ts";
import { ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { runAlertGenerator } from "./alert-generator.ts";
import { runAlertmanager } from "./alertmanager.ts";
import { runJaeger } from "./jaeger.ts";
import { compareGroups } from "./message-changes.ts";
import { runOpenMetrics } from "./openmetrics.ts";
import { sendExamples } from "./otlp-suite.ts";
import {
  type LogqlExample,
  logqlSection,
  otlpSection,
  type PromqlComparison,
  promqlSection,
  receiverSection,
  replaceSection,
} from "./page.ts";
import { type Product, startProduct } from "./product.ts";
import { comparePromql, loadDemo, startPrometheus, startVictoriaMetrics, type Target } from "./promql.ts";
import { readCases } from "./promql-cases.ts";
import { runReceiverSuite } from "./remote-write.ts";
import { alertGeneratorSection, alertmanagerSection, jaegerSection, openMetricsSection } from "./suite-sections.ts";

using folder = temporaryFolder();
const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const newFolder = (name: string): string => {
  const path = join(folder.path, name);
  mkdirSync(path);
  return path;
};
/** Name → the function that runs the test and renders its section; each starts what it needs. */
const SECTIONS: Readonly<Record<string, () => Promise<string[]>>> = {
  promql: async () => await withProduct(async (product) => promqlSection(await runPromql(product))),
  otlp: async () =>
    await withProduct(async ({ place, ingestToken }) =>
      otlpSection(commit, await sendExamples(place.apiUrl, ingestToken, join(proto, "examples"))),
    ),
  "remote-write": async () =>
    await withProduct(async ({ place, ingestToken }) => {
      const suite = join(compliance, "remotewrite/receiver");
      return receiverSection(commit, runReceiverSuite(suite, place.apiUrl, ingestToken, folder.path));
    }),
  logql: async () => logqlSection(commit, runLogql()),
  openmetrics: async () =>
    await withProduct(async (product) =>
      openMetricsSection(commit, await runOpenMetrics(join(openmetrics, "tests/testdata/parsers"), product)),
    ),
  jaeger: async () =>
    await withProduct(async (product) =>
      jaegerSection(commit, await runJaeger(join(jaeger, "internal/storage/integration/fixtures"), product)),
    ),
  alertmanager: async () => {
    const version = execFileSync(await toolPath("alertmanager"), ["--version"], { encoding: "utf8" }).split(" ")[2] ?? "";
    return alertmanagerSection(commit, version, compareGroups(await runAlertmanager(newFolder("alertmanager"))));
  },
  "alert-generator": async () =>
    alertGeneratorSection(commit, await runAlertGenerator(join(compliance, "alert_generator"), newFolder("alert-generator"))),
};

const { values } = parseArgs({
  options: {
    only: { type: "string", default: Object.keys(SECTIONS).join(",") },
    compliance: { type: "string", default: "compliance" },
    "opentelemetry-proto": { type: "string", default: "opentelemetry-proto" },
    openmetrics: { type: "string", default: "OpenMetrics" },
    jaeger: { type: "string", default: "jaeger" },
    prometheus: { type: "string", default: "prometheus" },
  },
});
const { compliance, "opentelemetry-proto": proto, openmetrics, jaeger, prometheus } = values;
const names = values.only.split(",");
if (!names.every((name) => Object.hasOwn(SECTIONS, name))) {
  console.error(`--only takes some of ${Object.keys(SECTIONS).join(", ")}`);
  process.exit(1);
}
const PAGE = join(ROOT, "docs/reference/compliance.md");
/** Labels that the backend adds. */
const ADDED = ["host_id", "node", "org_id"];

for (const name of names) {
  const section = await SECTIONS[name]?.();
  if (section) writeFileSync(PAGE, replaceSection(readFileSync(PAGE, "utf8"), section));
}

async function withProduct<T>(run: (product: Product) => Promise<T>): Promise<T> {
  using own = temporaryFolder();
  await using product = await startProduct(own.path);
  return await run(product);
}

async function runPromql({ place, ingestToken, readToken }: Product): Promise<PromqlComparison> {
  const cases = readCases(readFileSync(join(compliance, "promql/promql-test-queries.yml"), "utf8"));
  await using reference = await startPrometheus(prometheus, join(folder.path, "prometheus"));
  await using engine = await startVictoriaMetrics(join(folder.path, "victoria-metrics"));
  const withoutTokens = ({ url }: { url: string }): Target => ({
    writeUrl: `${url}/api/v1/write`,
    writeToken: "",
    queryUrl: url,
    readToken: "",
    added: [],
  });
  const [expected, straight] = [withoutTokens(reference), withoutTokens(engine)];
  const product: Target = {
    writeUrl: `${place.apiUrl}/api/v1/write`,
    writeToken: ingestToken,
    queryUrl: `${place.apiUrl}/query/prometheus`,
    readToken,
    added: ADDED,
  };
  const endMs = await loadDemo([expected, straight, product]);
  const ours = await comparePromql(expected, product, cases, endMs);
  const engineOnly = await comparePromql(expected, straight, cases, endMs);
  const differing = new Set(ours.differences.map(({ template }) => template));
  const variants = Object.groupBy(
    cases.filter(({ template }) => differing.has(template)),
    ({ template }) => template,
  );
  return {
    commit,
    prometheus: execFileSync(prometheus, ["--version"], { encoding: "utf8" }).split(" ")[2] ?? "",
    variants: Object.fromEntries(Object.entries(variants).map(([template, of = []]) => [template, of.length])),
    ours,
    engineDiffers: engineOnly.differences.map(({ query }) => query),
  };
}

function runLogql(): LogqlExample[] {
  const out = join(folder.path, "logql.jsonl");
  const bench = spawnSync(process.execPath, [join(ROOT, "test/bench/logql.ts"), "--out", out], { stdio: ["ignore", "ignore", "inherit"] });
  if (bench.status === null || bench.status > 1) throw new Error(`the comparison with Loki ended with ${bench.status ?? bench.signal}`);
  const examples = readFileSync(out, "utf8").split("\n").filter(Boolean);
  return examples.map((line) => {
    const { query, outcome, why } = JSON.parse(line) as LogqlExample;
    return { query, outcome, ...(outcome !== "equal" && why !== undefined && { why }) };
  });
}
