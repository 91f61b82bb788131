// Generates the reference pages from the code: settings from the table of each program, metrics from their declarations, limits from their
// files, LogQL from the tables of its parser.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { MetricObject } from "prom-client";
import { BOTH, CLUSTER, HOST } from "../agent/settings-table.ts";
import { SETTINGS_TABLE } from "../backend/settings-table.ts";
import { formatDuration } from "../common/duration.ts";
import type { Kind, Setting, Table } from "../common/settings-table.ts";
import type { AgentStatus } from "../agent/status/agent-status.ts";
import agentHelp from "../common/agent-metrics.json" with { type: "json" };
import { ownMetrics as agentRows } from "../agent/status/metrics.ts";
import { createOwnMetrics, READ_AT_SCRAPE } from "../backend/operations/own-metrics.ts";
import { INSTEAD_OF_ACTIONS, LANGUAGE_FUNCTIONS, REFUSED_ACTIONS, REFUSED_FUNCTIONS } from "../backend/query/loki/template.ts";
import { FUNCTIONS } from "../backend/query/loki/template-functions.ts";

export const AGENT_TABLE: Table = { ...BOTH, ...HOST, ...CLUSTER };
export const BACKEND_TABLE: Table = SETTINGS_TABLE;

/** One section per group. The column of chart values is omitted if no setting of the group has one. */
export function settingsSections(table: Table): string {
  const rows = Object.values(table);
  return [...new Set(rows.map((row) => row.group))]
    .map((title) => {
      const inGroup = rows.filter((row) => row.group === title);
      const hasValues = inGroup.some((row) => row.value !== undefined);
      const head = ["setting", "type and range", "default", ...(hasValues ? ["chart value"] : []), "meaning"];
      const lines = inGroup.map((row) => [
        code(row.name) + (row.isSecret ? " (secret)" : ""),
        typeText(row),
        defaultText(row),
        ...(hasValues ? [valueText(row)] : []),
        row.description,
      ]);
      return `\n## ${title}\n\n${[head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.map(cell).join(" | ")} |`).join("\n")}\n`;
    })
    .join("");
}

function typeText({ kind, unit }: Setting): string {
  return [kind.type, rangeText(kind), unit].filter(Boolean).join(", ");
}

function rangeText({ type, range = {} }: Kind<unknown>): string {
  const bound = (value: number): string => (type === "duration" ? formatDuration(value) : String(value));
  const { min, above, max, values } = range;
  return [
    values?.map(code).join(", "),
    min === undefined || (type === "duration" && min === 0) ? undefined : `at least ${bound(min)}`,
    above === undefined ? undefined : `above ${bound(above)}`,
    max === undefined ? undefined : `at most ${bound(max)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function defaultText({ isRequired, default: given = "" }: Setting): string {
  if (isRequired) return "required";
  if (typeof given === "string") return code(given);
  return Object.entries(given)
    .map(([profile, value]) => `${profile} agent: ${code(value)}`)
    .join("; ");
}

function valueText({ value = "", valueDefault }: Setting): string {
  return code(value) + (valueDefault === undefined ? "" : ` (default ${code(valueDefault)})`);
}

const code = (text: string): string => (text === "" ? "" : `\`${text}\``);
const cell = (text: string): string => text.replaceAll("|", String.raw`\|`);

// Lists the metrics that agent and backend expose about themselves. Invariant: the list comes from the code that counts
// (backend/operations/own-metrics.ts, agent/status/metrics.ts), never from a separate list.

export interface OwnMetric {
  readonly name: string;
  readonly type: string;
  readonly unit: string;
  readonly labels: readonly string[];
  readonly meaning: string;
}

export function backendMetrics(): OwnMetric[] {
  const ownMetrics = createOwnMetrics({ defaults: false });
  for (const name of Object.keys(READ_AT_SCRAPE)) ownMetrics.gauge(name as keyof typeof READ_AT_SCRAPE, () => 0);
  const declared = ownMetrics.registry.getMetricsAsArray() as (MetricObject & { labelNames: readonly string[] })[];
  return declared.map(({ name, help, type, labelNames: labels }) => ({
    name,
    type: String(type),
    unit: unitOf(name, help),
    labels,
    meaning: help,
  }));
}

export function agentMetrics(): OwnMetric[] {
  const found = new Map<string, OwnMetric>();
  for (const [name, , labels = {}] of agentRows(EVERYTHING)) {
    const meaning = agentHelp[name];
    found.set(name, { name, type: typeOf(name), unit: unitOf(name, meaning), labels: Object.keys(labels), meaning });
  }
  return [...found.values()];
}

function typeOf(name: string): string {
  return name.endsWith("_total") ? "counter" : "gauge";
}

/** As in Prometheus, the unit is part of the name; for a counter, what it counts. */
function unitOf(name: string, help: string): string {
  if (name.endsWith("_timestamp_seconds")) return "seconds since 1970";
  const unit = /_(?<unit>bytes|seconds|days)(?:_total)?$/.exec(name)?.groups?.["unit"];
  if (unit) return unit;
  if (/^[01] (?:while|if)\b/.test(help)) return "1 or 0";
  return /(?<counted>records|requests|restarts|queries|attempts|alerts)/.exec(name)?.groups?.["counted"] ?? "";
}

const counts = { accepted: 0, retried: 0, refused: 0, acceptedBytes: 0, splitLines: 0 };
const signal = { lastSuccess: null, lastError: null, failingSince: null, ...counts };
const of = { ...signal, droppedPoints: { any: 0 } };

/** An agent status with a value for each of its metrics. */
const EVERYTHING: AgentStatus = {
  program: "",
  version: "",
  startedAt: "",
  signals: [],
  clockSkewS: 0,
  identity: undefined,
  heartbeat: undefined,
  collector: undefined,
  telemetry: { metrics: of, logs: of, traces: of },
  logFiles: { open: 0, notRead: { any: 0 }, lost: { files: 0, bytes: 0 }, isFollowing: true, lastPassMs: 0, lastCollectorPassMs: 0 },
  logPolicies: { effective: {}, refused: {}, dropped: 0, rateLimitedBytes: { any: 0 } },
};

// The reference page of limits, generated from each folder's file of limits: name, value and the sentence above it.

const ROOT = dirname(import.meta.dirname);
/** Deeper files with such names contain types and functions. */
export const LIMIT_FILES = globSync(["agent/agent-limits.ts", "{backend,common}/*/*-limits.ts"], { cwd: ROOT }).toSorted();

export interface Limit {
  readonly name: string;
  readonly value: number | bigint;
  readonly reason: string;
  /** Its comment begins with `@internal`: not on the page, because users and operators do not plan with it. */
  readonly isInternal: boolean;
}

export async function readLimits(file: string): Promise<Limit[]> {
  const values = (await import(join(ROOT, file))) as Readonly<Record<string, number | bigint>>;
  const text = readFileSync(join(ROOT, file), "utf8");
  const comments = text.matchAll(/\/\*\*[\s*]+((?:(?!\*\/)[^])+?)\s*\*\/\nexport const (\w+)/g);
  const texts = new Map([...comments].map(([, comment = "", name = ""]) => [name, comment.replaceAll(/\s*\n\s*\*\s*/g, " ")]));
  const offset = (name: string): number => text.indexOf(`export const ${name} `);
  return Object.entries(values)
    .toSorted(([a], [b]) => offset(a) - offset(b))
    .map(([name, value]) => {
      const [, tag, reason = ""] = /^(@internal )?(.*)/.exec(texts.get(name) ?? "") ?? [];
      return { name, value, reason, isInternal: tag !== undefined };
    });
}

export async function limitsPage(): Promise<string> {
  const sections = await Promise.all(
    LIMIT_FILES.map(async (file) => {
      const limits = (await readLimits(file)).filter(({ isInternal }) => !isInternal);
      const rows = limits.map(({ name, value, reason }) => `| \`${name}\` | ${limitText(name, value)} | ${reason} |`);
      return `\n## ${dirname(file)}\n\n| limit | value | description |\n| --- | --- | --- |\n${rows.join("\n")}\n`;
    }),
  );
  return `# Limits
<!-- Generated from agent/agent-limits.ts and {backend,common}/*/*-limits.ts by \`npm run reference\`; change it there. -->

This page lists constant limits that are useful to know when you plan; it is not complete. Unless a description says otherwise, limits of what runs at the same time, waits or is kept in memory apply to one process. The [OpenAPI descriptions](../openapi.json) have further limits of single routes, and error messages usually name the limit that a request exceeds. Operators set others with the [settings of the backend](backend-settings.md) and [of the agent](agent-settings.md). [The contract](../contract.md#limits) lists the most important ones.
${sections.join("")}`;
}

function limitText(name: string, value: number | bigint): string {
  if (typeof value === "number" && name.includes("_BYTES")) return bytesText(value);
  if (typeof value === "number" && name.includes("_MS")) return formatDuration(value);
  if (typeof value === "number" && name.endsWith("_S")) return formatDuration(value * 1000);
  return value.toLocaleString("en-US");
}

const UNITS = Object.entries({ GiB: 2 ** 30, MiB: 2 ** 20, MB: 1_000_000, KiB: 2 ** 10 });

function bytesText(value: number): string {
  const [unit = "bytes", size = 1] = UNITS.find(([, bytes]) => value % bytes === 0) ?? [];
  return `${(value / size).toLocaleString("en-US")} ${unit}`;
}

const MADE_413 = /new (?:Api|Body)Error\(\s*"(?:body_|batch_)?too_large"(?!, \w+\.message)|\bthrow tooLarge\((?=["`])/g;
const CAUSE_OF_413 = new RegExp(`(?:${MADE_413.source}),?\\s*(?:"([^"]+)"|\`([^\`]+)\`)`, "g");

/** Every message of a 413, with the file that makes it. Throws for one that is made in another way. */
export async function causesOf413(): Promise<string> {
  const limits = new Map((await Promise.all(LIMIT_FILES.map(readLimits))).flat().map(({ name, value }) => [name, Number(value)]));
  const shown = (_: string, expression: string): string => {
    const [, name = "", isMib] = /^(\w+)( \/ 1024 \/ 1024)?$/.exec(expression) ?? [];
    const value = limits.get(name);
    return value === undefined ? "…" : (isMib ? value / 1024 / 1024 : value).toLocaleString("en-US");
  };
  const files = globSync("{agent,backend,common}/**/*.ts", { cwd: ROOT, exclude: ["**/*.test.ts", "**/node_modules/**"] }).toSorted();
  const rows = files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), "utf8");
    const messages = [...text.matchAll(CAUSE_OF_413)].map(
      ([, plain, template = ""]) => plain ?? template.replaceAll(/\$\{([^}]+)\}/g, shown),
    );
    if (messages.length !== [...text.matchAll(MADE_413)].length) throw new Error(`${file} makes a 413 whose message cannot be read`);
    return messages.map((message) => `| ${message} | \`${file}\` |`);
  });
  return `## Causes of a 413\nThe messages, with the files that create them. The backend sends them to clients, the agent to its collector. Over gRPC, the status is \`RESOURCE_EXHAUSTED\`.\n\n| message | file |\n|---|---|\n${[...new Set(rows)].join("\n")}\n`;
}

/** The page about LogQL: where a query is evaluated, and which template functions are supported or rejected. */
export function logqlPage(): string {
  const supported = [...LANGUAGE_FUNCTIONS, ...Object.keys(FUNCTIONS)].toSorted().map(code).join(", ");
  const functions = Object.entries(REFUSED_FUNCTIONS).map(([name, instead]) => `| ${code(name)} | ${instead} |`);
  const actions = REFUSED_ACTIONS.map((word) => `| ${code(`{{${word}}}`)} | ${INSTEAD_OF_ACTIONS} |`);
  return `# LogQL
<!-- Generated from backend/query/loki/{template-functions,template}.ts and hack/reference-pages.ts by \`npm run reference\`; change it there. -->

Example: \`curl -G -H "Authorization: Bearer $TOKEN" --data-urlencode 'query=sum by (level) (count_over_time({service_name="shop"} | json [5m]))' $URL/query/loki/loki/api/v1/query\`. [The contract](../contract.md#loki) lists routes, labels and limits.

## Where a query is evaluated
ClickHouse evaluates the selector of a query, and other parts if SQL can express them exactly: for example line filters with a text or a regular expression, filters that compare stored labels with a text, and range aggregations with \`json\`, \`logfmt\` or \`unwrap\` whose result has named labels, such as \`sum by (…)\`.

A sandbox process evaluates everything else, with a few seconds of CPU for a query, and at most 200,000 records and 128 MiB for each of its selectors; above that, the query fails with 400 \`query_too_expensive\`. Examples are \`regexp\`, \`pattern\`, \`line_format\` and \`label_format\` if the result depends on them, \`rate_counter\`, and range aggregations over lines that SQL might read differently, such as truncated JSON.

## Template functions
\`line_format\` and \`label_format\` accept Go templates with fields, variables, \`{{if}}\` and these functions:

${supported}

## Unsupported elements
A query with one of these elements of Loki 3.7 fails with 400 \`invalid_parameter\`.

| in a template | instead |
|---|---|
${[...functions, ...actions].join("\n")}

Outside templates: \`ip()\`, \`approx_topk\`, the experimental \`variants\`, an \`offset\` after a parser and \`unwrap\` (write it before the stages: \`{…} [5m] offset 1h | … | unwrap …\`), and label filters with only a space between them (write \`and\` or a comma).
`;
}
