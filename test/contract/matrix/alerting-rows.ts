// The rows of the alert rules, and of the channels that their alerts go to.
import { randomUUID } from "node:crypto";
import type { Tenant } from "../../fixtures/backend-process.ts";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, creates, foreign, found, invalidBody, missing, ownOne, type Row, row } from "./case.ts";
import { notificationRows } from "./notification-rows.ts";
import { backend, blue, made, red, viewer } from "./tenants.ts";

const rule = (): object => ({ name: `rule ${randomUUID()}`, severity: "warning", expr: "up == 0", for: "1m", enabled: false });

function newRule(tenant: Tenant): Promise<string> {
  return made(tenant, "/alerting/rules", rule(), "id");
}

/** `prefix`: where they are served; empty on the port of the alerting service. */
export function alertingRows(prefix: string): Row[] {
  return [
    row("GET", `${prefix}/rules`, "reader", () => [found("the org's rules")]),
    row("POST", `${prefix}/rules`, "admin", () => [
      creates("a good rule", rule()),
      invalidBody("no name", { ...rule(), name: undefined }),
      invalidBody("unknown severity", { ...rule(), severity: "loud" }),
      invalidBody("unknown field", { ...rule(), nmae: "x" }),
      invalidBody("not a comparison", { ...rule(), expr: "up" }),
      invalidBody("not an expression", { ...rule(), expr: "up == (" }),
      invalidBody("an unknown function", { ...rule(), expr: "nosuchfunc(up) > 1" }),
      invalidBody("a negative duration", { ...rule(), for: "-1m" }),
    ]),
    row("PUT", `${prefix}/rules/{id}`, "admin", () => [
      ...missing("PUT", `/alerting/rules/{id}`, rule()),
      foreign("PUT", "/alerting/rules/{id}", () => newRule(blue), rule()),
      ownOne("replaced", "PUT", "/alerting/rules/{id}", () => newRule(red), 200, rule()),
    ]),
    row("DELETE", `${prefix}/rules/{id}`, "admin", () => [
      ...missing("DELETE", `/alerting/rules/{id}`),
      foreign("DELETE", "/alerting/rules/{id}", () => newRule(blue)),
      ownOne("deleted", "DELETE", "/alerting/rules/{id}", () => newRule(red), 204),
    ]),
    row("GET", `${prefix}/rules/{id}/status`, "reader", () => [
      ...missing("GET", `/alerting/rules/{id}/status`),
      foreign("GET", "/alerting/rules/{id}/status", () => newRule(blue)),
      ownOne("a disabled rule", "GET", "/alerting/rules/{id}/status", () => newRule(red), 200),
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
  const refused = (name: string, more: object) => invalidBody(name, { ...channel(), ...more });
  return [
    row("GET", `${prefix}/channels`, "viewer", () => [asUser("the org's channels", "GET", () => viewer, 200)]),
    row("POST", `${prefix}/channels`, "admin", () => [
      creates("a webhook", channel()),
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
      found("the org's rules"),
      answers(
        "a filter that is not understood",
        (url) => call("GET", `${url}?match[]=up`, { bearer: red.token }),
        400,
        "invalid_parameter",
      ),
    ]),
    row("GET", `${base}/alerts`, "reader", () => [found("the org's alerts")]),
  ];
}
