// MCP tools over metrics, alerts, changes and agents.
import { consoleAddress } from "../../client/console-address.ts";
import {
  type Ask,
  choice,
  count,
  RANGE,
  RouteError,
  type Row,
  routeTool,
  screenLink,
  short,
  shortFigures,
  text,
  type Tool,
} from "./tool.ts";

type Labels = Record<string, string>;

const PROMETHEUS = "/query/prometheus/api/v1";
const POINTS = 20;
const NAMES = 200;

interface Series {
  readonly metric: Labels;
  readonly value?: readonly [number, string];
  readonly values?: readonly (readonly [number, string])[];
}

async function askPrometheus<T>(ask: Ask, path: string, parameters: Parameters<Ask>[1]): Promise<T> {
  return ((await ask(`${PROMETHEUS}/${path}`, parameters)) as { data: T }).data;
}

/** Undefined for a reader with limits to values of labels, who sees alerts, but not rules. */
async function askRules(ask: Ask): Promise<Row[] | undefined> {
  return (await ask("/alerting/rules").catch((error: unknown) => {
    if (error instanceof RouteError && error.status === 403) return undefined;
    throw error;
  })) as Row[] | undefined;
}

/** What is wrong with agents: a description, and PromQL that returns a series for each agent concerned. */
const FLEET_PROBLEMS: readonly (readonly [string, string])[] = [
  ["silent: no metrics for 5 minutes", "last_over_time(atherops_agent_info[24h]) unless last_over_time(atherops_agent_info[5m])"],
  ["collector does not run", "last_over_time(atherops_agent_collector_running[5m]) == 0"],
  ["reports a failure", "last_over_time(atherops_agent_failing[5m]) > 0"],
  ["refuses its configuration", "last_over_time(atherops_agent_collector_config_refused[5m]) > 0"],
  ["identity problem", "last_over_time(atherops_agent_identity_problem[5m]) > 0"],
  ["clock differs by more than 60 s", "abs(last_over_time(atherops_agent_clock_skew_seconds[5m])) > 60"],
  ["requests are refused", "increase(atherops_agent_requests_refused_total[1h]) > 0"],
];

