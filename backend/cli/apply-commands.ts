// `atherops apply` and `atherops export`: write all of an organisation's alerting, dashboards, saved views and trusted issuers from files to the backend,
// and back. Invariants: all files are read and validated before anything is changed; changes that a failed run did not make are made by the
// next run.
import type { Command } from "commander";
import { type Change, type Kind, planChanges, readSections, type Resource, type Sections, formatYaml } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";
import { readInput } from "./text-files.ts";
import { Missing, TemporaryProblem, Problem, WrongUsage } from "./cli-error.ts";
import { collect } from "./named-resources.ts";
import type { Console } from "./output.ts";
import { dashboardKind, viewKind } from "./dashboards.ts";
import { channelKind } from "./channel-kind.ts";
import { issuerKind } from "./issuer-commands.ts";
import { inhibitRuleKind, timeIntervalKind } from "./named-settings.ts";
import { routeKind } from "./notification-routes.ts";
import { ruleKind } from "./rule-command.ts";
import { silenceKind } from "./silences.ts";
import { sloKind } from "./slo-commands.ts";
import { cell, type Row, visible } from "./text-table.ts";

/** Resource kinds in order of dependency. */
const KINDS: readonly Kind[] = [
  channelKind,
  timeIntervalKind,
  routeKind,
  inhibitRuleKind,
  ruleKind,
  sloKind,
  silenceKind,
  dashboardKind,
  viewKind,
  issuerKind,
];

const HELP = `
A file has a list for each kind of resource. Resources that are in no file stay unchanged, unless --prune is given. A second run makes no
changes. \`routes:\` is the complete, ordered list: routes that are not in it are removed, except the default route.

  channels:
    - name: on-call
      kind: pagerduty                   # webhook, slack, msteams, pagerduty, opsgenie or email
      settings: {routing_key_file: pagerduty-key}   # webhook: url; slack, msteams: url_file; opsgenie: api_key_file; email: to
                                        # custom text, not for a webhook: title, text
      heartbeat: 1d                     # a missing heartbeat means that alerting is down; default never
  routes:
    - matchers: [severity="critical"]   # an alert must match all: =, !=, =~, !~
      channels: [on-call]
      group_by: [alertname]             # default; also group_wait, group_interval, repeat_interval, continue,
                                        # mute_time_intervals, active_time_intervals
    - default: true                     # takes unmatched alerts
      channels: []
  time_intervals:
    - name: nights
      time_intervals: [{times: [{start_time: "22:00", end_time: "24:00"}], weekdays: ["monday:friday"], location: Europe/Berlin}]
  inhibit_rules:
    - name: cluster down
      source_matchers: [alertname="ClusterDown"]    # while it fires, targets with the same cluster are not sent
      target_matchers: [alertname="NodeDown"]
      equal: [cluster]
  silences:
    - matchers: [instance=~"db-.*"]
      ends_at: 2026-12-01T06:00:00Z     # silences that have ended are ignored
      comment: the database moves
  rules:
    - name: HostMemoryLow
      severity: critical                # critical, warning or info
      expr: system_memory_available_bytes < 5e8
      for: 5m                           # how long expr must be true; default 0s
      labels: {team: shop}              # default none
      annotations:
        summary: "{{ $labels.instance }} has {{ $value | humanize }} left"
    - name: CheckoutErrors
      severity: warning
      logs: {filter: {source: checkout, level: error}, window: 5m, by: [node], operator: ">", threshold: 20}
  slos:                                 # or documents of OpenSLO v1
    - name: Checkout availability
      objective: 99.9                   # percent of good events
      window: 30d                       # 7d, 28d, 30d, 90d or month
      indicator: {availability: {service: checkout}}   # or latency, promql, logs: docs/slo.md
  dashboards:
    - name: Checkout
      variables: [{name: node, query: group by (node) (up), label: node}]
      panels:
        - title: Errors
          kind: timeseries              # or stat, table, list, text
          source: logs                  # or metrics (PromQL), traces (attributes)
          width: 6                      # columns of 12
          queries: [{query: 'source:checkout level:error'}]
  views:
    - {name: Errors of checkout, address: '#/logs?q=source:checkout+level:error'}
  issuers:
    - name: prod                        # optional: audience, jwks
      issuer: https://token.actions.githubusercontent.com
      rules: [{claims: {repository: example/shop}, permit: send, signals: [metrics]}]

Examples:
  atherops export > alerting.yaml                  the current resources
  atherops apply -f alerting.yaml --dry-run        what would change
  atherops apply -f rules.yaml -f - < more.yaml    several files, or standard input
  atherops apply -f alerting.yaml --prune          also remove resources that are in no file, for the kinds in the files`;

interface ApplyOptions {
  file: string[];
  dryRun?: boolean;
  prune?: boolean;
}

export function addApplyCommands(program: Command, console: Console): void {
  const sections = KINDS.map(({ section }) => section);
  program
    .command("apply")
    .description(`apply files to your organisation's ${sections.join(", ")}, and print the changes`)
    .requiredOption("-f, --file <file>", "YAML file, or - for standard input; repeatable", collect, [])
    .option("--dry-run", "print the changes without making them")
    .option("--prune", "also remove resources that are in no file, for the kinds in the files")
    .addHelpText("after", HELP)
    .action(async (options: ApplyOptions) => await apply(console, options));
  program
    .command("export")
    .description("print your organisation's alerting, dashboards, saved views and trusted issuers as YAML for apply")
    .argument("[sections...]", `of ${sections.join(", ")}; default all`)
    .addHelpText("after", "\nExamples:\n  atherops export > alerting.yaml\n  atherops export rules | less")
    .action(async (requested: string[]) => await exportAll(console, requested));
}

