// Alert rules on a real backend, metrics engine and evaluator: the states of an alert from signed samples on, tenants that try to read each
// other's data, and the state of alerts after the evaluator, the backend or the database becomes unavailable. It is one file, because all
// tests need one backend with its engines.
import { existsSync, readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { engineAuthorization, type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";
import { halt, isAlive } from "../fixtures/process-state.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s", JWT_TTL: "2h", LEAK_ME: "the-environment-leaked" });
let red: Tenant;
let blue: Tenant;

beforeAll(async () => {
  red = await backend.tenant("red");
  blue = await backend.tenant("blue");
});

/** Sends samples of now through the signed ingest endpoint. */
async function push(tenant: Tenant, lines: string): Promise<void> {
  const answer = await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, `${lines}\n`);
  expect([answer.status, answer.text]).toEqual([204, ""]);
}

async function createRule(tenant: Tenant, body: object): Promise<string> {
  const answer = await call("POST", `${backend.alertingUrl}/rules`, { bearer: tenant.token, body });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
  return answer.json.id as string;
}

async function status(tenant: Tenant, id: string): Promise<{ state: string; active_alerts: number; last_eval?: string }> {
  const answer = await call("GET", `${backend.alertingUrl}/rules/${id}/status`, { bearer: tenant.token });
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return answer.json;
}

/** Waits for a state, pushing the samples again and again as an agent would. Returns seconds since 1970. */
async function becomes(tenant: Tenant, id: string, state: string, lines?: string): Promise<number> {
  return await backend.shows(`rule ${id} is ${state}`, async () => {
    if (lines !== undefined) await push(tenant, lines);
    const now = await status(tenant, id);
    return now.state === state && now.last_eval !== undefined && Date.now() / 1000;
  });
}

const rule = (name: string, expr: string, more: object = {}): object => ({
  name,
  severity: "critical",
  expr,
  for: "0s",
  enabled: true,
  ...more,
});
/** Queries the evaluator directly, after a check that it refuses requests without its password. */
async function ofEvaluator(path: string): Promise<string> {
  const url = `http://${backend.place.env["EVALUATOR_LISTEN"]}${path}`;
  expect((await call("GET", url)).status).toBe(401);
  const answer = await call("GET", url, { headers: { authorization: engineAuthorization(backend.place) } });
  expect(answer.status).toBe(200);
  return answer.text;
}
const evaluatorPid = (): number => backend.enginePid("vmalert");

