// Rules and alerts as Grafana's Prometheus data source and alert lists request them, with a read token as the password of Basic auth,
// through the API's address. Two organisations have rules with the same name; neither sees the other's.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { accountsApp, makeOrg, type AccountsApp, type Org } from "../../test/fixtures/accounts-app.ts";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import { eventually } from "../../test/fixtures/processes.ts";
import { MAX_LIVE_ALERTS_BYTES } from "./alerting-limits.ts";
import { addRoutesToApi } from "./mount.ts";
import { type PrometheusAlert, type PrometheusRule } from "./live-rules.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

const BASE = "/query/prometheus/api/v1";
const EMPTY = { status: "success", data: { groups: [] } };
const HUGE = 3000;

interface Reader extends Org {
  readonly readToken: string;
}

let service: AlertingApp;
let api: AccountsApp;
let red: Reader;
let blue: Reader;

beforeAll(async () => {
  service = await alertingApp();
  api = await accountsApp(service.database, {
    routes: (app, guards) => {
      addRoutesToApi(app, guards, service.alerting.routes);
    },
  });
  [red, blue] = [await reader(), await reader()];
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await service?.[Symbol.asyncDispose]();
});

async function reader(): Promise<Reader> {
  const org = await makeOrg(api);
  const made = await api.call("POST", "/api/read-tokens", { bearer: org.token, body: { name: "grafana" } });
  return { ...org, readToken: made.json().token };
}

async function makeRule(of: Org, rule: object): Promise<string> {
  const made = await api.call("POST", "/alerting/rules", { bearer: of.token, body: { severity: "warning", ...rule } });
  expect(made.statusCode, made.body).toBe(201);
  return made.json().id;
}

const get = async (of: Reader, path: string) =>
  await api.call("GET", `${BASE}/${path}`, {
    headers: { authorization: `Basic ${Buffer.from(`grafana:${of.readToken}`).toString("base64")}` },
  });
async function ask(of: Reader, path: string) {
  const answer = await get(of, path);
  expect([answer.statusCode, answer.headers["content-type"]], answer.body).toEqual([200, "application/json"]);
  return answer.json<{ status: string; data: { groups: { rules: PrometheusRule[] }[]; alerts: PrometheusAlert[] }; warnings?: string[] }>();
}
const rulesOf = async (of: Reader, query = "") => (await ask(of, `rules${query}`)).data.groups.flatMap(({ rules }) => rules);
const named = async (of: Reader, name: string) => (await rulesOf(of)).find((rule) => rule.name === name);
/** Waits until a rule has the expected state. */
const until = async (of: Reader, name: string, is: (rule: PrometheusRule) => boolean): Promise<PrometheusRule> =>
  await eventually(`${name} is so`, async () => {
    const rule = await named(of, name);
    return rule !== undefined && is(rule) && rule;
  });

describe("an organisation without rules", () => {
  test("gets no group and no alert", async () => {
    const green = await reader();
    expect(await ask(green, "rules")).toEqual(EMPTY);
    expect(await ask(green, "alerts")).toEqual({ status: "success", data: { alerts: [] } });
  });
});

