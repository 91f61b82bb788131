import { describe, expect, test } from "vitest";
import { podMonitor, serviceMonitor, SHOP } from "./monitors.fixture.ts";
import { isAccepted, type Rule } from "./relabeling.ts";
import type { Endpoint, Monitor, Service } from "./monitor-objects.ts";
import { scrapeJobs, type ScrapeJobs } from "./scrape-jobs.ts";
import { selectsPod } from "./selectors.ts";

const INTERVAL_MS = 30_000;
const made = (monitors: Monitor[], services: Service[] = [SHOP], acrossNamespaces = ["*"]): ScrapeJobs =>
  scrapeJobs({ monitors, services, defaultIntervalMs: INTERVAL_MS, acrossNamespaces });
const jobsOf = (monitors: Monitor[], services: Service[] = [SHOP]): readonly Rule[] =>
  [...made(monitors, services).jobs.values()].map(({ config }) => config);
const rulesOf = (job: Rule | undefined): Rule[] => (job?.["relabel_configs"] ?? []) as Rule[];
const labelsOf = (job: Rule | undefined): Record<string, unknown> =>
  Object.fromEntries(
    rulesOf(job)
      .filter((rule) => rule["source_labels"] === undefined && rule["action"] === "replace")
      .map(({ target_label, replacement }) => [target_label, replacement]),
  );

describe("a ServiceMonitor", () => {
  test("scrapes the pods that its Services select, with the operator's labels", () => {
    const [job, ...others] = jobsOf([
      serviceMonitor({ port: "metrics", path: "/stats", interval: "1m30s", scheme: "HTTPS" }, { targetLabels: ["team"] }),
    ]);
    expect(others).toEqual([]);
    expect(job).toMatchObject({
      job_name: "ServiceMonitor shop/web/0/shop/web",
      scrape_interval: "90000ms",
      scrape_timeout: "10000ms",
      metrics_path: "/stats",
      scheme: "https",
      follow_redirects: false,
    });
    expect(labelsOf(job)).toEqual({ service: "web", endpoint: "metrics", job: "web", team: "north" });
    const kept = rulesOf(job).filter(({ action }) => action === "keep");
    expect(kept.map(({ source_labels, regex }) => [(source_labels as string[]).join(), regex])).toEqual([
      ["__meta_kubernetes_pod_container_port_name", "http-metrics"],
      ["__scheme__", "https?"],
    ]);
  });

  test.each([
    ["the number of a Service's targetPort", { port: "admin" }, "$1:9001"],
    ["a Service's own port without a targetPort", { port: "plain" }, "$1:8080"],
    ["a targetPort that it names itself", { targetPort: 7000 }, "$1:7000"],
  ])("scrapes a pod at %s", (_what, endpoint, replacement) => {
    const [job] = jobsOf([serviceMonitor(endpoint)]);
    expect(rulesOf(job).find(({ target_label }) => target_label === "__address__")).toMatchObject({ replacement });
  });

  test.each<[string, Partial<Monitor["spec"]>, number]>([
    ["its own namespace", {}, 1],
    ["named namespaces", { namespaceSelector: { matchNames: ["shop", "other"] } }, 2],
    ["all namespaces", { namespaceSelector: { any: true } }, 2],
    ["a label's values", { selector: { matchExpressions: [{ key: "team", operator: "In", values: ["south", "north"] }] } }, 1],
    ["a missing label", { selector: { matchExpressions: [{ key: "team", operator: "DoesNotExist" }] } }, 0],
    ["other values", { selector: { matchExpressions: [{ key: "team", operator: "NotIn", values: ["north"] }] } }, 0],
  ])("selects Services by %s", (_what, spec, count) => {
    const elsewhere = { ...SHOP, metadata: { ...SHOP.metadata, namespace: "other" } };
    expect(jobsOf([serviceMonitor({ port: "metrics" }, spec)], [elsewhere, SHOP])).toHaveLength(count);
  });

  test("skips a Service without a selector or the port, and one with atherops.io/scrape=false", () => {
    const { ports } = SHOP.spec;
    expect(jobsOf([serviceMonitor({ port: "metrics" })], [{ ...SHOP, spec: ports ? { ports } : {} }])).toEqual([]);
    expect(jobsOf([serviceMonitor({ port: "absent" })])).toEqual([]);
    const monitor = serviceMonitor({ port: "metrics" });
    expect(jobsOf([{ ...monitor, metadata: { ...monitor.metadata, labels: { "atherops.io/scrape": "false" } } }])).toEqual([]);
  });

  test("renders the same bytes for any order of objects", () => {
    const monitors = [serviceMonitor({ port: "metrics" }, { namespaceSelector: { any: true } }), podMonitor({ port: "metrics" })];
    const services = [SHOP, { ...SHOP, metadata: { ...SHOP.metadata, namespace: "other" } }];
    expect(jobsOf(monitors.toReversed(), services.toReversed())).toEqual(jobsOf(monitors, services));
  });
});

