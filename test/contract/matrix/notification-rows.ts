// The rows of notification: routes, silences, deliveries, and Alertmanager's API.
import type { Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, foreign, missing, type Row, row } from "./case.ts";
import { backend, blue, made, red } from "./tenants.ts";

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
    row("GET", `${prefix}/routes`, "viewer", () => [asUser("the org's routes", "GET", () => red.token, 200)]),
    row("POST", `${prefix}/routes`, "admin", () => [
      asUser("a good route", "POST", () => red.token, 201, route()),
      asUser("no expression", "POST", () => red.token, 400, { matchers: [{ label: "a", op: "=~", value: "(" }] }, "invalid_field"),
      asUser("an unknown field", "POST", () => red.token, 400, { ...route(), receiver: "x" }, "invalid_field"),
      asUser("no duration", "POST", () => red.token, 400, { ...route(), group_wait: "soon" }, "invalid_field"),
    ]),
    row("PUT", `${prefix}/routes/{id}`, "admin", () => [
      ...missing("PUT", "/alerting/routes/{id}", route()),
      foreign("PUT", "/alerting/routes/{id}", () => newRoute(blue), route()),
      answers(
        "replaced",
        async () => call("PUT", `${backend.apiUrl}/alerting/routes/${await newRoute(red)}`, { bearer: red.token, body: route() }),
        200,
      ),
    ]),
    row("DELETE", `${prefix}/routes/{id}`, "admin", () => [
      ...missing("DELETE", "/alerting/routes/{id}"),
      foreign("DELETE", "/alerting/routes/{id}", () => newRoute(blue)),
      answers(
        "deleted",
        async () => call("DELETE", `${backend.apiUrl}/alerting/routes/${await newRoute(red)}`, { bearer: red.token }),
        204,
      ),
    ]),
    row("GET", `${prefix}/deliveries`, "viewer", () => [
      asUser("the org's deliveries", "GET", () => red.token, 200),
      answers("a status that there is not", (url) => call("GET", `${url}?status=lost`, { bearer: red.token }), 400, "invalid_parameter"),
    ]),
  ];
}

function silenceRows(prefix: string): Row[] {
  return [
    row("GET", `${prefix}/silences`, "reader", () => [asUser("the org's silences", "GET", () => red.token, 200)]),
    row("POST", `${prefix}/silences`, "admin", () => [
      asUser("a good silence", "POST", () => red.token, 201, silence()),
      asUser("of every alert", "POST", () => red.token, 400, { ...silence(), matchers: [{ name: "a", value: "" }] }, "invalid_field"),
      asUser("no end", "POST", () => red.token, 400, { ...silence(), endsAt: undefined }, "invalid_field"),
    ]),
    row("DELETE", `${prefix}/silences/{id}`, "admin", () => [
      ...missing("DELETE", "/alerting/silences/{id}"),
      foreign("DELETE", "/alerting/silences/{id}", () => newSilence(blue)),
      answers(
        "ended",
        async () => call("DELETE", `${backend.apiUrl}/alerting/silences/${await newSilence(red)}`, { bearer: red.token }),
        204,
      ),
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
      row("GET", `${base}/${name}`, "reader", () => [asUser("the org's own", "GET", () => red.token, 200), noFilter]),
    ),
    row("POST", `${base}/silences`, "admin", () => [
      asUser("a good silence", "POST", () => red.token, 200, silence()),
      asUser("no matchers", "POST", () => red.token, 400, { ...silence(), matchers: [] }, "invalid_field"),
    ]),
    row("GET", `${base}/silence/{id}`, "reader", () => [...missing("GET", path), foreign("GET", path, () => newSilence(blue))]),
    row("DELETE", `${base}/silence/{id}`, "admin", () => [...missing("DELETE", path), foreign("DELETE", path, () => newSilence(blue))]),
  ];
}