async function apply(console: Console, { file: files, dryRun = false, prune = false }: ApplyOptions): Promise<void> {
  const sections: Sections = new Map();
  for (const file of files) readSections(file, await readInput(file, console.world.stdin), KINDS, sections);
  if (sections.size === 0)
    throw new Problem(`nothing to apply: a file has sections such as \`${KINDS[0]?.section}:\`; \`atherops apply --help\` shows one`);
  const client = console.client();
  const changes: Change[] = [];
  for (const kind of KINDS) {
    const desired = sections.get(kind.section);
    if (desired) changes.push(...planChanges(kind, desired, await kind.list(client), { prune }));
  }
  await validateAll(client, changes);
  // Resources that others refer to are created first and removed last.
  const ordered = [
    ...changes.filter(({ action }) => action !== "remove"),
    ...changes.filter(({ action }) => action === "remove").toReversed(),
  ];
  if (!dryRun) for (const change of ordered) report(console, change, DONE_VERBS, await execute(client, change));
  else for (const change of ordered) report(console, change, DRY_RUN_VERBS);
  printSummary(console, changes, dryRun);
}

/** Throws one Problem that lists all resources that the backend would reject. */
async function validateAll(client: Client, changes: readonly Change[]): Promise<void> {
  const rejected: string[] = [];
  for (const change of changes) {
    if (change.action !== "create" && change.action !== "change") continue;
    const reason = await whyRejected(client, change.kind, change.resource);
    if (reason !== undefined) rejected.push(`${change.kind.noun} ${visible(change.name)}: ${reason}`);
  }
  if (rejected.length > 0) throw new Problem(`nothing was changed, because the backend would reject:\n  ${rejected.join("\n  ")}`);
}

async function whyRejected(client: Client, kind: Kind, resource: Resource): Promise<string | undefined> {
  try {
    return await kind.validate?.(client, resource);
  } catch (error) {
    if (!(error instanceof Problem) || error instanceof TemporaryProblem) throw error;
    return error.message;
  }
}

/** A secret that the backend returns only when it creates the resource. */
function secretText({ signing_secret: secret }: Row): string | undefined {
  return typeof secret === "string" ? `signing secret, not shown again: ${secret}` : undefined;
}

/** Returns text that is shown only once. */
async function execute(client: Client, change: Change): Promise<string | undefined> {
  const { kind, action, name } = change;
  try {
    if (action === "create") return secretText(await kind.create(client, change.resource));
    if (action === "change") await kind.replace(client, change.id, change.resource);
    if (action === "remove") await kind.remove(client, change.id);
    return undefined;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new Problem(`${kind.noun} ${visible(name)}: ${error.message}; the changes above were made: fix the problem and run apply again`);
  }
}

const DONE_VERBS = { create: "created", change: "changed", remove: "removed", none: "unchanged" } as const;
const DRY_RUN_VERBS = { create: "would be created", change: "would change", remove: "would be removed", none: "unchanged" } as const;

function report(console: Console, change: Change, verbs: Readonly<Record<Change["action"], string>>, shownOnce?: string): void {
  const { kind, name, action } = change;
  const fields = action === "change" ? change.fields : [];
  if (console.json) {
    const more = { ...(action === "change" && { fields }), ...(shownOnce !== undefined && { shown_once: shownOnce }) };
    return console.lines([{ kind: kind.noun, name, action, ...more }]);
  }
  const lines = [
    `${kind.noun} ${visible(name)} ${verbs[action]}`,
    ...(shownOnce === undefined ? [] : [`  ${shownOnce}`]),
    ...fields.map(({ field, from, to }) => `  ${visible(field)}: ${cell(from)} -> ${cell(to)}`),
  ];
  console.world.stdout.write(`${lines.join("\n")}\n`);
}

function printSummary(console: Console, changes: readonly Change[], dryRun: boolean): void {
  const count = (wanted: Change["action"]) => changes.filter(({ action }) => action === wanted).length;
  const [create, change, remove] = dryRun ? ["to create", "to change", "to remove"] : ["created", "changed", "removed"];
  const counts = `${count("create")} ${create}, ${count("change")} ${change}, ${count("remove")} ${remove}, ${count("none")} unchanged`;
  console.note(dryRun ? `${counts}; nothing was changed (--dry-run)` : counts);
}

async function exportAll(console: Console, requested: readonly string[]): Promise<void> {
  for (const section of requested)
    if (!KINDS.some((kind) => kind.section === section))
      throw new WrongUsage(`unknown section ${section}: known sections are ${KINDS.map((kind) => kind.section).join(", ")}`);
  const client = console.client();
  const sections: Record<string, Resource[]> = {};
  for (const kind of KINDS) {
    if (requested.length > 0 && !requested.includes(kind.section)) continue;
    try {
      sections[kind.section] = (await kind.list(client))
        .filter(({ isGenerated }) => !isGenerated)
        .map(({ resource }) => kind.toFile?.(resource) ?? resource);
    } catch (error) {
      // A backend of an earlier version does not know all kinds.
      if (!(error instanceof Missing) || requested.length > 0) throw error;
      console.note(`this backend has no ${kind.section}`);
    }
  }
  if (console.json) console.lines([sections]);
  else console.world.stdout.write(formatYaml(sections));
}