test("a PodMonitor selects pods by labels, and takes its job from a label of the pod", () => {
  const selector = {
    matchLabels: { app: "worker" },
    matchExpressions: [
      { key: "canary", operator: "Exists" },
      { key: "tier", operator: "NotIn", values: ["x"] },
    ],
  };
  const [job] = made([podMonitor({ port: "metrics" }, { selector, jobLabel: "app.kubernetes.io/name" })], []).jobs.values();
  expect(labelsOf(job?.config)).toEqual({ job: "shop/worker", endpoint: "metrics" });
  expect(rulesOf(job?.config)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ source_labels: ["__meta_kubernetes_pod_label_app_kubernetes_io_name"], target_label: "job" }),
    ]),
  );
  const isSelected = (namespace: string, labels: Record<string, string>): boolean =>
    job !== undefined && selectsPod(job.pods, { namespace, labels });
  expect(isSelected("shop", { app: "worker", canary: "" })).toBe(true);
  expect(isSelected("shop", { app: "worker" })).toBe(false);
  expect(isSelected("shop", { app: "worker", canary: "", tier: "x" })).toBe(false);
  expect(isSelected("other", { app: "worker", canary: "" })).toBe(false);
});

test.each<[string, Monitor["spec"]["namespaceSelector"]]>([
  ["all namespaces", { any: true }],
  ["another namespace", { matchNames: ["shop", "other"] }],
])("rejects a monitor that selects %s, unless its namespace is trusted", (_what, namespaceSelector) => {
  const monitors = [serviceMonitor({ port: "metrics" }, { namespaceSelector }), podMonitor({ port: "metrics" }, { namespaceSelector })];
  const elsewhere = { ...SHOP, metadata: { ...SHOP.metadata, namespace: "other" } };
  const { jobs, refused } = made(monitors, [SHOP, elsewhere], ["other"]);
  expect([...jobs.keys()]).toEqual([]);
  expect([...refused.values()]).toEqual(Array.from({ length: 2 }, () => expect.stringContaining("discovery.acrossNamespaces")));
  expect([...made(monitors, [SHOP, elsewhere], ["shop"]).jobs.keys()]).toHaveLength(3);
});

