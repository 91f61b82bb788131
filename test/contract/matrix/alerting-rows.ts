// The rows of the alert rules, and of the channels that their alerts go to.
import { randomUUID } from "node:crypto";
import { call } from "../../fixtures/processes.ts";
import { answers, asUser, creates, found, invalidBody, type Row, row } from "./case.ts";
import { notificationRows } from "./notification-rows.ts";
import { red } from "./tenants.ts";

const rule = (): object => ({ name: `rule ${randomUUID()}`, severity: "warning", expr: "up == 0", for: "1m", enabled: false });

const slo = (more: object = {}): object => ({
  name: `slo ${randomUUID()}`,
  objective: 99.9,
  indicator: { availability: { service: "checkout" } },
  ...more,
});

export function alertingRows(): Row[] {
  return [
    row("POST", "/alerting/rules", "admin", () => [
      creates("a good rule", rule()),
      invalidBody("no name", { ...rule(), name: undefined }),
      invalidBody("unknown severity", { ...rule(), severity: "loud" }),
      invalidBody("unknown field", { ...rule(), nmae: "x" }),
      invalidBody("not a comparison", { ...rule(), expr: "up" }),
      invalidBody("not an expression", { ...rule(), expr: "up == (" }),
      invalidBody("an unknown function", { ...rule(), expr: "nosuchfunc(up) > 1" }),
      invalidBody("a negative duration", { ...rule(), for: "-1m" }),
    ]),
    row("POST", "/alerting/rules/validate", "viewer", () => [asUser("a good expression", "POST", () => red.token, 200, rule())]),
    row("POST", "/alerting/slos", "admin", () => [
      creates("a good objective", slo()),
      invalidBody("no indicator", slo({ indicator: {} })),
      invalidBody("two indicators", slo({ indicator: { availability: { service: "a" }, latency: { service: "a", below: "1s" } } })),
      invalidBody("an objective of 100 %", slo({ objective: 100 })),
      invalidBody("an unknown window", slo({ window: "3d" })),
      invalidBody("an expression without $window", slo({ indicator: { promql: { good: "up", total: "up" } } })),
      invalidBody(
        "an expression that ends the parentheses",
        slo({ indicator: { promql: { good: "a[$window]) + (a", total: "a[$window]" } } }),
      ),
      invalidBody("a label that the server sets", slo({ labels: { slo_id: "x" } })),
    ]),
    ...prometheusRuleRows("/alerting/prometheus/api/v1"),
    ...notificationRows(),
    ...channelRows(),
  ];
}

const channel = (): object => ({ name: `channel ${randomUUID()}`, kind: "webhook", settings: { url: "https://127.0.0.2:1/a" } });

function channelRows(): Row[] {
  const refused = (name: string, more: object) => invalidBody(name, { ...channel(), ...more });
  return [
    row("POST", "/alerting/channels", "admin", () => [
      creates("a webhook", channel()),
      refused("no name", { name: undefined }),
      refused("plain http", { settings: { url: "http://hooks.example/" } }),
      refused("a forbidden address", { settings: { url: "https://169.254.169.254/" } }),
      refused("an unknown kind", { kind: "pigeon" }),
      refused("no mail server", { kind: "email", settings: { to: ["a@b.example"] } }),
    ]),
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
  ];
}
