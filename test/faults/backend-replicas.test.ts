// Two whole backends on the same PostgreSQL, ClickHouse and VictoriaMetrics: work that must happen once happens once, and each replica
// learns of the other's changes within the documented time. Also runs the two roles as separate processes with an external vmalert.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { login, makeTenant, startBackend, type BackendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { RULES_PASSWORD, startVmalert } from "../fixtures/vmalert-outside.ts";
import { call, eventually, freeAddresses, signedPost, type TestProcess } from "../fixtures/processes.ts";

/** The promised bound for a revocation, and the time of the request that finds out, on a busy machine. */
const BOUND_MS = 5000 + 10_000;

describe.skipIf(!postgresBinaries)(`a distributed installation${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let engines: DistributedEngines;
  let one: BackendPlace;
  let other: BackendPlace;
  const running: TestProcess[] = [];
  let tenant: Tenant;

  beforeAll(async () => {
    engines = await startDistributedEngines();
    one = await engines.place("one");
    other = await engines.place("other");
    running.push(...(await Promise.all([startBackend(one), startBackend(other)])));
    const operator = await login(one.apiUrl, "admin@localhost", FIRST_PASSWORD);
    tenant = await makeTenant(one.apiUrl, operator, "shared");
  });

  afterAll(async () => {
    await Promise.all(running.map((backend) => backend.end()));
    await engines?.[Symbol.asyncDispose]();
  });

  async function clickhouseRows(statement: string): Promise<Record<string, unknown>[]> {
    const answer = await call("POST", `${new URL(engines.clickhouse.url).origin}/?default_format=JSONEachRow`, { body: statement });
    return answer.text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  test("a key revoked on one is rejected by the other within 5 s, and a key created on one is accepted by the other at once", async () => {
    const key = await call("POST", `${one.apiUrl}/api/keys`, { bearer: tenant.token, body: { name: "short-lived" } });
    const ask = () => signedPost(other.apiUrl, "/ingest", key.json.api_key, "");
    expect((await ask()).status).toBe(204);
    const removed = await call("DELETE", `${one.apiUrl}/api/keys/${key.json.key_id ?? key.json.id}`, { bearer: tenant.token });
    const revokedAt = Date.now();
    expect(removed.status).toBe(204);
    expect((await signedPost(one.apiUrl, "/ingest", key.json.api_key, "")).status).toBe(401);
    const refused = await eventually("refused", async () => {
      const answer = await ask();
      return answer.status !== 204 && answer;
    });
    const afterMs = Date.now() - revokedAt;
    console.log(`revoked key refused by the other replica after ${afterMs} ms`);
    expect([refused.status, refused.json.error]).toEqual([401, "revoked_key"]);
    expect(afterMs).toBeLessThan(BOUND_MS);
  });

  test("an install token used on one counts as used on the other; the same Idempotency-Key returns the same key from both", async () => {
    const { token } = (await call("POST", `${one.apiUrl}/api/install-tokens`, { bearer: tenant.token, body: {} })).json;
    const body = { cluster_name: "north", cluster_uid: randomUUID(), agent_version: "1" };
    const register = (place: BackendPlace, idempotencyKey: string) =>
      call("POST", `${place.apiUrl}/api/clusters/register`, { bearer: token, body, headers: { "idempotency-key": idempotencyKey } });
    const mine = randomUUID();
    const both = await Promise.all([register(one, mine), register(other, mine)]);
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
    expect(both[1]?.json).toEqual(both[0]?.json);
    for (const place of [one, other]) {
      const again = await register(place, randomUUID());
      expect([again.status, again.json.error]).toEqual([401, "invalid_install_token"]);
    }
    expect((await signedPost(other.apiUrl, "/heartbeat", both[0]?.json.api_key, "")).status).toBe(204);
    const [cluster] = (await call("GET", `${one.apiUrl}/api/clusters`, { bearer: tenant.token })).json;
    expect(cluster).toMatchObject({ cluster_id: both[0]?.json.cluster_id, online: true });
  });

  test("data written through one is read through the other; a large repeated body to the other is stored once", async () => {
    const at = Date.now();
    const logRecords = Array.from({ length: 1000 }, (_, index) => ({
      timeUnixNano: `${at}${String(index).padStart(6, "0")}`,
      body: { stringValue: `shared line ${index}` },
    }));
    const logs = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
    const span = {
      traceId: "c".repeat(32),
      spanId: "d".repeat(16),
      name: "x",
      startTimeUnixNano: `${at}000000`,
      endTimeUnixNano: `${at}000000`,
    };
    const spans = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] });
    const sent: [path: string, body: string][] = [
      ["/ingest/logs/otlp", logs],
      ["/ingest/traces", spans],
      ["/ingest", `shared_sample 7 ${at}\n`],
    ];
    for (const [path, body] of sent) expect([path, (await signedPost(one.apiUrl, path, tenant.apiKey, body)).status]).toEqual([path, 204]);
    expect((await signedPost(other.apiUrl, "/ingest/logs/otlp", tenant.apiKey, logs)).status).toBe(204);
    const [stored] = await clickhouseRows("SELECT toUInt32(count()) AS records FROM logs WHERE message LIKE 'shared line %'");
    expect(stored).toEqual({ records: 1000 });
    const line = await call("GET", `${other.apiUrl}/query/logs?q=shared%20line%20999`, { bearer: tenant.token });
    expect(line.json).toMatchObject([{ message: "shared line 999" }]);
    const found = await call("GET", `${other.apiUrl}/query/traces?trace_id=${"c".repeat(32)}`, { bearer: tenant.token });
    expect(found.json).toMatchObject([{ SpanID: "d".repeat(16) }]);
    const [sample] = await eventually("the sample is there", async () => {
      await engines.flushSamples();
      const answer = await call("GET", `${other.apiUrl}/query/prometheus/api/v1/query?query=shared_sample`, { bearer: tenant.token });
      return answer.json.data.result.length > 0 && answer.json.data.result;
    });
    expect(sample).toMatchObject({ value: [expect.any(Number), "7"] });
  });

  test("with separate roles, rules through the API's /alerting/ reach an external vmalert, whose state is returned", async () => {
    const [rules, evaluator, ...listen] = await freeAddresses(5);
    const alertingPlace = await engines.place("alerting", {
      RULES_LISTEN: rules,
      RULES_PASSWORD,
      EVALUATOR_QUERY_URL: `http://${evaluator}`,
      EVALUATION_INTERVAL: "1s",
    });
    const apiPlace = await engines.place("api", {
      ALERTING_URL: alertingPlace.alertingUrl,
      API_LISTEN: listen[0],
      HEALTH_LISTEN: listen[1],
    });
    await using alerting = await startBackend(alertingPlace, ["--roles", "alerting"]);
    await using api = await startBackend({ ...apiPlace, healthUrl: `http://${listen[1]}` }, ["--roles", "api"]);
    await using _vmalert = await startVmalert({ rules: rules ?? "", listen: evaluator ?? "", metricsUrl: engines.metricsUrl });
    const url = `http://${listen[0]}`;
    await expect(call("GET", `${alertingPlace.apiUrl}/openapi.json`)).rejects.toThrow("fetch failed");
    await expect(call("GET", `${apiPlace.alertingUrl}/rules`)).rejects.toThrow("fetch failed");
    const rule = { name: "apart", severity: "critical", expr: "apart == 1", enabled: true };
    const created = await call("POST", `${url}/alerting/rules`, { bearer: tenant.token, body: rule });
    expect([created.status, created.text]).toEqual([201, created.text]);
    expect((await call("GET", `${alertingPlace.alertingUrl}/rules`, { bearer: tenant.token })).json).toEqual([created.json]);
    await eventually("it fires", async () => {
      expect((await signedPost(url, "/ingest", tenant.apiKey, "apart 1\n")).status).toBe(204);
      await engines.flushSamples();
      const status = await call("GET", `${url}/alerting/rules/${created.json.id}/status`, { bearer: tenant.token });
      return status.json.state === "firing" && status.json.active_alerts === 1;
    });
    expect(await alerting.end()).toBe(0);
    const away = await call("GET", `${url}/alerting/rules`, { bearer: tenant.token });
    expect([away.status, away.json.error, away.headers.get("retry-after")]).toEqual([503, "unavailable", "2"]);
    expect(await api.end()).toBe(0);
  });
});