describe("the time line of an alert", () => {
  test("samples above a threshold make a rule pending, then after `for` firing, then inactive, per instance", async () => {
    await push(red, 'queue_length{q="a"} 1\nqueue_length{q="b"} 1');
    const id = await createRule(red, rule("queue too long", "queue_length > 10", { for: "20s" }));
    const line: [string, number][] = [["inactive", await becomes(red, id, "inactive")]];
    expect((await status(red, id)).active_alerts).toBe(0);

    line.push(["pending", await becomes(red, id, "pending", 'queue_length{q="a"} 11\nqueue_length{q="b"} 1')]);
    expect((await status(red, id)).active_alerts).toBe(0);
    line.push(["firing", await becomes(red, id, "firing", 'queue_length{q="a"} 12\nqueue_length{q="b"} 99')]);
    const heldFor = (line[2]?.[1] ?? 0) - (line[1]?.[1] ?? 0);
    expect(heldFor).toBeGreaterThan(3);
    await backend.shows("both instances fire", async () => (await status(red, id)).active_alerts === 2);

    line.push(["inactive", await becomes(red, id, "inactive", 'queue_length{q="a"} 1\nqueue_length{q="b"} 1')]);
    expect((await status(red, id)).active_alerts).toBe(0);
    const start = line[0]?.[1] ?? 0;
    console.log(line.map(([state, at]) => `${state} at ${(at - start).toFixed(1)} s`).join(", "));

    await push(blue, `ALERTS{rule_id="${id}",alertstate="firing",q="forged"} 1`);
    const history = await backend.shows("the history has it", async () => {
      const answer = await call("GET", `${backend.alertingUrl}/rules/${id}/history`, { bearer: red.token });
      // A period is two where an evaluation came late.
      const found = new Set<string>(answer.json.map((one: { state: string; labels: { q: string } }) => `${one.labels.q} ${one.state}`));
      return found.size >= 4 && [...found].sort();
    });
    expect(history).toEqual(["a firing", "a pending", "b firing", "b pending"]);
  });

  test("a disabled rule is inactive without last_eval and removed from the evaluator; enabling it adds it", async () => {
    await push(red, "disk_full 1");
    const body = rule("disk full", "disk_full == 1");
    const id = await createRule(red, { ...body, enabled: false });
    expect(await status(red, id)).toEqual({ state: "inactive", active_alerts: 0 });
    expect(await ofEvaluator("/api/v1/rules")).not.toContain(id);
    await call("PUT", `${backend.alertingUrl}/rules/${id}`, { bearer: red.token, body });
    await eventually("the evaluator has it", async () => (await status(red, id)).last_eval);
    await becomes(red, id, "firing", "disk_full 1");
    await call("PUT", `${backend.alertingUrl}/rules/${id}`, { bearer: red.token, body: { ...body, enabled: false } });
    expect(await status(red, id)).toEqual({ state: "inactive", active_alerts: 0 });
    await eventually("gone from the evaluator", async () => !(await ofEvaluator("/api/v1/rules")).includes(id));
  });

  test("an untouched alert keeps firing while other rules of the organisation are created and deleted", async () => {
    await push(red, "steady 1");
    const steady = await createRule(red, rule("steady", "steady == 1", { for: "2s" }));
    await becomes(red, steady, "firing", "steady 1");
    const seen = new Set<string>();
    for (let n = 0; n < 5; n++) {
      const other = await createRule(red, rule(`passing ${n}`, "steady > 5"));
      await becomes(red, other, "inactive", "steady 1");
      seen.add((await status(red, steady)).state);
      await call("DELETE", `${backend.alertingUrl}/rules/${other}`, { bearer: red.token });
    }
    expect([...seen]).toEqual(["firing"]);
  });
});

describe("tenants that try to see each other", () => {
  test("the same metric and hostile expressions show each tenant its own data only, in status, history and validation", async () => {
    const samples = async (): Promise<void> => {
      await push(red, 'shared_metric{host="red-1",only="in-red"} 100');
      await push(blue, 'shared_metric{host="blue-1"} 1\nshared_metric{host="blue-2"} 1');
    };
    await samples();
    const hostile: [expr: string, own: number][] = [
      ["shared_metric > 50", 0],
      [`shared_metric{org_id="${red.orgId}"} > 0`, 0],
      [`shared_metric{org_id="${blue.orgId}" or org_id="${red.orgId}"} > 0`, 2],
      [`{__name__="shared_metric",org_id!="${blue.orgId}"} > 0`, 0],
      [`shared_metric{org_id=~".*"} > 0 or shared_metric{host=~"red.*"} > 0`, 2],
      // Without the ALERTS of blue's own absent(…{host="red-1"}), which carry that label.
      ['count({__name__=~".+", __name__!~"ALERTS.*", host=~"red.*"}) > 0', 0],
      ['label_replace(shared_metric, "org_id", "$1", "host", "(.*)") > 0', 2],
      [`label_set(shared_metric, "org_id", "${red.orgId}") > 0`, 2],
      ["max_over_time(shared_metric[1h]) > 50", 0],
      ['absent(shared_metric{host="red-1"})', 1],
    ];
    const ids: string[] = [];
    for (const [at, [expr]] of hostile.entries()) ids.push(await createRule(blue, rule(`hostile ${at}`, expr)));
    await backend.shows("all are evaluated", async () => {
      await samples();
      return (await Promise.all(ids.map((id) => status(blue, id)))).every((one) => one.last_eval !== undefined);
    });
    for (const [at, [expr, own]] of hostile.entries()) {
      const alerts = await backend.shows(`${expr} is evaluated with its data`, async () => {
        await samples();
        const now = await status(blue, ids[at] ?? "");
        return now.active_alerts >= own && { alerts: now.active_alerts };
      });
      expect([expr, alerts.alerts]).toEqual([expr, own]);
      const validated = await call("POST", `${backend.alertingUrl}/rules/validate`, { bearer: blue.token, body: { expr } });
      expect([expr, validated.status, validated.json]).toEqual([expr, 200, { valid: true, matching_series: own }]);
      const history = await call("GET", `${backend.alertingUrl}/rules/${ids[at]}/history`, { bearer: blue.token });
      expect([expr, history.status, history.text.includes("in-red")]).toEqual([expr, 200, false]);
    }
    for (const id of ids) {
      for (const [method, path] of [
        ["GET", `/rules/${id}/status`],
        ["GET", `/rules/${id}/history`],
        ["DELETE", `/rules/${id}`],
      ] as const) {
        expect((await call(method, `${backend.alertingUrl}${path}`, { bearer: red.token })).status).toBe(404);
      }
      const stolen = await call("PUT", `${backend.alertingUrl}/rules/${id}`, { bearer: red.token, body: rule("mine now", "up == 0") });
      expect(stolen.status).toBe(404);
      await call("DELETE", `${backend.alertingUrl}/rules/${id}`, { bearer: blue.token });
    }
  });

  test("an environment variable in a rule stays text, and the evaluator's environment is empty", async () => {
    await push(blue, "env_probe 1");
    const id = await createRule(
      blue,
      rule("probe %{LEAK_ME}", 'env_probe{x!="%{LEAK_ME}"} == 1', { annotations: { text: "%{LEAK_ME} %{PATH}" } }),
    );
    await becomes(blue, id, "firing", "env_probe 1");
    const alerts = await ofEvaluator("/api/v1/alerts");
    expect(alerts).toContain("%{LEAK_ME}");
    expect(alerts).not.toContain("the-environment-leaked");
    expect(readFileSync(`/proc/${evaluatorPid()}/environ`, "latin1")).toBe("");
    await call("DELETE", `${backend.alertingUrl}/rules/${id}`, { bearer: blue.token });
  });
});

