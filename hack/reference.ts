// Writes the pages that the sources decide: settings from the manuals at the top of {agent,backend}/settings.ts, error codes from
// errors.ts, the own metrics and the HTTP APIs from the code that makes them; and in docs/sizing.md what follows from its own figures.
// Invariant: what is written depends on the sources alone; reference.test.ts fails when a page differs.
//
//   npm run reference     writes the pages
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ERROR_CODES } from "../backend/errors.ts";
import { LOG_EVENTS } from "../common/log-events.ts";
import { agentMetrics, backendMetrics, type OwnMetric } from "./metrics-reference.ts";
import { openApiPages } from "./openapi.ts";
import { withReckoned } from "./sizing.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** One line of a manual: `names` share a default and a meaning. */
export interface Setting {
  readonly section: string;
  readonly names: readonly string[];
  readonly fallback: string;
  readonly meaning: string;
}

/** The settings in the first comment of `file`. Throws when a line of the manual cannot be read. */
export function manualOf(file: string): Setting[] {
  const [comment = ""] = readFileSync(join(ROOT, file), "utf8").split("\nimport ");
  const settings: Setting[] = [];
  let section = "";
  // What stands before the first empty line introduces the manual.
  for (const line of comment.slice(comment.indexOf("\n//\n") + 4).split("\n")) {
    const text = line.replace(/^\/\/ ?/, "");
    const entry = /^ {2}(?<names>[A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) {2,}(?:(?<fallback>\S.*?) {2,})?(?<meaning>\S.*)$/.exec(
      text,
    )?.groups;
    const last = settings.at(-1);
    if (entry) {
      const { names = "", fallback = "", meaning = "" } = entry;
      settings.push({ section, names: names.split(", "), fallback, meaning });
    } else if (/^ {30,}\S/.test(text) && last) {
      settings[settings.length - 1] = { ...last, meaning: `${last.meaning} ${text.trim()}` };
    } else if (/^ {2}[A-Z]/.test(text)) {
      throw new Error(`${file}: not a line of the manual (NAME  default  meaning, two blanks between): ${text}`);
    } else if (/^\S/.test(text)) section = text;
  }
  return settings;
}

/** Every page: path → text. */
export async function pages(): Promise<Record<string, string>> {
  return {
    "docs/reference/agent-settings.md": settingsPage(
      "Settings of the agent",
      "agent/settings.ts",
      "Read from the environment; `X_FILE` reads `X` from a file. All problems are told in one message, and the agent ends with 2. In a cluster the chart sets them from its values.",
    ),
    "docs/reference/backend-settings.md": settingsPage(
      "Settings of the backend",
      "backend/settings.ts",
      "Read from the environment; `X_FILE` reads `X` from a file. All problems are told in one message, and the backend ends with 2. With any external engine `MASTER_KEY` and `JWT_SECRET` are required; with `DATABASE_URL`, at the first start, `ADMIN_PASSWORD`.",
    ),
    "docs/reference/errors.md": errorsPage(),
    "docs/reference/log-events.md": logEventsPage(),
    "docs/reference/agent-metrics.md": metricsPage(
      "Own metrics of the agent",
      "agent/status/metrics.ts",
      "At `/metrics` of the health port (9598), for Prometheus. A metric without a value is left out. The collector's own (`otelcol_*`) follow them while it runs; its queue is `otelcol_exporter_queue_size` of `otelcol_exporter_queue_capacity`, in bytes, by `exporter`.",
      agentMetrics(),
    ),
    "docs/reference/backend-metrics.md": metricsPage(
      "Own metrics of the backend",
      "backend/operations/own-metrics.ts",
      "At `/metrics` of the health port (9090), for Prometheus. Labels have few values: never an organisation, a key or anything from a payload. Metrics of a role (`api`, `alerting`) are there where the role is. `process_*` and `nodejs_*` of the process come along.",
      backendMetrics(),
    ),
    "docs/sizing.md": withReckoned(readFileSync(join(ROOT, "docs/sizing.md"), "utf8")),
    ...(await openApiPages()),
  };
}

function settingsPage(title: string, file: string, intro: string): string {
  const settings = manualOf(file);
  const parts = [...new Set(settings.map((setting) => setting.section))].map((section) => {
    const rows = settings
      .filter((setting) => setting.section === section)
      .map(({ names, fallback, meaning }) => `| ${names.map((name) => `\`${name}\``).join(", ")} | ${code(fallback)} | ${cell(meaning)} |`);
    const heading = section === "" ? "" : `\n## ${section}\n`;
    return `${heading}\n| setting | default | meaning |\n|---|---|---|\n${rows.join("\n")}\n`;
  });
  return `# ${title}\n${GENERATED(file)}\n\n${intro}\n${parts.join("")}`;
}

function errorsPage(): string {
  const rows = Object.entries(ERROR_CODES).map(([name, [status, meaning]]) => `| ${status} | \`${name}\` | ${cell(meaning)} |`);
  const intro =
    'Every answer of 400 and above is `{"error": "<code>", "message": "<what is wrong and what to do>"}`. The list is closed. The Prometheus routes answer errors in Prometheus\' own form. "When" tells of a code; the message of an answer tells of its case. What can be done about a 503: [the contract](../contract.md#503-unavailable).';
  return `# Error codes\n${GENERATED("backend/errors.ts")}\n\n${intro}\n\n| status | code | when |\n|---|---|---|\n${rows.join("\n")}\n`;
}

function logEventsPage(): string {
  const rows = Object.entries(LOG_EVENTS).map(([event, [meaning, action]]) => `| \`${event}\` | ${cell(meaning)} | ${cell(action)} |`);
  const intro =
    "Logs are JSON lines. The field `event` identifies a message and stays the same when its text changes, so search for it: `jq 'select(.event == \"journal.torn_tail\")'`. Messages without `event` are not listed yet.";
  return `# Log events\n${GENERATED("common/log-events.ts")}\n\n${intro}\n\n| event | meaning | what to do |\n|---|---|---|\n${rows.join("\n")}\n`;
}

function metricsPage(title: string, file: string, intro: string, metrics: readonly OwnMetric[]): string {
  const rows = metrics.map(({ name, type, unit, labels, meaning }) => {
    const named = labels.map((label) => `\`${label}\``).join(", ");
    return `| \`${name}\` | ${type} | ${unit} | ${named} | ${cell(meaning)} |`;
  });
  const alerts = "Example alert rules: [alerts](../alerts/README.md).";
  return `# ${title}\n${GENERATED(file)}\n\n${intro} ${alerts}\n\n| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n${rows.join("\n")}\n`;
}

function GENERATED(file: string): string {
  return `<!-- Generated from ${file} by \`npm run reference\`; change it there. -->`;
}

function code(text: string): string {
  return text === ""
    ? ""
    : text
        .split(" | ")
        .map((one) => `\`${one}\``)
        .join(", ");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await pages())) {
    mkdirSync(dirname(join(ROOT, path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
}
