// The rows of notification: routes, silences, deliveries, and Alertmanager's API.
import type { Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, creates, foreign, found, invalidBody, missing, ownOne, type Row, row } from "./case.ts";
import { blue, made, red } from "./tenants.ts";

const route = (): object => ({ matchers: [{ label: "severity", op: "=", value: "critical" }] });
const silence = (): object => ({
  matchers: [{ name: "alertname", value: "Down" }],
  endsAt: new Date(Date.now() + 3600_000).toISOString(),
  comment: "being repaired",
});
const newRoute = (tenant: Tenant): Promise<string> => made(tenant, "/alerting/routes", route(), "id");
const newSilence = (tenant: Tenant): Promise<string> => made(tenant, "/alerting/silences", silence(), "id");

/** `prefix`: where they are served; empty on the port of the alerting service. */
export function notificationRows(prefix: string): Row[] {
  return [...routeRows(prefix), ...silenceRows(prefix), ...alertmanagerRows(`${prefix}/alertmanager/api/v2`)];
}

function routeRows(prefix: string): Row[] {
  return [
    row("GET", `${prefix}/routes`, "viewer", () => [found("the org's routes")]),
    row("POST", `${prefix}/routes`, "admin", () => [
      creates("a good route", route()),
      invalidBody("no expression", { matchers: [{ label: "a", op: "=~", value: "(" }] }),
      invalidBody("an unknown field", { ...route(), receiver: "x" }),
      invalidBody("no duration", { ...route(), group_wait: "soon" }),
    ]),
    row("PUT", `${prefix}/routes/{id}`, "admin", () => [
      ...missing("PUT", "/alerting/routes/{id}", route()),
      foreign("PUT", "/alerting/routes/{id}", () => newRoute(blue), route()),
      ownOne("replaced", "PUT", "/alerting/routes/{id}", () => newRoute(red), 200, route()),
    ]),
    row("DELETE", `${prefix}/routes/{id}`, "admin", () => [
      ...missing("DELETE", "/alerting/routes/{id}"),
      foreign("DELETE", "/alerting/routes/{id}", () => newRoute(blue)),
      ownOne("deleted", "DELETE", "/alerting/routes/{id}", () => newRoute(red), 204),
    ]),
    row("GET", `${prefix}/deliveries`, "viewer", () => [
      found("the org's deliveries"),
      answers("a status that there is not", (url) => call("GET", `${url}?status=lost`, { bearer: red.token }), 400, "invalid_parameter"),
    ]),
  ];
}

function silenceRows(prefix: string): Row[] {
  return [
    row("GET", `${prefix}/silences`, "reader", () => [found("the org's silences")]),
    row("POST", `${prefix}/silences`, "admin", () => [
      creates("a good silence", silence()),
      invalidBody("of every alert", { ...silence(), matchers: [{ name: "a", value: "" }] }),
      invalidBody("no end", { ...silence(), endsAt: undefined }),
    ]),
    row("DELETE", `${prefix}/silences/{id}`, "admin", () => [
      ...missing("DELETE", "/alerting/silences/{id}"),
      foreign("DELETE", "/alerting/silences/{id}", () => newSilence(blue)),
      ownOne("ended", "DELETE", "/alerting/silences/{id}", () => newSilence(red), 204),
    ]),
  ];
}

/** `base`: where Alertmanager's API is. */
function alertmanagerRows(base: string): Row[] {
  const path = "/alerting/alertmanager/api/v2/silence/{id}";
  const noFilter = answers(
    "a filter that is none",
    (url: string) => call("GET", `${url}?filter=Down`, { bearer: red.token }),
    400,
    "invalid_parameter",
  );
  return [
    ...["status", "receivers"].map((name): Row => row("GET", `${base}/${name}`, "reader", () => [])),
    ...["alerts", "alerts/groups", "silences"].map((name): Row =>
      row("GET", `${base}/${name}`, "reader", () => [found("the org's own"), noFilter]),
    ),
    row("POST", `${base}/silences`, "admin", () => [
      asUser("a good silence", "POST", () => red.token, 200, silence()),
      invalidBody("no matchers", { ...silence(), matchers: [] }),
    ]),
    row("GET", `${base}/silence/{id}`, "reader", () => [...missing("GET", path), foreign("GET", path, () => newSilence(blue))]),
    row("DELETE", `${base}/silence/{id}`, "admin", () => [...missing("DELETE", path), foreign("DELETE", path, () => newSilence(blue))]),
  ];
}