export const STATE_TOOLS: readonly Tool[] = [
  routeTool<{ changes: Row[]; missing: { part: string; reason: string }[] }>({
    name: "what_changed",
    title: "What changed",
    description:
      "Compares a range with one before it: services, logs, versions, clusters, resources, agents and alerts that changed, most important first. The first tool of every investigation.",
    parameters: {
      ...RANGE,
      compare_with: choice("the range before, or the same time yesterday or last week", ["before", "yesterday", "last_week"]),
      service: text("only changes of this service"),
      limit: count("changes", 50, 15),
    },
    route: (given, range) => ["/query/changes", { ...given, ...range }],
    answer: ({ changes, missing }) => {
      const without = missing.map(({ part, reason }) => ` Not compared: ${part} (${reason}).`).join("");
      const rows = changes.map(({ evidence: _evidence, subject: _subject, ...change }) => ({ ...change, score: short(change["score"]) }));
      return { summary: `${changes.length} changes, most important first.${without}`, rows };
    },
    link: ({ compare_with: comparedWith, service }, range) => screenLink("changes", { with: comparedWith, service }, range),
    narrow: "set service, or shorten since to the minutes around the problem.",
  }),
  {
    name: "query_metrics",
    title: "PromQL query",
    description:
      "Evaluates PromQL. With over_time=true, returns about 20 points of the range for each series, otherwise the values at its end.",
    parameters: {
      query: text("PromQL, such as sum by (k8s_node_name) (rate(container_cpu_usage_seconds_total[5m]))"),
      ...RANGE,
      over_time: { type: "boolean" },
    },
    required: ["query"],
    async run(ask, { query, over_time: isRange }, range) {
      const [start, end] = [Date.parse(range.start) / 1000, Date.parse(range.end) / 1000];
      const step = `${Math.max(15, Math.ceil((end - start) / POINTS))}s`;
      const [path, times] = isRange ? ["query_range", { start, end, step }] : ["query", { time: end }];
      const { result } = await askPrometheus<{ result: Series[] | [number, string] }>(ask, path, { query, ...times });
      const series = (result.length > 0 && typeof result[0] !== "object" ? [{ metric: {}, value: result }] : result) as Series[];
      const rows = series.map(({ metric, value, values }) => ({
        labels: metric,
        ...(value ? { value: value[1] } : { start: values?.[0]?.[0], step, values: values?.map(([, n]) => short(Number(n))) }),
      }));
      const narrow = "aggregate with sum by (label), or use topk(10, …).";
      return { summary: `${series.length} series.`, rows, link: screenLink("metrics", { q: query }, range), narrow };
    },
  },
  {
    name: "search_metrics",
    title: "Names and labels of metrics",
    description: "Names of metrics that contain a text; with metric, the labels of that metric and their values.",
    parameters: { contains: text("part of the name, such as memory"), metric: text("a whole name: lists its labels"), ...RANGE },
    async run(ask, { metric, contains = "" }, range) {
      const link = screenLink("metrics", { q: metric }, range);
      if (metric === undefined) {
        const part = contains.replaceAll(/[^\w:]/g, ".");
        const match = part === "" ? {} : { "match[]": `{__name__=~${JSON.stringify(`.*${part}.*`)}}` };
        const names = await askPrometheus<string[]>(ask, "label/__name__/values", { ...match, ...range, limit: NAMES });
        const rows = names.join(" ").slice(0, 16_000).split(" ");
        return { summary: `${names.length} names, at most ${NAMES}.`, rows, link, narrow: "set contains." };
      }
      const matched = { "match[]": `{__name__=${JSON.stringify(metric)}}`, ...range, limit: 1000 };
      const series = await askPrometheus<Labels[]>(ask, "series", matched);
      const pairs = series.flatMap(Object.entries<string>).filter(([name]) => name !== "__name__");
      const rows = [...Map.groupBy(pairs, ([name]) => name)].map(([label, all]) => {
        const values = new Set(all.map(([, value]) => value));
        return { label, values: values.size, examples: [...values].slice(0, 10) };
      });
      const narrow = "query_metrics with a label matcher.";
      return { summary: `${series.length} series with ${rows.length} labels.`, rows, link, narrow };
    },
  },
  {
    name: "list_alerts",
    title: "Alerts and rules",
    description: "Alerts that are pending or firing now, then the alert rules with their ids.",
    parameters: {},
    async run(ask) {
      const [{ alerts }, rules] = await Promise.all([
        askPrometheus<{ alerts: { labels: Labels; annotations: Labels; state: string; activeAt: string }[] }>(ask, "alerts", {}),
        askRules(ask),
      ]);
      const rows = [
        ...alerts.map(({ labels, annotations, state, activeAt }) => ({
          alert: labels["alertname"],
          state,
          since: activeAt,
          labels,
          annotations,
        })),
        ...(rules ?? []).map(({ id, name, severity, expr, enabled }) => ({ rule: name, id, severity, expr, enabled })),
      ];
      const summary = `${alerts.filter(({ state }) => state === "firing").length} firing, ${alerts.length} active alerts, ${rules?.length ?? "no visible"} rules.`;
      return { summary, rows, link: consoleAddress("alerts", { view: "firing" }), narrow: "alert_history shows one rule." };
    },
  },
  routeTool({
    name: "alert_history",
    title: "When a rule was firing",
    description: "The periods in which an alert rule was pending or firing, newest first.",
    parameters: { rule_id: text("id of the rule, from list_alerts"), ...RANGE, since: { ...RANGE.since, default: "24h" } },
    required: ["rule_id"],
    route: ({ rule_id: id = "" }, range) => [`/alerting/rules/${encodeURIComponent(id)}/history`, { ...range }],
    answer: (rows) => ({ summary: `${rows.length} periods.`, rows }),
    link: ({ rule_id: id }) => consoleAddress("alerts", { rule: id }),
    narrow: "shorten since.",
  }),
  {
    name: "slos",
    title: "Service level objectives",
    description:
      "Error budgets and burn rates of service level objectives; with slo_id, one of them with its history. A burn rate above 1 uses the budget too fast.",
    parameters: { slo_id: text("id of the objective, from a call without it") },
    async run(ask, { slo_id: id }) {
      if (id === undefined) {
        const rows = (await ask("/query/slos")) as Row[];
        const spent = rows.filter(({ budget_remaining: left }) => typeof left === "number" && left <= 0).length;
        const summary = `${rows.length} objectives, ${spent} without error budget.`;
        return { summary, rows: rows.map(shortFigures), link: consoleAddress("slos"), narrow: "set slo_id." };
      }
      const { history, ...slo } = (await ask(`/query/slos/${encodeURIComponent(id)}`)) as Row & { history: Row[] };
      const summary = `One objective, then its ${history.length} points, oldest first.`;
      const narrow = "list_operations and what_changed show what fails.";
      return { summary, rows: [slo, ...history].map(shortFigures), link: consoleAddress("slos", {}, id), narrow };
    },
  },
  {
    name: "fleet_problems",
    title: "Agents with a problem",
    description: "Agents that are silent, whose collector does not run, or whose data is refused. No rows: no problem.",
    parameters: {},
    async run(ask) {
      const rows: Row[] = [];
      for (const [problem, query] of FLEET_PROBLEMS) {
        const { result } = await askPrometheus<{ result: Series[] }>(ask, "query", { query });
        for (const { metric, value } of result)
          rows.push({ problem, node: metric["node"], host_id: metric["host_id"], value: short(Number(value?.[1])) });
      }
      const narrow = "search_logs with node:NAME shows the logs of a node.";
      return { summary: `${rows.length} problems of agents.`, rows, link: consoleAddress("fleet"), narrow };
    },
  },
];
