// What Alertmanager and the notification are compared with: alerts over time, routes, inhibition rules, time intervals and silences. Each
// part of routing occurs at least once. Times are in seconds since the start.

/** An alert fires while its series is sent. */
export interface ScenarioAlert {
  readonly rule: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly from: number;
  readonly to: number;
}

export const RULES = [
  { name: "HighLoad", severity: "warning" },
  { name: "DiskFull", severity: "critical" },
  { name: "ClusterDown", severity: "critical" },
  { name: "NodeDown", severity: "warning" },
  { name: "Backup", severity: "info" },
] as const;

/** Long enough for one repetition of `repeat_interval`. */
export const SCENARIO_S = 130;

export const ALERTS: readonly ScenarioAlert[] = [
  { rule: "HighLoad", labels: { team: "web", instance: "a" }, from: 0, to: 110 },
  { rule: "HighLoad", labels: { team: "web", instance: "b" }, from: 0, to: 35 },
  { rule: "HighLoad", labels: { team: "web", instance: "c" }, from: 16, to: 110 },
  { rule: "HighLoad", labels: { team: "quiet", instance: "s" }, from: 0, to: SCENARIO_S },
  { rule: "DiskFull", labels: { team: "db", instance: "a" }, from: 0, to: SCENARIO_S },
  { rule: "DiskFull", labels: { team: "db", instance: "b" }, from: 0, to: 70 },
  { rule: "ClusterDown", labels: { cluster: "c1" }, from: 0, to: 50 },
  { rule: "NodeDown", labels: { cluster: "c1", machine: "n1" }, from: 0, to: SCENARIO_S },
  { rule: "NodeDown", labels: { cluster: "c2", machine: "n2" }, from: 0, to: 80 },
  { rule: "HighLoad", labels: { team: "night", instance: "a" }, from: 0, to: SCENARIO_S },
  { rule: "HighLoad", labels: { team: "day", instance: "a" }, from: 0, to: SCENARIO_S },
  { rule: "HighLoad", labels: { team: "open", instance: "a" }, from: 0, to: SCENARIO_S },
  { rule: "HighLoad", labels: { team: "other", instance: "a" }, from: 0, to: 40 },
  { rule: "Backup", labels: { instance: "a" }, from: 0, to: 40 },
];

export interface ScenarioRoute {
  readonly matchers: readonly { readonly label: string; readonly op: string; readonly value: string }[];
  readonly receiver: string;
  readonly group_by: readonly string[];
  readonly continue?: boolean;
  readonly mute_time_intervals?: readonly string[];
  readonly active_time_intervals?: readonly string[];
}

const matcher = (label: string, op: string, value: string) => ({ label, op, value });

/** In order; the default route is the last one. */
export const ROUTES: readonly ScenarioRoute[] = [
  { matchers: [matcher("team", "=", "web")], receiver: "web", group_by: ["alertname", "team"] },
  {
    matchers: [matcher("team", "=~", "db|storage"), matcher("severity", "!=", "info")],
    receiver: "db",
    group_by: ["alertname"],
    continue: true,
  },
  { matchers: [matcher("alertname", "=", "DiskFull")], receiver: "disk", group_by: ["..."] },
  { matchers: [matcher("alertname", "=~", "ClusterDown|NodeDown")], receiver: "cluster", group_by: ["cluster"] },
  { matchers: [matcher("team", "=", "night")], receiver: "night", group_by: ["alertname"], mute_time_intervals: ["always"] },
  { matchers: [matcher("team", "=", "day")], receiver: "day", group_by: ["alertname"], active_time_intervals: ["never"] },
  {
    matchers: [matcher("team", "=", "open")],
    receiver: "open",
    group_by: ["alertname"],
    mute_time_intervals: ["never"],
    active_time_intervals: ["always"],
  },
  { matchers: [matcher("team", "=", "quiet")], receiver: "quiet", group_by: ["alertname"] },
  { matchers: [matcher("team", "!~", "other|x.*"), matcher("alertname", "=", "Backup")], receiver: "backup", group_by: [] },
  { matchers: [], receiver: "default", group_by: [] },
];

export const TIMES = { group_wait: "3s", group_interval: "10s", repeat_interval: "1m" };

export const INHIBIT_RULES = [
  {
    source_matchers: [matcher("alertname", "=", "ClusterDown")],
    target_matchers: [matcher("alertname", "=", "NodeDown")],
    equal: ["cluster"],
  },
];

export const TIME_INTERVALS = [
  { name: "always", time_intervals: [{ times: [{ start_time: "00:00", end_time: "24:00" }], weekdays: ["sunday:saturday"] }] },
  { name: "never", time_intervals: [{ years: ["1970"], months: ["january"], days_of_month: ["1:-1"], location: "Europe/Berlin" }] },
];

/** `from` is when the request is sent. */
export const SILENCES = [
  { label: "team", value: "quiet", from: 0, to: 45 },
  { label: "instance", value: "b", from: 40, to: SCENARIO_S, rule: "DiskFull" },
] as const;
