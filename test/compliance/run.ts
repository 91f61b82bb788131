// `npm run compliance -- [--only promql,remote-write,logql,otlp] [--compliance FOLDER] [--opentelemetry-proto FOLDER] [--prometheus
// PROGRAM]`: runs the tests that others publish for such a backend, and replaces their sections of
// docs/reference/compliance.md. The folders are checkouts of github.com/prometheus/compliance (promql, remote-write) and
// github.com/open-telemetry/opentelemetry-proto (otlp); PROGRAM is a Prometheus (Debian: `prometheus`). remote-write needs Go; logql builds
// Loki. It measures no times, so other load of the machine does not matter.
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { call, ROOT, temporaryFolder } from "../fixtures/processes.ts";
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
import { comparePromql, loadDemo, startPrometheus, startVictoriaMetrics, type Target } from "./promql.ts";
import { readCases } from "./promql-cases.ts";
import { runReceiverSuite } from "./remote-write.ts";

const SECTIONS = ["promql", "remote-write", "logql", "otlp"];
const { values } = parseArgs({
  options: {
    only: { type: "string", default: SECTIONS.join(",") },
    compliance: { type: "string", default: "compliance" },
    "opentelemetry-proto": { type: "string", default: "opentelemetry-proto" },
    prometheus: { type: "string", default: "prometheus" },
  },
});
const { compliance, "opentelemetry-proto": proto, prometheus } = values;
const sections = values.only.split(",");
if (!sections.every((section) => SECTIONS.includes(section))) {
  console.error(`--only takes some of ${SECTIONS.join(", ")}`);
  process.exit(1);
}
const PAGE = join(ROOT, "docs/reference/compliance.md");
/** Labels that the backend adds. */
const ADDED = ["host_id", "node", "org_id"];

using folder = temporaryFolder();
const place = await backendPlace(folder.path, { INGEST_TOKENS: "true" });
await using _backend = await startBackend(place);
const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "compliance");
const ingestToken = await createToken("ingest-tokens");
const commit = execFileSync("git", ["-C", ROOT, "rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();

const rendered: string[][] = [];
if (sections.includes("promql")) rendered.push(promqlSection(await runPromql()));
if (sections.includes("otlp")) rendered.push(otlpSection(commit, await sendExamples(place.apiUrl, ingestToken, join(proto, "examples"))));
if (sections.includes("remote-write")) {
  const tests = runReceiverSuite(join(compliance, "remotewrite/receiver"), place.apiUrl, ingestToken, folder.path);
  rendered.push(receiverSection(commit, tests));
}
if (sections.includes("logql")) rendered.push(logqlSection(commit, runLogql()));
writeFileSync(PAGE, rendered.reduce(replaceSection, readFileSync(PAGE, "utf8")));

async function createToken(kind: "ingest-tokens" | "read-tokens"): Promise<string> {
  const answer = await call("POST", `${place.apiUrl}/api/${kind}`, { bearer: tenant.token, body: { name: "compliance" } });
  if (answer.status !== 201) throw new Error(`${kind}: ${answer.status} ${answer.text}`);
  return String(answer.json.token);
}

async function runPromql(): Promise<PromqlComparison> {
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
    readToken: await createToken("read-tokens"),
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
