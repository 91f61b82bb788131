// `atherops rules`: manages alert rules, one at a time. Invariants: a rule is identified by name or id; an update changes only the given
// fields.
import { type Command, Option } from "commander";
import { type Resource, formatYaml } from "./alerting-file.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import { addRemovalByName, addSwitches, findExisting, collect } from "./named-resources.ts";
import { type LogConditionOptions, parseLogCondition, ruleKind, RULES, SEVERITIES, validateRule, withLogOptions } from "./rule-command.ts";
import type { Console } from "./output.ts";
import { rowLimit, sinceStart } from "./query-rows.ts";
import { type Row, truncate } from "./text-table.ts";

interface RuleOptions extends LogConditionOptions {
  name?: string;
  expr?: string;
  severity?: string;
  for?: string;
  label?: string[];
  annotation?: string[];
  disabled?: boolean;
}

const CREATE_EXAMPLES = `
The expression is PromQL with a comparison. The rule fires for each series that meets it. Examples:
  atherops rules check 'system_memory_available_bytes < 5e8'
  atherops rules create HostMemoryLow --severity critical --for 5m --expr 'system_memory_available_bytes < 5e8' \\
    --label team=shop --annotation summary='{{ $labels.instance }} has {{ $value | humanize }} bytes left'

A rule can also count log records, with the filters of /query/logs:
  atherops rules create CheckoutErrors --logs '> 20 in 5m' --where source=checkout --where level=error --where q='time out' \\
    --by label.k8s.pod.name --annotation summary='{{ $labels.k8s_pod_name }} has {{ $value }} errors'

\`atherops apply --help\` shows how to keep rules in a file.`;

/** Maximum characters in a list; `rules show` prints all. */
const SHOWN_EXPRESSION = 120;

export function addRuleCommands(program: Command, console: Console): void {
  const rules = program.command("rules").description("alert rules: conditions on metrics and logs");
  rules
    .command("list", { isDefault: true })
    .description("all rules with their current state")
    .action(async () => await list(console));
  rules
    .command("show <rule>")
    .description("a rule (by name or id) as YAML, as `atherops apply` reads it")
    .action(async (rule: string) => {
      const { resource } = await findExisting(ruleKind, console.client(), rule);
      if (console.json) console.lines([resource]);
      else console.world.stdout.write(formatYaml({ rules: [resource] }));
    });
  withLogOptions(rules.command("check [expression]"))
    .description("validate an expression or a log condition, and print how many series currently meet it")
    .action(async (expr: string | undefined, options: LogConditionOptions) => {
      const logs = parseLogCondition(options);
      if ((expr === undefined) === (logs === undefined)) throw new WrongUsage("specify an expression, such as 'up == 0', or --logs");
      const result = await validateRule(console.client(), logs ? { logs } : { expr });
      if (!result.valid) throw new Problem(result.message ?? "the backend would reject it");
      const { matching_series: count = 0 } = result;
      console.result(String(count), "valid; number of series that meet the condition now:", result);
    });
  addChanges(rules, console);
  addReads(rules, console);
}

function addChanges(rules: Command, console: Console): void {
  withRuleOptions(rules.command("create <name>").description("create a rule"))
    .option("--disabled", "do not evaluate it yet")
    .addHelpText("after", CREATE_EXAMPLES)
    .action(async (name: string, options: RuleOptions) => {
      if (options.expr === undefined && options.logs === undefined)
        throw new WrongUsage("--expr: is missing: a condition such as 'up == 0', or --logs '> 20 in 5m'");
      const body = applyOptions({ name, severity: "warning", for: "0s", enabled: !options.disabled, labels: {}, annotations: {} }, options);
      const created = await console.call<Row>("POST", RULES, { body });
      console.result(String(created["id"]), `rule ${name} created`, created);
    });
  withRuleOptions(rules.command("update <rule>").description("change the given options of a rule (name or id)"))
    .option("--name <name>", "new name")
    .addHelpText(
      "after",
      `
Changes only the given labels and annotations. --where and --by replace all previous values: --where '' counts all records, --by '' counts
them together.

Examples:
  atherops rules update HostMemoryLow --for 10m
  atherops rules update HostMemoryLow --label team=
  atherops rules update CheckoutErrors --by ''`,
    )
    .action(async (rule: string, options: RuleOptions) => {
      if (Object.keys(options).length === 0) throw new WrongUsage("nothing to change: see `atherops rules update --help` for the options");
      const { id, name, resource } = await findExisting(ruleKind, console.client(), rule);
      await console.call("PUT", `${RULES}/${id}`, { body: applyOptions(resource, options) });
      console.note(`rule ${name} changed`);
    });
  addSwitches(rules, console, ruleKind, {
    enable: "evaluate a rule (by name or id)",
    disable: "stop evaluating a rule (by name or id)",
  });
  addRemovalByName(rules, console, ruleKind, "remove a rule (by name or id); its alerts resolve");
}