/** Over log records; the window is long, so that they stay in it. */
const overLogs = (name: string, more: object = {}): object => ({
  name,
  severity: "critical",
  logs: { filter: { level: "error", q: 'it\'s "full"' }, window: "1h", by: ["source"], operator: ">=", threshold: 2, ...more },
  annotations: { summary: "{{ $labels.source }}: {{ $value }}" },
});

async function sendLogs(tenant: Tenant, source: string, messages: readonly string[]): Promise<void> {
  const timeUnixNano = `${Date.now()}000000`;
  const logRecords = messages.map((text) => ({ timeUnixNano, severityText: "ERROR", body: { stringValue: text } }));
  const resource = { attributes: [{ key: "service.name", value: { stringValue: source } }] };
  const answer = await signedPost(
    backend.apiUrl,
    "/ingest/logs/otlp",
    tenant.apiKey,
    JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] }),
  );
  expect([answer.status, answer.text]).toEqual([204, ""]);
}

test("a rule over log records fires for its own organisation, is listed like others, and no key writes its series", async () => {
  const asks = async (tenant: Tenant, path: string) => (await call("GET", `${backend.alertingUrl}${path}`, { bearer: tenant.token })).json;
  const settings = { url: "https://hooks.slack.example/x" };
  const channel = await call("POST", `${backend.alertingUrl}/channels`, {
    bearer: red.token,
    body: { name: "kept", kind: "slack", settings },
  });
  expect(channel.status).toBe(201);
  // Before there are any records: the log store is not opened to count none.
  const none = await createRule(red, overLogs("no records", { by: [], operator: "==", threshold: 0 }));
  await becomes(red, none, "firing");
  await sendLogs(red, "shop", ['it\'s "full"', 'IT\'S "FULL" again', "calm"]);
  await sendLogs(blue, "shop", ['it\'s "full"']);
  const [foreign, id] = [await createRule(blue, overLogs("full", { by: [] })), await createRule(red, overLogs("full"))];
  await becomes(red, id, "firing");
  const alert = { labels: expect.objectContaining({ alertname: "full", source: "shop" }), annotations: { summary: "shop: 2" } };
  expect((await asks(red, "/prometheus/api/v1/alerts")).data.alerts).toContainEqual(expect.objectContaining(alert));
  await backend.shows("it is listed by Alertmanager's API", async () => {
    const alerts = (await asks(red, "/alertmanager/api/v2/alerts")) as { labels: Record<string, string> }[];
    return alerts.some(({ labels }) => labels["alertname"] === "full" && labels["source"] === "shop");
  });
  const counted = async () => {
    const query = `${backend.apiUrl}/query/prometheus/api/v1/query?query=${encodeURIComponent(`log_rule_records{rule="${foreign}"}`)}`;
    const { data } = (await call("GET", query, { bearer: blue.token })).json;
    return data.result as { metric: Record<string, string>; value: [number, string] }[];
  };
  const own = await backend.shows("that of blue is counted", async () => (await counted())[0]);
  expect([own.value[1], own.metric["host_id"]]).toEqual(["1", "log-rules"]);
  await push(blue, `log_rule_records{rule="${foreign}",condition="${own.metric["condition"]}",host_id="log-rules",node="log-rules"} 99`);
  await backend.shows("the forged one is there", async () => (await counted()).length === 2);
  const { last_eval: before = "" } = await status(blue, foreign);
  const after = await eventually("evaluated since", async () => {
    const now = await status(blue, foreign);
    return Date.parse(now.last_eval ?? "") > Date.parse(before) + 2000 && now;
  });
  expect(after).toMatchObject({ state: "inactive", active_alerts: 0 });
});

