// The rows of notification: routes, silences, deliveries, and Alertmanager's API.
import type { Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { asUser, foreign, missing, type Row } from "./case.ts";
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
    { method: "GET", path: `${prefix}/routes`, auth: "viewer", cases: () => [asUser("the org's routes", "GET", () => red.token, 200)] },
    {
      method: "POST",
      path: `${prefix}/routes`,
      auth: "admin",
      cases: () => [
        asUser("a good route", "POST", () => red.token, 201, route()),
        asUser("no expression", "POST", () => red.token, 400, { matchers: [{ label: "a", op: "=~", value: "(" }] }, "invalid_field"),
        asUser("an unknown field", "POST", () => red.token, 400, { ...route(), receiver: "x" }, "invalid_field"),
        asUser("no duration", "POST", () => red.token, 400, { ...route(), group_wait: "soon" }, "invalid_field"),
      ],
    },
    {
      method: "PUT",
      path: `${prefix}/routes/{id}`,
      auth: "admin",
      cases: () => [
        ...missing("PUT", "/alerting/routes/{id}", route()),
        foreign("PUT", "/alerting/routes/{id}", () => newRoute(blue), route()),
        {
          name: "replaced",
          send: async () => call("PUT", `${backend.apiUrl}/alerting/routes/${await newRoute(red)}`, { bearer: red.token, body: route() }),
          status: 200,
        },
      ],
    },
    {
      method: "DELETE",
      path: `${prefix}/routes/{id}`,
      auth: "admin",
      cases: () => [
        ...missing("DELETE", "/alerting/routes/{id}"),
        foreign("DELETE", "/alerting/routes/{id}", () => newRoute(blue)),
        {
          name: "deleted",
          send: async () => call("DELETE", `${backend.apiUrl}/alerting/routes/${await newRoute(red)}`, { bearer: red.token }),
          status: 204,
        },
      ],
    },
    {
      method: "GET",
      path: `${prefix}/deliveries`,
      auth: "viewer",
      cases: () => [
        asUser("the org's deliveries", "GET", () => red.token, 200),
        {
          name: "a status that there is not",
          send: (url) => call("GET", `${url}?status=lost`, { bearer: red.token }),
          status: 400,
          error: "invalid_parameter",
        },
      ],
    },
  ];
}

function silenceRows(prefix: string): Row[] {
  return [
    { method: "GET", path: `${prefix}/silences`, auth: "reader", cases: () => [asUser("the org's silences", "GET", () => red.token, 200)] },
    {
      method: "POST",
      path: `${prefix}/silences`,
      auth: "admin",
      cases: () => [
        asUser("a good silence", "POST", () => red.token, 201, silence()),
        asUser("of every alert", "POST", () => red.token, 400, { ...silence(), matchers: [{ name: "a", value: "" }] }, "invalid_field"),
        asUser("no end", "POST", () => red.token, 400, { ...silence(), endsAt: undefined }, "invalid_field"),
      ],
    },
    {
      method: "DELETE",
      path: `${prefix}/silences/{id}`,
      auth: "admin",
      cases: () => [
        ...missing("DELETE", "/alerting/silences/{id}"),
        foreign("DELETE", "/alerting/silences/{id}", () => newSilence(blue)),
        {
          name: "ended",
          send: async () => call("DELETE", `${backend.apiUrl}/alerting/silences/${await newSilence(red)}`, { bearer: red.token }),
          status: 204,
        },
      ],
    },
  ];
}

/** `base`: where Alertmanager's API is. */
function alertmanagerRows(base: string): Row[] {
  const path = "/alerting/alertmanager/api/v2/silence/{id}";
  const noFilter = {
    name: "a filter that is none",
    send: (url: string) => call("GET", `${url}?filter=Down`, { bearer: red.token }),
    status: 400,
    error: "invalid_parameter",
  };
  return [
    ...["status", "receivers"].map((name): Row => ({ method: "GET", path: `${base}/${name}`, auth: "reader", cases: () => [] })),
    ...["alerts", "alerts/groups", "silences"].map((name): Row => ({
      method: "GET",
      path: `${base}/${name}`,
      auth: "reader",
      cases: () => [asUser("the org's own", "GET", () => red.token, 200), noFilter],
    })),
    {
      method: "POST",
      path: `${base}/silences`,
      auth: "admin",
      cases: () => [
        asUser("a good silence", "POST", () => red.token, 200, silence()),
        asUser("no matchers", "POST", () => red.token, 400, { ...silence(), matchers: [] }, "invalid_field"),
      ],
    },
    {
      method: "GET",
      path: `${base}/silence/{id}`,
      auth: "reader",
      cases: () => [...missing("GET", path), foreign("GET", path, () => newSilence(blue))],
    },
    {
      method: "DELETE",
      path: `${base}/silence/{id}`,
      auth: "admin",
      cases: () => [...missing("DELETE", path), foreign("DELETE", path, () => newSilence(blue))],
    },
  ];
}
