// The rows of notification: routes, silences, deliveries, and Alertmanager's API.
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, creates, found, invalidBody, type Row, row } from "./case.ts";
import { red } from "./tenants.ts";

const route = (): object => ({ matchers: [{ label: "severity", op: "=", value: "critical" }] });
const silence = (): object => ({
  matchers: [{ name: "alertname", value: "Down" }],
  endsAt: new Date(Date.now() + 3600_000).toISOString(),
  comment: "being repaired",
});

export function notificationRows(): Row[] {
  return [...routeRows(), ...namedSettingRows(), ...silenceRows(), ...alertmanagerRows("/alerting/alertmanager/api/v2")];
}

function routeRows(): Row[] {
  return [
    row("POST", "/alerting/routes", "admin", () => [
      creates("a good route", route()),
      invalidBody("no expression", { matchers: [{ label: "a", op: "=~", value: "(" }] }),
      invalidBody("an unknown field", { ...route(), receiver: "x" }),
      invalidBody("no duration", { ...route(), group_wait: "soon" }),
    ]),
    row("POST", "/alerting/routes/test", "viewer", () => [
      asUser("invented labels", "POST", () => red.token, 200, { labels: { severity: "critical" } }),
    ]),
    row("GET", "/alerting/deliveries", "viewer", () => [
      found("the org's deliveries"),
      answers("a status that there is not", (url) => call("GET", `${url}?status=lost`, { bearer: red.token }), 400, "invalid_parameter"),
    ]),
  ];
}

function namedSettingRows(): Row[] {
  const matchers = [{ label: "alertname", op: "=", value: "Down" }];
  const inhibitRule = { name: "down", source_matchers: matchers, target_matchers: matchers };
  const weekend = { name: "weekend", time_intervals: [{ weekdays: ["saturday:saturday", "sunday"] }] };
  return [
    row("POST", "/alerting/inhibit-rules", "admin", () => [
      creates("a good rule", inhibitRule),
      invalidBody("no target", { ...inhibitRule, target_matchers: [] }),
    ]),
    row("POST", "/alerting/time-intervals", "admin", () => [
      creates("a good interval", weekend),
      invalidBody("an unknown day", { ...weekend, time_intervals: [{ weekdays: ["someday"] }] }),
    ]),
  ];
}

function silenceRows(): Row[] {
  return [
    row("POST", "/alerting/silences", "admin", () => [
      creates("a good silence", silence()),
      invalidBody("of every alert", { ...silence(), matchers: [{ name: "a", value: "" }] }),
      invalidBody("no end", { ...silence(), endsAt: undefined }),
    ]),
  ];
}

/** `base`: where Alertmanager's API is. */
function alertmanagerRows(base: string): Row[] {
  const noFilter = answers(
    "a filter that is none",
    (url: string) => call("GET", `${url}?filter=Down`, { bearer: red.token }),
    400,
    "invalid_parameter",
  );
  return [
    ...["alerts", "alerts/groups", "silences"].map((name): Row =>
      row("GET", `${base}/${name}`, "reader", () => [found("the org's own"), noFilter]),
    ),
    row("POST", `${base}/silences`, "admin", () => [
      asUser("a good silence", "POST", () => red.token, 200, silence()),
      invalidBody("no matchers", { ...silence(), matchers: [] }),
    ]),
  ];
}