describe("rejects one monitor and keeps the others", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["with a password", { basicAuth: { username: { name: "s", key: "u" } } }, "basicAuth"],
    ["with a token's file, which is any file of the node", { bearerTokenFile: "/var/run/secrets/token" }, "bearerTokenFile"],
    ["with a token", { bearerTokenSecret: { name: "s", key: "token" } }, "bearerTokenSecret"],
    ["with an authorization", { authorization: { credentials: { name: "s", key: "k" } } }, "authorization"],
    ["with OAuth", { oauth2: { clientId: {} } }, "oauth2"],
    ["through a proxy", { proxyUrl: "http://evil" }, "proxyUrl"],
    ["with a client certificate", { tlsConfig: { cert: { secret: { name: "s", key: "k" } } } }, "tlsConfig.cert"],
    ["with an authority's file", { tlsConfig: { caFile: "/etc/shadow" } }, "tlsConfig.caFile"],
    ["at another address", { relabelings: [{ targetLabel: "__address__", replacement: "169.254.169.254:80" }] }, "__address__"],
    ["at an address of a label", { relabelings: [{ sourceLabels: ["x"], targetLabel: "${1}", regex: "(.*)" }] }, "targetLabel"],
    [
      "at an address of an annotation",
      { relabelings: [{ action: "labelmap", regex: ".*(__address__).*", replacement: "$1" }] },
      "labelmap",
    ],
    [
      "with another interval than it has",
      { relabelings: [{ targetLabel: "__scrape_interval__", replacement: "1ms" }] },
      "__scrape_interval__",
    ],
    ["with an expression that RE2 does not know", { relabelings: [{ action: "drop", regex: "(?=a)" }] }, "regex"],
    ["with an unknown action", { metricRelabelings: [{ action: "explode" }] }, "metricRelabelings[0].action"],
    ["without a port", { port: undefined }, "neither port nor targetPort"],
    ["with a scheme that is none", { scheme: "file" }, "scheme"],
    ["with a path that is none", { path: "metrics" }, "path"],
    ["every nanosecond", { interval: "1ns" }, "interval"],
    ["with a merge of YAML", { params: { "<<": ["x"] } }, "params"],
    ["with text that YAML cannot contain", { tlsConfig: { serverName: "a\tb" } }, "control characters"],
    ["with expressions that need much memory", { relabelings: [{ action: "drop", regex: `(${"a".repeat(99)}){99}` }] }, "too large"],
    ["larger than a job may be", { params: { x: ["y".repeat(70_000)] } }, "too large"],
    ["if it does not follow its schema", { relabelings: { a: 1 } }, "schema"],
  ])("if it has %s", (_what, fields, reason) => {
    const endpoint = { port: "metrics", ...fields };
    const bad = { ...serviceMonitor(endpoint), metadata: { name: "bad", namespace: "shop" } };
    const { jobs, refused } = made([bad, serviceMonitor({ port: "metrics" })]);
    expect([...jobs.keys()]).toEqual(["ServiceMonitor shop/web/0/shop/web"]);
    expect([...refused.keys()]).toEqual(["ServiceMonitor shop/bad"]);
    expect(refused.get("ServiceMonitor shop/bad")).toContain(reason);
  });

  test.each([{ podTargetLabels: [""] }, { podTargetLabels: ["1st"] }, { podTargetLabels: ["__address__"] }])("with %o", (spec) => {
    const { jobs, refused } = made([serviceMonitor({ port: "metrics" }, spec)]);
    expect([jobs.size, ...refused.values()]).toEqual([0, expect.stringContaining("is not supported")]);
  });

  test("beyond 1,000 jobs, or 1 MiB of them", () => {
    const monitor = serviceMonitor({ port: "metrics" });
    const endpoints = Array.from({ length: 1001 }, () => ({ port: "metrics" }));
    const { jobs, refused } = made([{ ...monitor, spec: { ...monitor.spec, endpoints } }]);
    expect(jobs.size).toBeLessThanOrEqual(1000);
    expect(refused.size).toBe(1);
  });

  test.each<[string, Endpoint]>([
    ["many jobs", { portNumber: 9100 }],
    ["large jobs", { portNumber: 9100, params: { x: ["y".repeat(60_000)] } }],
    ["many endpoints that are not scraped", { portNumber: 0 }],
  ])("if another namespace has %s", (_what, endpoint) => {
    const podMetricsEndpoints = Array.from({ length: 100_000 }, () => endpoint);
    const greedy = { ...podMonitor(endpoint, { podMetricsEndpoints }), metadata: { name: "a", namespace: "a" } };
    const { jobs, refused } = made([greedy, serviceMonitor({ port: "metrics" })]);
    expect(jobs.size).toBeLessThanOrEqual(1000);
    expect(JSON.stringify([...jobs.values()]).length).toBeLessThan(1_100_000);
    expect([...jobs.keys()].at(-1)).toBe("ServiceMonitor shop/web/0/shop/web");
    expect(refused.get("PodMonitor a/a")).toContain("limit");
  });
});

test("ignores labels that every object has", () => {
  const [job] = jobsOf([serviceMonitor({ port: "metrics" }, { jobLabel: "constructor", targetLabels: ["__proto__", "toString"] })]);
  expect(labelsOf(job)).toEqual({ service: "web", endpoint: "metrics", job: "web" });
});

test("drops a scheme that would redirect the target after all relabelings", () => {
  const [job] = jobsOf([serviceMonitor({ port: "metrics", relabelings: [{ targetLabel: "__scheme__", replacement: "http://evil/?" }] })]);
  expect(rulesOf(job).at(-1)).toEqual({ source_labels: ["__scheme__"], regex: "https?", action: "keep" });
});

test("does not treat the defaults of older operators as credentials", () => {
  expect(jobsOf([serviceMonitor({ port: "metrics", bearerTokenSecret: { key: "" }, bearerTokenFile: "" })])).toHaveLength(1);
});

test.each([
  "a{1001}",
  "(a{40}){40}",
  "(?P<x>a)",
  "a(?!b)",
  String.raw`(a)\1`,
  "[",
  "a**",
  "(".repeat(300),
  String.raw`\pL`,
  "[[:alpha:]]",
  "[]a]",
  "[a[:foo:]",
  String.raw`[a\b]`,
  "a{10000000000}",
  "a{1,10000000000}",
  "(?i)[\u0100-\u{10fffe}]",
])("rejects the expression %s", (regex) => expect(isAccepted(regex)).toBe(false));

test.each(["[\u0100-\u{10fffe}]", "(?i)get|[!-~]"])("accepts the expression %s", (regex) => expect(isAccepted(regex)).toBe(true));
