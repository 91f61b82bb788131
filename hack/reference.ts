// Writes the pages that are generated from sources: settings from {agent,backend}/settings-table.ts, error codes from errors.ts, log events
// from common/log-events.json (levels: from the log calls), metrics and HTTP APIs from the code that declares them; the settings of the
// charts; and the calculated tables of docs/sizing.md. Invariant: the output depends only on the sources; reference.test.ts fails if a page differs.
//
//   npm run reference     writes the pages
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ERROR_CODES } from "../backend/errors.ts";
import logEvents from "../common/log-events.json" with { type: "json" };
import type { Table } from "../common/settings-table.ts";
import {
  AGENT_TABLE,
  agentMetrics,
  BACKEND_TABLE,
  backendMetrics,
  causesOf413,
  limitsPage,
  logqlPage,
  type OwnMetric,
  settingsSections,
} from "./reference-pages.ts";
import { buildApiTypes } from "./api-types.mjs";
import { chartSettings, withChartValues } from "./chart-settings.ts";
import { openApiPages } from "./openapi.ts";
import { withCalculatedTables } from "./sizing.ts";

const SETTINGS_INTRO =
  "Settings are environment variables. To read the value of `X` from a file, set `X_FILE` to the path of the file instead. Names in the tables that already end in `_FILE` are settings of their own, and contain a path. If settings are invalid, the program lists the problems in one message and exits with status 2. The program does not log secrets.";
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** Every page: path → text. */
export async function pages(): Promise<Record<string, string>> {
  return {
    "docs/reference/agent-settings.md": settingsPage(
      "Settings of the agent",
      "agent/settings-table.ts",
      "In a cluster, the chart sets those with a chart value; the tables list the chart's default if it differs.",
      AGENT_TABLE,
    ),
    "docs/reference/backend-settings.md": settingsPage(
      "Settings of the backend",
      "backend/settings-table.ts",
      "With any external engine, `MASTER_KEY` and `JWT_SECRET` are required. With `DATABASE_URL`, `ADMIN_PASSWORD` is required at the first start.",
      BACKEND_TABLE,
    ),
    "docs/reference/errors.md": `${errorsPage()}\n${await causesOf413()}`,
    "docs/reference/limits.md": await limitsPage(),
    "docs/reference/log-events.md": logEventsPage(),
    "docs/reference/logql.md": logqlPage(),
    "docs/reference/agent-metrics.md": metricsPage(
      "Metrics about the agent",
      "agent/status/metrics.ts",
      "The agent serves these metrics at `/metrics` of the health port (9598), in Prometheus' format. It leaves out metrics without a value. If the collector responds, the response also contains its own metrics (`otelcol_*`). `otelcol_exporter_queue_size` and `otelcol_exporter_queue_capacity` are the used and the total bytes of the collector's disk queues, by `exporter`.",
      agentMetrics(),
    ),
    "docs/reference/backend-metrics.md": metricsPage(
      "Metrics about the backend",
      "backend/operations/own-metrics.ts",
      "The backend serves these metrics at `/metrics` of the health port (9090), in Prometheus' format. Labels have few values, and never contain an organisation, a key or data from a payload. Metrics without a value, such as those of a role (`api`, `alerting`) that the process does not have, have no samples. The response also contains `process_*` and `nodejs_*` metrics.",
      backendMetrics(),
    ),
    ...chartFiles("cluster-agent", AGENT_TABLE),
    ...chartFiles("backend", BACKEND_TABLE),
    "docs/sizing.md": withCalculatedTables(readFileSync(join(ROOT, "docs/sizing.md"), "utf8")),
    ...(await openApiPages()),
  };
}

function chartFiles(chart: string, table: Table): Record<string, string> {
  const schema = `charts/${chart}/values.schema.json`;
  return {
    [`charts/${chart}/settings.json`]: chartSettings(table),
    [schema]: withChartValues(readFileSync(join(ROOT, schema), "utf8"), table),
  };
}