function addReads(rules: Command, console: Console): void {
  rules
    .command("status <rule>")
    .description("the live state of a rule (by name or id)")
    .action(async (rule: string) => {
      const { id } = await findExisting(ruleKind, console.client(), rule);
      console.print([await console.call<Row>("GET", `${RULES}/${id}/status`)], ["state", "active_alerts", "last_eval", "error"]);
    });
  rules
    .command("history <rule>")
    .description("when a rule (by name or id) was pending or firing, newest first")
    .option("--since <duration>", "how far back, such as 15m, 24h, 7d", "24h")
    .addOption(new Option("--limit <rows>", "maximum number, up to 500").default("100", "100"))
    .action(async (rule: string, { since, limit }: { since: string; limit: string }) => {
      const query = { start: sinceStart(since), limit: String(rowLimit(limit)) };
      const { id } = await findExisting(ruleKind, console.client(), rule);
      console.print(await console.call<Row[]>("GET", `${RULES}/${id}/history`, { query }), ["state", "start", "end", "labels"]);
    });
}

function withRuleOptions(command: Command): Command {
  return withLogOptions(command.option("--expr <expression>", "PromQL with a comparison, such as 'up == 0'"))
    .addOption(new Option("--severity <severity>", "default of a new rule: warning").choices(SEVERITIES))
    .option("--for <duration>", "how long the expression must hold, such as 5m; default of a new rule: 0s")
    .option("--label <key=value>", "added to every alert; without a value: removed; repeatable", collect)
    .option("--annotation <key=value>", "text for people, such as summary=…; repeatable", collect);
}

function applyOptions(resource: Resource, options: RuleOptions): Resource {
  const { name, expr, severity, for: duration, label = [], annotation = [] } = options;
  const logs = parseLogCondition(options, resource["logs"]);
  if (expr !== undefined && logs) throw new WrongUsage("--expr and --logs: a rule has one of them");
  const changes = { name, expr, logs, severity, for: duration };
  const { expr: _expr, logs: _logs, ...rest } = resource;
  return {
    // A rule on logs can become a rule on metrics, and vice versa.
    ...(expr !== undefined || logs ? rest : resource),
    ...Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)),
    labels: changedPairs("--label", resource["labels"], label),
    annotations: changedPairs("--annotation", resource["annotations"], annotation),
  };
}

function changedPairs(option: string, current: unknown, changes: readonly string[]): object {
  const all = new Map(Object.entries(current as Record<string, string>));
  for (const pair of changes) {
    const at = pair.indexOf("=");
    if (at < 1) throw new WrongUsage(`${option} ${pair}: write it as key=value`);
    if (at === pair.length - 1) all.delete(pair.slice(0, at));
    else all.set(pair.slice(0, at), pair.slice(at + 1));
  }
  return Object.fromEntries(all);
}

/** Shows states as the evaluator reports them; none if it is unavailable, so that the list still works. */
async function list(console: Console): Promise<void> {
  const client = console.client();
  const rows = await client.call<Row[]>("GET", RULES);
  const live = await client
    .call<{ data: { groups: { rules: Row[] }[] } }>("GET", "/alerting/prometheus/api/v1/rules", { query: { exclude_alerts: "true" } })
    .catch((error: unknown) => {
      if (!(error instanceof Problem)) throw error;
      console.note(`rule states are unavailable: ${error.message}`);
      return { data: { groups: [] } };
    });
  const states = new Map(live.data.groups.flatMap((group) => group.rules).map((rule) => [rule["name"], rule["state"]]));
  const shown = rows.map((row): Row => ({ ...row, state: row["enabled"] === false ? "disabled" : states.get(row["name"]) }));
  const columns = ["name", "severity", "state", "for", "expr", "id"];
  console.print(shown, columns, (row) => ({ ...row, expr: truncate(String(row["expr"]), SHOWN_EXPRESSION) }));
}
