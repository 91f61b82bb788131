// Renders the sections of docs/reference/compliance.md: the results of third-party compliance tests.
import type { ExampleResult } from "./otlp-suite.ts";
import type { Difference, PromqlResult } from "./promql.ts";
import type { SuiteTest } from "./remote-write.ts";

export interface LogqlExample {
  readonly query: string;
  readonly outcome: string;
  readonly why?: string;
}

export interface PromqlComparison {
  readonly commit: string;
  /** Version of Prometheus. */
  readonly prometheus: string;
  /** How many queries each template has. */
  readonly variants: Readonly<Record<string, number>>;
  readonly ours: PromqlResult;
  /** The queries that the engine alone answers differently. */
  readonly engineDiffers: readonly string[];
}

const MAX_REASON = 160;

/** `page` with `section` instead of the section that has the same heading, or at the end. */
export function replaceSection(page: string, section: readonly string[]): string {
  const start = page.indexOf(`\n${section[0]}\n`) + 1 || page.length;
  const end = page.indexOf("\n## ", start) + 1 || page.length;
  return `${page.slice(0, start).trimEnd()}\n\n${section.join("\n").trim()}\n\n${page.slice(end)}`.trimEnd() + "\n";
}

export function promqlSection({ commit, prometheus, variants, ours, engineDiffers }: PromqlComparison): string[] {
  const { cases, differences } = ours;
  const score = (different: number): string => `${cases - different} of ${cases} (${(100 - (100 * different) / cases).toFixed(1)} %)`;
  const known = new Set(engineDiffers);
  const own = differences.filter(({ query }) => !known.has(query));
  return [
    "## PromQL",
    `This test runs the queries of promql-compliance-tester over 90 minutes of its demo metrics, and compares the results of AtherOps (commit ${commit}) with those of Prometheus ${prometheus}. As in the tester, results are equal if they have the same series and the same times, and values within 1e-5. Timestamps are aligned to the step, as the tester aligns them for VictoriaMetrics.`,
    "",
    "| | equal results |",
    "|---|---|",
    `| AtherOps | ${score(differences.length)} |`,
    `| VictoriaMetrics without AtherOps | ${score(engineDiffers.length)} |`,
    "",
    `Different only in AtherOps: ${own.map(({ query, why }) => `\`${query}\` (${reasonOf(why)})`).join("; ") || "nothing"}. All other differences also exist in VictoriaMetrics without AtherOps.`,
    "",
    "| query, with its variants | different | the first difference |",
    "|---|---|---|",
    ...[...Map.groupBy(differences, ({ template }) => template)].map(([template, found]) => {
      const count = `${found.length} of ${variants[template]}`;
      return `| \`${escapeCell(template)}\` | ${count} | ${firstOf(found)} |`;
    }),
    "",
    "VictoriaMetrics calculates `rate` and `increase` from the sample before the window, so series begin earlier. It does not store NaN. Some functions keep the metric name in VictoriaMetrics and drop it in Prometheus. AtherOps drops it in the most usual case, in which such a call is the whole expression and names its metric.",
    "",
  ];
}

function firstOf([first]: readonly Difference[]): string {
  return first ? escapeCell(reasonOf(first.why)) : "";
}

export function receiverSection(commit: string, tests: readonly SuiteTest[]): string[] {
  const count = (outcome: SuiteTest["outcome"]): number => tests.filter((one) => one.outcome === outcome).length;
  const others = tests.filter(({ outcome }) => outcome !== "pass");
  return [
    "## Remote write 2.0",
    `These are the results of AtherOps (commit ${commit}) in the receiver tests of remotewrite in github.com/prometheus/compliance: ${count("pass")} passed, ${count("fail")} failed, ${count("skip")} skipped.`,
    "",
    ...(others.length > 0 ? ["| test | outcome | message |", "|---|---|---|"] : []),
    ...[...Map.groupBy(others, ({ name }) => name.replace(/(?:_returns_204|#00)?\/atherops$/, ""))].map(([name, runs]) => {
      const [{ outcome, why }] = runs as [SuiteTest, ...SuiteTest[]];
      return `| ${escapeCell(name)} (${runs.length}) | ${outcome} | ${escapeCell(reasonOf(why))} |`;
    }),
    "",
  ];
}

export function logqlSection(commit: string, examples: readonly LogqlExample[]): string[] {
  const outcomes = [...Map.groupBy(examples, ({ outcome }) => outcome)].map(([outcome, found]) => `${found.length} ${outcome}`);
  const others = examples.filter(({ outcome }) => outcome === "different" || outcome === "rejected by AtherOps");
  return [
    "## LogQL",
    `This test sends the LogQL examples of Loki's documentation to AtherOps (commit ${commit}) and to a real Loki with the same records, as \`npm run bench -- logql\` does. Results of ${examples.length} examples: ${outcomes.join("; ")}. “Rejected by AtherOps” means that only AtherOps rejects the query, with a message that says why. See also [LogQL](logql.md#unsupported-elements).`,
    "",
    "| outcome | reason | examples | such as |",
    "|---|---|---|---|",
    ...[...Map.groupBy(others, ({ outcome, why = "" }) => `${outcome} | ${escapeCell(reasonOf(messageOf(why)))}`)].map(
      ([reason, found]) => `| ${reason} | ${found.length} | ${code(escapeCell(found[0]?.query.replaceAll(/\s+/g, " ") ?? ""))} |`,
    ),
    "",
  ];
}

export function otlpSection(commit: string, examples: readonly ExampleResult[]): string[] {
  return [
    "## OTLP",
    `This test sends the examples of opentelemetry-proto to AtherOps (commit ${commit}) as JSON, with an ingest token and the current time:`,
    "",
    "| example | status | not stored |",
    "|---|---|---|",
    ...examples.map(({ file, status, message }) => `| ${file} | ${status} | ${escapeCell(message)} |`),
    "",
  ];
}

export function reasonOf(why: string): string {
  return why.length > MAX_REASON ? `${why.slice(0, MAX_REASON)}…` : why;
}

/** The message of AtherOps without its advice. */
function messageOf(why: string): string {
  const [message = ""] = why.replace(/^ours: (?:query: )?/, "").split("; Loki: ");
  return /^.*? is not supported/.exec(message)?.[0] ?? message;
}

/** A code span; two backticks enclose a text that has one. */
function code(text: string): string {
  return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
}

/** In a cell of a table. */
export function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