describe("two organisations", () => {
  beforeAll(async () => {
    await service.push(red.orgId, 'load{of="red"} 7');
    await service.push(blue.orgId, 'load{of="blue"} 3');
    const annotations = { summary: "{{ $labels.of }} has {{ $value }}" };
    await makeRule(red, { name: "loaded", severity: "critical", expr: "load > 1", labels: { team: "a" }, annotations });
    await makeRule(red, { name: "loaded for long", expr: "load > 1", for: "1h30m" });
    await makeRule(red, { name: "quiet", expr: "load > 100" });
    await makeRule(red, { name: "switched off", expr: "load > 1", enabled: false });
    await makeRule(blue, { name: "loaded", expr: "load > 2" });
  });

  test("get their own rules with live state, oldest first, in the format that Grafana reads", async () => {
    await until(red, "loaded", ({ state }) => state === "firing");
    await until(red, "loaded for long", ({ state }) => state === "pending");
    await until(red, "quiet", ({ health }) => health === "ok");
    const { status, data } = await ask(red, "rules");
    const time = expect.stringMatching(/^20\d\d-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/);
    const evaluated = { health: "ok", evaluationTime: expect.any(Number), lastEvaluation: time, type: "alerting", keepFiringFor: 0 };
    const labels = { alertname: "loaded", of: "red", team: "a", severity: "critical", host_id: "host", node: "node" };
    const alert = {
      rule_id: expect.any(String),
      labels,
      annotations: { summary: "red has 7" },
      state: "firing",
      activeAt: time,
      value: "7",
    };
    const long = { ...alert, annotations: {}, state: "pending", labels: expect.objectContaining({ alertname: "loaded for long" }) };
    const loaded = { state: "firing", name: "loaded", query: "load > 1", duration: 0, labels: { team: "a", severity: "critical" } };
    const warning = { query: "load > 1", labels: { severity: "warning" }, annotations: {}, ...evaluated };
    expect(status).toBe("success");
    expect(data).toEqual({
      groups: [
        {
          name: "rules",
          file: "atherops",
          interval: 1,
          limit: 0,
          evaluationTime: expect.any(Number),
          lastEvaluation: time,
          rules: [
            { ...loaded, annotations: { summary: "{{ $labels.of }} has {{ $value }}" }, alerts: [alert], ...evaluated },
            { ...warning, state: "pending", name: "loaded for long", duration: 5400, alerts: [long] },
            { ...warning, state: "inactive", name: "quiet", query: "load > 100", duration: 0, alerts: [] },
          ],
        },
      ],
    });
    await until(blue, "loaded", ({ state }) => state === "firing");
    const ofBlue = await rulesOf(blue);
    expect(ofBlue).toMatchObject([{ name: "loaded", query: "load > 2", alerts: [{ labels: { of: "blue" }, value: "3" }] }]);
    expect(JSON.stringify(ofBlue)).not.toMatch(new RegExp(`red|${red.orgId}|${blue.orgId}|revision`));
  });

  test("get their own alerts", async () => {
    const alerts = async (of: Reader) =>
      (await ask(of, "alerts")).data.alerts.map(({ labels, state, value }) => [labels["of"], state, value]);
    expect(await alerts(red)).toEqual([
      ["red", "firing", "7"],
      ["red", "pending", "7"],
    ]);
    expect(await alerts(blue)).toEqual([["blue", "firing", "3"]]);
  });

  test.each([
    ["?type=alert", 3],
    ["?type=record", 0],
    ["?rule_name[]=quiet", 1],
    ["?rule_name%5B%5D=quiet&rule_name%5B%5D=loaded", 2],
    ["?rule_name[]=' OR 1=1", 0],
    ["?rule_name[]=switched off", 0],
    ["?rule_group[]=rules&file[]=atherops", 3],
    ["?rule_group[]=other", 0],
    ["?file[]=other", 0],
    // Requests of Grafana's rule list pages, which ask for Mimir and Prometheus at once.
    ["?file=atherops&file[]=atherops&rule_group=rules&rule_group[]=rules&rule_name=quiet&rule_name[]=quiet&group_limit=40", 1],
    ["?dashboard_uid=x", 3],
  ])("filter by %s, and get %i rules", async (query, count) => {
    const rules = await rulesOf(red, encodeURI(query).replaceAll("%25", "%"));
    expect(rules).toHaveLength(count);
    expect(rules.filter(({ name }) => name === "loaded").every(({ alerts }) => alerts.length === 1)).toBe(true);
  });

  test.each(["true", "1"])("omit alerts with exclude_alerts=%s, and still get the state", async (yes) => {
    const rules = await rulesOf(red, `?exclude_alerts=${yes}`);
    expect(rules.map(({ state, alerts }) => [state, alerts])).toEqual([
      ["firing", []],
      ["pending", []],
      ["inactive", []],
    ]);
  });

  test.each([
    ["type=all", "type"],
    ["exclude_alerts=perhaps", "exclude_alerts"],
    ["match[]={a=%22b%22}", "match[]"],
    ["group_next_token=x", "group_next_token"],
  ])("get %s rejected by name, instead of a different result", async (query, name) => {
    const answer = await get(red, `rules?${query}`);
    expect([answer.statusCode, answer.json()]).toEqual([400, { error: "invalid_parameter", message: expect.stringContaining(name) }]);
  });

  test("get the value and the name of the annotation if its formatter cannot format the value", async () => {
    await service.push(blue.orgId, 'lag{region="eu-1"} 1');
    const annotations = { age: "since {{ $labels.region | humanizeDuration }}", text: "{{ $value | humanize }}" };
    await makeRule(blue, { name: "not a number", expr: "lag > 0", annotations });
    const rule = await until(blue, "not a number", ({ state }) => state === "firing");
    expect([rule.health, rule.lastError]).toEqual(["err", expect.stringMatching(/^annotation age: /)]);
    expect([rule.annotations, rule.alerts[0]?.annotations]).toEqual([annotations, { age: "since eu-1", text: "1" }]);
  });

  test("get a rule that cannot be evaluated as err, without the evaluator's message", async () => {
    await service.push(blue.orgId, 'twice{of="one"} 1');
    await makeRule(blue, { name: "same labels twice", expr: 'label_replace(twice, "of", "same", "", "") > 0' });
    await until(blue, "same labels twice", ({ health }) => health === "ok");
    await service.push(blue.orgId, 'twice{of="other"} 1');
    const failed = await until(blue, "same labels twice", ({ health }) => health === "err");
    expect(failed.lastError).toMatch(/^the last evaluation failed: several series have the same labels/);
  });
});