describe("recovers after a kill", () => {
  let firing: string;
  /** Time from which `for` counts, in seconds since 1970. */
  async function activeAt(ruleId: string): Promise<number> {
    const { data } = JSON.parse(await ofEvaluator("/api/v1/alerts")) as {
      data: { alerts: { activeAt: string; labels: Record<string, string> }[] };
    };
    const alert = data.alerts.find(({ labels }) => labels["rule_id"] === ruleId);
    return Math.floor(Date.parse(alert?.activeAt ?? "") / 1000);
  }
  beforeAll(async () => {
    await push(red, "outage 1");
    firing = await createRule(red, rule("outage", "outage == 1", { for: "4s" }));
    await becomes(red, firing, "firing", "outage 1");
  });

  test("of the evaluator, which restarts with the firing state and without another `for`", async () => {
    await backend.shows("the state is written", async () => {
      const query = `${backend.apiUrl}/query/prometheus/api/v1/query?query=${encodeURIComponent(`ALERTS_FOR_STATE{rule_id="${firing}"}`)}`;
      return (await call("GET", query, { bearer: red.token })).json.data.result.length === 1;
    });
    const since = await activeAt(firing);
    await halt(evaluatorPid());
    const hung = await call("GET", `${backend.alertingUrl}/rules/${firing}/status`, { bearer: red.token });
    expect([hung.status, hung.json.error]).toEqual([503, "unavailable"]);
    process.kill(evaluatorPid(), "SIGKILL");
    const created = await call("POST", `${backend.alertingUrl}/rules`, { bearer: red.token, body: rule("made meanwhile", "outage == 1") });
    expect(created.status).toBe(201);
    await becomes(red, firing, "firing", "outage 1");
    expect(await activeAt(firing)).toBe(since);
    await becomes(red, created.json.id, "firing", "outage 1");
  });

  test("of the backend, which leaves no evaluator behind and restores the firing state", async () => {
    const before = evaluatorPid();
    await backend.end("SIGKILL");
    expect(existsSync(`/proc/${before}`)).toBe(true);
    await backend.start();
    await eventually("the orphan is gone", async () => !isAlive(before));
    await becomes(red, firing, "firing", "outage 1");
  });

  test("and after an orderly restart all rules exist and the alert fires", async () => {
    const listed = (await call("GET", `${backend.alertingUrl}/rules`, { bearer: red.token })).json;
    await backend.end("SIGTERM");
    await backend.start();
    expect((await call("GET", `${backend.alertingUrl}/rules`, { bearer: red.token })).json).toEqual(listed);
    await becomes(red, firing, "firing", "outage 1");
  });
});

test.each([
  "/alerting/..%2fapi/users",
  "/alerting/rules/%2e%2e/status",
  "/alerting/rules/..%2f..%2fmetrics/status",
  "/alerting/api/v1/rules",
  "/alerting/-/reload",
  "/alerting/",
])("reaches no route except the service's under the prefix: %s", async (path) => {
  const answer = await call("GET", `${backend.apiUrl}${path}`, { bearer: red.token });
  expect([answer.status, answer.json.error]).toEqual([404, "not_found"]);
});
