// Renders the sections of docs/reference/compliance.md about alerts, OpenMetrics and Jaeger.
import { ADAPTATIONS, type AlertGeneratorResult } from "./alert-generator.ts";
import type { JaegerTest } from "./jaeger.ts";
import { DIFFERENCES, type DifferenceKind, type GroupComparison } from "./message-changes.ts";
import { LENIENT, type OpenMetricsTest } from "./openmetrics.ts";
import { escapeCell, reasonOf } from "./page.ts";

export function alertmanagerSection(commit: string, version: string, groups: readonly GroupComparison[]): string[] {
  const kinds = (Object.keys(DIFFERENCES) as DifferenceKind[]).map((kind) => {
    const count = groups.filter(({ differences }) => differences.includes(kind)).length;
    return { kind, count };
  });
  return [
    "## Alertmanager",
    `This test sends the same alerts to a real Alertmanager ${version} and to AtherOps (commit ${commit}), with equivalent routes, and compares the webhooks that both send in 130 s: which groups, when, how often, and with which status, labels, annotations and times. The scenario (\`test/compliance/alertmanager-scenario.ts\`) has matchers of each kind, \`continue\`, several ways of grouping, an inhibition rule, mute and active time intervals, and silences that begin and end while alerts fire.`,
    "",
    `Both notified the same ${groups.length} groups; ${groups.filter(({ differences }) => differences.length === 0).length} of them without any difference. All new and resolved alerts that are not in the table were sent by both with the same contents, and at most one \`group_interval\` apart.`,
    "",
    "| difference | groups | reason |",
    "|---|---|---|",
    ...kinds.filter(({ count }) => count > 0).map(({ kind, count }) => `| ${kind} | ${count} | ${DIFFERENCES[kind]} |`),
    "",
    "| receiver | messages of Alertmanager | messages of AtherOps |",
    "|---|---|---|",
    ...groups.map(({ receiver, alertmanager, atherops }) => `| ${receiver} | ${alertmanager} | ${atherops} |`),
    "",
  ];
}

export function alertGeneratorSection(commit: string, { groups, passed, failed }: AlertGeneratorResult): string[] {
  return [
    "## Alert generator",
    `These are the results of AtherOps (commit ${commit}) in the tests of alert_generator in github.com/prometheus/compliance, which compare the rules, the alerts, the series \`ALERTS\` and the alerts that vmalert sends for 40 minutes: ${passed.length} of ${groups.length} rule groups passed.`,
    "",
    ...(failed.size > 0 ? ["| rule group | first message |", "|---|---|"] : []),
    ...[...failed].map(([name, why]) => `| ${name} | ${escapeCell(reasonOf(why))} |`),
    ...(failed.size > 0 ? [""] : []),
    "`NewAlerts_OrderCheck` has a rule that reads the series `ALERTS` of the rule before it. Prometheus evaluates the rules of a group one after the other and stores `ALERTS` in between; vmalert evaluates two rules of an organisation at a time and writes `ALERTS` in the background, so the second rule fires one evaluation later.",
    "",
    "The tests run with these adaptations:",
    ...ADAPTATIONS.map((adaptation) => `- ${adaptation}`),
    "",
  ];
}

export function openMetricsSection(commit: string, tests: readonly OpenMetricsTest[]): string[] {
  const valid = tests.filter(({ isValid }) => isValid);
  const refused = valid.filter(({ isAccepted }) => !isAccepted);
  const invalid = tests.filter(({ isValid }) => !isValid);
  const lenient = invalid.filter(({ isAccepted }) => isAccepted);
  const groups = LENIENT.map(([expression, reason]) => ({ reason, found: lenient.filter(({ name }) => expression.test(name)) }));
  const unexplained = lenient.filter(({ name }) => !LENIENT.some(([expression]) => expression.test(name)));
  return [
    "## OpenMetrics",
    `This test sends the texts of the parser tests of github.com/prometheus/OpenMetrics to \`POST /ingest\` of AtherOps (commit ${commit}). Of ${valid.length} valid texts, ${valid.length - refused.length} are accepted; of ${invalid.length} invalid ones, ${invalid.length - lenient.length} are rejected. \`POST /ingest\` reads samples of both text formats and stores them without types, so it accepts more than a parser of OpenMetrics:`,
    "",
    "| invalid texts that are accepted | number | reason |",
    "|---|---|---|",
    ...groups.map(({ reason, found }) => `| ${namesOf(found)} | ${found.length} | ${reason} |`),
    ...(unexplained.length > 0 ? [`| ${namesOf(unexplained)} | ${unexplained.length} | not expected |`] : []),
    ...refused.map(({ name, answer }) => `| ${name} is valid and rejected | 1 | ${escapeCell(reasonOf(answer))} |`),
    "",
  ];
}

function namesOf(tests: readonly OpenMetricsTest[]): string {
  return [...new Set(tests.map(({ name }) => name.replace(/_\d+$/, "")))].join(", ");
}

export function jaegerSection(commit: string, tests: readonly JaegerTest[]): string[] {
  const failed = tests.filter(({ why }) => why !== undefined);
  return [
    "## Jaeger",
    `These are the tests of Jaeger's storages (github.com/jaegertracing/jaeger, internal/storage/integration) over HTTP: AtherOps (commit ${commit}) receives their traces as OTLP and returns them through Jaeger's API v3. ${tests.length - failed.length} of ${tests.length} passed. All fields of the spans are compared; attributes of the resource count as those of the span, and values as text, as [the contract](../contract.md#jaeger) describes. \`GetDependencies\` and the sampling store have no writer in an API, so they are not tested; \`backend/storage/traces/jaeger.engine.test.ts\` and \`jaeger-v3.engine.test.ts\` test the requests of Jaeger's UI and of Grafana.`,
    "",
    "| test | result |",
    "|---|---|",
    ...failed.map(({ name, why = "" }) => `| ${escapeCell(name)} | ${escapeCell(reasonOf(why))} |`),
    "",
    "- A trace has at most 10,000 spans in a response, and a warning if it has more; `GetLargeTrace` has 10,008.",
    "- All others search for attributes of events, links or scopes. AtherOps searches only the attributes of spans and resources.",
    "",
  ];
}
