// The rows of the alert rules, and of the channels that their alerts go to.
import { randomUUID } from "node:crypto";
import type { Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, foreign, missing, type Row, row } from "./case.ts";
import { notificationRows } from "./notification-rows.ts";
import { backend, blue, made, red, viewer } from "./tenants.ts";

const rule = (): object => ({ name: `rule ${randomUUID()}`, severity: "warning", expr: "up == 0", for: "1m", enabled: false });

function newRule(tenant: Tenant): Promise<string> {
  return made(tenant, "/alerting/rules", rule(), "id");
}

/** `prefix`: where they are served; empty on the port of the alerting service. */
export function alertingRows(prefix: string): Row[] {
  return [
    row("GET", `${prefix}/rules`, "reader", () => [asUser("the org's rules", "GET", () => red.token, 200)]),
    row("POST", `${prefix}/rules`, "admin", () => [
      asUser("a good rule", "POST", () => red.token, 201, rule()),
      asUser("no name", "POST", () => red.token, 400, { ...rule(), name: undefined }, "invalid_field"),
      asUser("unknown severity", "POST", () => red.token, 400, { ...rule(), severity: "loud" }, "invalid_field"),
      asUser("unknown field", "POST", () => red.token, 400, { ...rule(), nmae: "x" }, "invalid_field"),
      asUser("not a comparison", "POST", () => red.token, 400, { ...rule(), expr: "up" }, "invalid_field"),
      asUser("not an expression", "POST", () => red.token, 400, { ...rule(), expr: "up == (" }, "invalid_field"),
      asUser("an unknown function", "POST", () => red.token, 400, { ...rule(), expr: "nosuchfunc(up) > 1" }, "invalid_field"),
      asUser("a negative duration", "POST", () => red.token, 400, { ...rule(), for: "-1m" }, "invalid_field"),
    ]),
    row("PUT", `${prefix}/rules/{id}`, "admin", () => [
      ...missing("PUT", `/alerting/rules/{id}`, rule()),
      foreign("PUT", "/alerting/rules/{id}", () => newRule(blue), rule()),
      answers(
        "replaced",
        async () => call("PUT", `${backend.apiUrl}/alerting/rules/${await newRule(red)}`, { bearer: red.token, body: rule() }),
        200,
      ),
    ]),
    row("DELETE", `${prefix}/rules/{id}`, "admin", () => [
      ...missing("DELETE", `/alerting/rules/{id}`),
      foreign("DELETE", "/alerting/rules/{id}", () => newRule(blue)),
      answers("deleted", async () => call("DELETE", `${backend.apiUrl}/alerting/rules/${await newRule(red)}`, { bearer: red.token }), 204),
    ]),
    row("GET", `${prefix}/rules/{id}/status`, "reader", () => [
      ...missing("GET", `/alerting/rules/{id}/status`),
      foreign("GET", "/alerting/rules/{id}/status", () => newRule(blue)),
      answers(
        "a disabled rule",
        async () => call("GET", `${backend.apiUrl}/alerting/rules/${await newRule(red)}/status`, { bearer: red.token }),
        200,
      ),
    ]),
    row("GET", `${prefix}/rules/{id}/history`, "reader", () => [
      ...missing("GET", `/alerting/rules/{id}/history`),
      foreign("GET", "/alerting/rules/{id}/history", () => newRule(blue)),
    ]),
    row("POST", `${prefix}/rules/validate`, "viewer", () => [asUser("a good expression", "POST", () => red.token, 200, rule())]),
    ...prometheusRuleRows(`${prefix}/prometheus/api/v1`),
    ...notificationRows(prefix),
    ...channelRows(prefix),
  ];
}

const channel = (): object => ({ name: `channel ${randomUUID()}`, kind: "webhook", settings: { url: "https://127.0.0.2:1/a" } });

function newChannel(tenant: Tenant): Promise<string> {
  return made(tenant, "/alerting/channels", channel(), "id");
}

function channelRows(prefix: string): Row[] {
  const ofOne = (method: string, action: string, status: number, error?: string): Row =>
    row(method, `${prefix}/channels/{id}${action}`, "admin", () => {
      const body = method === "PUT" ? channel() : undefined;
      return [
        ...missing(method, `/alerting/channels/{id}${action}`, body),
        foreign(method, `/alerting/channels/{id}${action}`, () => newChannel(blue), body),
        answers(
          "an own channel",
          async () => call(method, `${backend.apiUrl}/alerting/channels/${await newChannel(red)}${action}`, { bearer: red.token, body }),
          status,
          error,
        ),
      ];
    });
  const refused = (name: string, more: object) => asUser(name, "POST", () => red.token, 400, { ...channel(), ...more }, "invalid_field");
  return [
    row("GET", `${prefix}/channels`, "viewer", () => [asUser("the org's channels", "GET", () => viewer, 200)]),
    row("POST", `${prefix}/channels`, "admin", () => [
      asUser("a webhook", "POST", () => red.token, 201, channel()),
      refused("no name", { name: undefined }),
      refused("plain http", { settings: { url: "http://hooks.example/" } }),
      refused("a forbidden address", { settings: { url: "https://169.254.169.254/" } }),
      refused("an unknown kind", { kind: "pigeon" }),
      refused("no mail server", { kind: "email", settings: { to: ["a@b.example"] } }),
    ]),
    ofOne("PUT", "", 200),
    ofOne("DELETE", "", 204),
    ofOne("POST", "/rotate", 200),
    // The response has its own field `error`.
    ofOne("POST", "/test", 200, "no response: ECONNREFUSED"),
  ];
}

/** `base`: where Prometheus' HTTP API is. */
export function prometheusRuleRows(base: string): Row[] {
  return [
    row("GET", `${base}/rules`, "reader", () => [
      asUser("the org's rules", "GET", () => red.token, 200),
      answers(
        "a filter that is not understood",
        (url) => call("GET", `${url}?match[]=up`, { bearer: red.token }),
        400,
        "invalid_parameter",
      ),
    ]),
    row("GET", `${base}/alerts`, "reader", () => [asUser("the org's alerts", "GET", () => red.token, 200)]),
  ];
}