describe("a rule with more alerts than the response limit", () => {
  test("is firing with a warning about the omitted ones, and other rules' alerts are returned", async () => {
    const yellow = await reader();
    const lines = Array.from({ length: HUGE }, (_, n) => `many{n="${n}"} 1`).join("\n");
    await service.push(yellow.orgId, `${lines}\nfew{n="1"} 1`);
    const text = "x".repeat(MAX_LIVE_ALERTS_BYTES / HUGE);
    await makeRule(yellow, { name: "huge", expr: "many > 0", annotations: { text } });
    await makeRule(yellow, { name: "small", expr: "few > 0" });
    await until(yellow, "small", ({ state }) => state === "firing");
    await until(yellow, "huge", ({ state }) => state === "firing");
    const { data, warnings } = await ask(yellow, "rules");
    expect(data.groups[0]?.rules.map(({ name, state, alerts }) => [name, state, alerts.length])).toEqual([
      ["huge", "firing", 0],
      ["small", "firing", 1],
    ]);
    expect(warnings).toEqual([expect.stringMatching(/^too many alerts: those of "huge" are omitted/)]);
    const alerts = await ask(yellow, "alerts");
    expect([alerts.data.alerts.length, alerts.warnings]).toEqual([1, warnings]);
    expect((await ask(yellow, "rules?exclude_alerts=true")).warnings).toBeUndefined();
    const limits = { name: "limited", label_limits: { source: ["few"] } };
    const limited = await api.call("POST", "/api/read-tokens", { bearer: yellow.token, body: limits });
    const seen = await ask({ ...yellow, readToken: limited.json().token }, "alerts");
    expect([seen.data.alerts, seen.warnings]).toEqual([[], ["too many alerts: some are omitted"]]);
  });
});

describe("while the evaluator is unavailable", () => {
  test("returns 500, instead of rules that look inactive", async () => {
    await service.evaluator.child[Symbol.asyncDispose]();
    for (const path of ["rules", "alerts"]) {
      const answer = await get(red, path);
      expect([answer.statusCode, answer.json().error]).toEqual([500, "internal"]);
    }
    expect(await ask(await reader(), "rules")).toEqual(EMPTY);
  });
});
