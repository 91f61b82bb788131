// Storage engines that become unavailable under a real backend and return: the response of each endpoint meanwhile, and recovery without a
// restart. The metrics engine is the embedded one, the database a real PostgreSQL.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendPlace, login, makeTenant, startBackend, type BackendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { call, eventually, signedPost, temporaryFolder, type TestProcess } from "../fixtures/processes.ts";
import { NO_POSTGRES, postgresBinaries, PostgresServer } from "../fixtures/postgres.ts";
import { lossesOf, nameOf, NOTHING_LOST, Senders } from "../fixtures/senders.ts";

const UNAVAILABLE = "502 storage_unavailable, again after 2 s";
const PASSWORD = "a-first-password-for-tests";

describe.skipIf(!postgresBinaries)(`unavailable engines${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const folder = temporaryFolder();
  let postgres: PostgresServer;
  let place: BackendPlace;
  let backend: TestProcess;
  let tenant: Tenant;
  let ruleId: string;

  beforeAll(async () => {
    postgres = await PostgresServer.start();
    place = await backendPlace(folder.path, {
      DATABASE_URL: await postgres.newDatabase(),
      MASTER_KEY: randomBytes(32).toString("base64"),
      JWT_SECRET: randomBytes(48).toString("base64"),
      ADMIN_PASSWORD: PASSWORD,
      JWT_TTL: "2h",
      EVALUATION_INTERVAL: "1s",
    });
    backend = await startBackend(place);
    tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", PASSWORD), "outage");
    const rule = { name: "outage", severity: "critical", expr: "under_load > 0", enabled: true };
    ruleId = (await call("POST", `${place.alertingUrl}/rules`, { bearer: tenant.token, body: rule })).json.id;
    await becomes("all is well before", ALL_WELL);
  });

  afterAll(async () => {
    await backend?.end();
    await postgres?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  const enginePid = (): number => (JSON.parse(readFileSync(join(place.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number }).pid;
  const readiness = () => call("GET", `${place.healthUrl}/readyz`);
  const bearer = (path: string) => () => call("GET", `${place.apiUrl}${path}`, { bearer: tenant.token });
  const signed = (path: string, body: string) => () => signedPost(place.apiUrl, path, tenant.apiKey, body);

  /** Sends every kind of request of a user or a sender; returns the responses by name. */
  async function answers(): Promise<Record<string, string>> {
    const asked = {
      "GET /healthz": () => call("GET", `${place.healthUrl}/healthz`),
      "GET /readyz": readiness,
      "GET /openapi.json": () => call("GET", `${place.apiUrl}/openapi.json`),
      "POST /ingest": signed("/ingest", `asked 1 ${Date.now()}\n`),
      "POST /ingest/logs/otlp": signed("/ingest/logs/otlp", "{}"),
      "POST /ingest/traces": signed("/ingest/traces", "{}"),
      "GET /query/logs": bearer("/query/logs"),
      "GET /query/traces": bearer("/query/traces"),
      "GET /query/prometheus": bearer("/query/prometheus/api/v1/query?query=asked"),
      "POST /api/auth/login": () =>
        call("POST", `${place.apiUrl}/api/auth/login`, { body: { email: "admin@localhost", password: PASSWORD } }),
      "GET /api/clusters": bearer("/api/clusters"),
      "POST /api/install-tokens": () => call("POST", `${place.apiUrl}/api/install-tokens`, { bearer: tenant.token, body: {} }),
      "GET :8082/rules": () => call("GET", `${place.alertingUrl}/rules`, { bearer: tenant.token }),
      "GET :8082/rules/{id}/status": () => call("GET", `${place.alertingUrl}/rules/${ruleId}/status`, { bearer: tenant.token }),
      "GET /alerting/rules": bearer("/alerting/rules"),
    };
    const named = Object.entries(asked).map(async ([name, ask]) => [name, nameOf(await ask())] as const);
    return Object.fromEntries(await Promise.all(named));
  }

  const ALL_WELL = {
    "GET /healthz": "200",
    "GET /readyz": "200",
    "GET /openapi.json": "200",
    "POST /ingest": "204",
    "POST /ingest/logs/otlp": "204",
    "POST /ingest/traces": "204",
    "GET /query/logs": "200",
    "GET /query/traces": "200",
    "GET /query/prometheus": "200",
    "POST /api/auth/login": "200",
    "GET /api/clusters": "200",
    "POST /api/install-tokens": "201",
    "GET :8082/rules": "200",
    "GET :8082/rules/{id}/status": "200",
    "GET /alerting/rules": "200",
  };

  async function becomes(what: string, expected: Record<string, string>): Promise<number> {
    const startedAt = Date.now();
    let last: Record<string, string> = {};
    const same = async (): Promise<boolean> => isDeepStrictEqual((last = await answers()), expected);
    await eventually(what, same).catch(() => undefined);
    expect(last, what).toEqual(expected);
    return Date.now() - startedAt;
  }

  test("while the metrics engine is down, /ingest returns 502 with Retry-After, logs and traces work, and it recovers", async () => {
    await using senders = new Senders({ apiUrl: place.apiUrl, tenant, perSignal: { logs: 1, spans: 1, metrics: 2 } });
    const downMs: number[] = [];
    for (let kill = 0; kill < 3; kill += 1) {
      const before = senders.acknowledged("metrics").length;
      await eventually("load", async () => senders.acknowledged("metrics").length > before + 5);
      const refused = senders.answers.get(UNAVAILABLE) ?? 0;
      const killed = enginePid();
      const killedAt = Date.now();
      process.kill(killed, "SIGKILL");
      await eventually("refused", async () => (senders.answers.get(UNAVAILABLE) ?? 0) > refused);
      const atRefusal = senders.acknowledged("metrics").length;
      const others = senders.acknowledged("logs").length;
      await eventually("taken again", async () => senders.acknowledged("metrics").length > atRefusal + 2);
      await eventually("logs go on", async () => senders.acknowledged("logs").length > others);
      expect(enginePid()).not.toBe(killed);
      downMs.push(Date.now() - killedAt);
    }
    await senders.finish();
    expect(backend.ended).toBe(false);
    expect(Object.keys(Object.fromEntries(senders.answers)).sort()).toEqual(["204", UNAVAILABLE]);
    const refused = senders.sent.filter(({ signal, attempts }) => signal !== "metrics" && attempts > 1);
    expect(refused).toEqual([]);
    await becomes("all is well again", ALL_WELL);
    await eventually("nothing is lost", async () => {
      expect(await lossesOf(place.apiUrl, tenant.token, "metrics", senders.sent)).toEqual(NOTHING_LOST);
      return true;
    });
    const own = await (await fetch(`${place.healthUrl}/metrics`)).text();
    expect(own).toMatch(/atherops_\w*restarts_total\{[^}]*victoria-metrics[^}]*\} 3\n/);
    console.log(
      `metrics engine killed 3 times: ${JSON.stringify(Object.fromEntries(senders.answers))}; taken again after ${downMs.join(", ")} ms`,
    );
  });

  test.each(["fast", "killed"] as const)(
    "while PostgreSQL is stopped (%s), known keys and sessions work, other requests report it, and all recover afterwards",
    async (how) => {
      await postgres.stop(how);
      const away = {
        ...ALL_WELL,
        "POST /api/auth/login": UNAVAILABLE,
        "GET /api/clusters": UNAVAILABLE,
        "POST /api/install-tokens": UNAVAILABLE,
        "GET :8082/rules": "500 internal, again after 2 s",
        "GET :8082/rules/{id}/status": "500 internal, again after 2 s",
        "GET /alerting/rules": "500 internal, again after 2 s",
      };
      const downAfter = await becomes("everything that needs the database says so", away);
      const staleSeconds = async () =>
        Number(/^atherops_auth_stale_seconds (\S+)$/m.exec(await (await fetch(`${place.healthUrl}/metrics`)).text())?.[1]);
      // Also if keys and users were last checked longer ago than is guaranteed while the database answers.
      await eventually("known keys are accepted unchecked", async () => {
        await answers();
        return (await staleSeconds()) > 0;
      });
      expect(await answers()).toEqual(away);
      const { json } = await readiness();
      expect(json).toEqual({ status: "degraded", engines: { metrics: "ok", database: "failing", clickhouse: "ok" } });
      await postgres.resume();
      const upAfter = await becomes("all is well again", ALL_WELL);
      await eventually("keys are checked again", async () => {
        await answers();
        return (await staleSeconds()) === 0;
      });
      expect(backend.ended).toBe(false);
      console.log(`PostgreSQL stopped (${how}): refused everywhere after ${downAfter} ms, all well ${upAfter} ms after it was back`);
    },
  );
});