function settingsPage(title: string, file: string, intro: string, table: Table): string {
  return `# ${title}\n${generatedFrom(file)}\n\n${SETTINGS_INTRO} ${intro}\n${settingsSections(table)}`;
}

function errorsPage(): string {
  const rows = Object.entries(ERROR_CODES).map(([name, [status, meaning]]) => `| ${status} | \`${name}\` | ${cell(meaning)} |`);
  const intro =
    'Error responses of the API and the alerting service are `{"error": "<code>", "message": "<what is wrong and what to do>"}`, with one of these codes; with 429, 502 and 503, they have `Retry-After`. Some routes have the formats of their protocols, for example: [OTLP with ingest tokens](../contract.md#otlp-with-ingest-tokens) returns `google.rpc.Status` (in JSON with the field `error`), the Prometheus query routes (not `rules` and `alerts`) return 400, 422 and 503 in Prometheus\' format, `amtool` gets only the message of a 400, 404 or 500, [`POST /mcp`](../mcp.md) can return errors of JSON-RPC, and [single sign-on](../contract.md#single-sign-on) shows browsers a page. For a 503, see [the contract](../contract.md#503-unavailable). A 413 in none of these formats comes from a proxy between client and backend, such as an Ingress with `proxy-body-size`.';
  return `# Error codes\n${generatedFrom("backend/errors.ts")}\n\n${intro}\n\n| status | code | when |\n|---|---|---|\n${rows.join("\n")}\n`;
}

function logEventsPage(): string {
  const levels = logLevels();
  const rows = Object.entries<readonly string[]>(logEvents)
    .filter(([event]) => levels(event) !== "debug")
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([event, [meaning = "", action = ""]]) => `| \`${event}\` | ${levels(event)} | ${cell(meaning)} | ${cell(action)} |`);
  const intro =
    "Logs are JSON lines. The field `event` identifies a message and stays the same when its text changes, so search for it: `jq 'select(.event == \"journal.torn_tail\")'`. Events that are logged only at the level `debug` are not listed. Lines of the collector, which the agent logs with `component` `collector`, have no `event`; errors that end a program can be plain text.";
  return `# Log events\n${generatedFrom("common/log-events.json")}\n\n${intro}\n\n| event | level | meaning | what to do |\n|---|---|---|---|\n${rows.join("\n")}\n`;
}

/** Events that log calls take from a variable; all of these calls are warnings. */
const EVENTS_IN_VARIABLES = /^(?:log_files|tls\.certificate)[._]/;

/** Reads the levels of each event from the log calls. */
function logLevels(): (event: string) => string {
  const levels = new Map<string, Set<string>>();
  for (const file of globSync("{agent,backend,common}/**/*.ts", {
    cwd: ROOT,
    exclude: ["**/*.test.ts", "**/node_modules/**"],
  }).toSorted()) {
    const calls = readFileSync(join(ROOT, file), "utf8").matchAll(/\.(debug|info|warn|error|fatal)\(\s*\{\s*event: "([a-z_.]+)"/g);
    for (const [, level = "", event = ""] of calls) levels.set(event, (levels.get(event) ?? new Set()).add(level));
  }
  return (event) => {
    const found = [...(levels.get(event) ?? (EVENTS_IN_VARIABLES.test(event) ? ["warn"] : []))].toSorted();
    if (found.length === 0) throw new Error(`no log call has the event ${event}: remove its row, or add it to EVENTS_IN_VARIABLES`);
    return found.join(", ");
  };
}

function metricsPage(title: string, file: string, intro: string, metrics: readonly OwnMetric[]): string {
  const rows = metrics.map(({ name, type, unit, labels, meaning }) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${unit} | ${named} | ${cell(meaning)} |`;
  });
  const alerts = "Example alert rules: [alerts](../alerts/README.md).";
  return `# ${title}\n${generatedFrom(file)}\n\n${intro} ${alerts}\n\n| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n${rows.join("\n")}\n`;
}

function generatedFrom(file: string): string {
  return `<!-- Generated from ${file} by \`npm run reference\`; change it there. -->`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await pages())) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
  buildApiTypes();
}
