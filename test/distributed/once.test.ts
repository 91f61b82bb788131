// A body that is sent to two replicas is stored once, whatever its size, whether one after the other or at the same time.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { login, makeTenant, startBackend, type BackendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, signedPost, type TestProcess } from "../fixtures/processes.ts";

describe.skipIf(!postgresBinaries)(`two replicas${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let engines: DistributedEngines;
  let places: readonly [BackendPlace, BackendPlace];
  let replicas: TestProcess[];
  let tenant: Tenant;

  beforeAll(async () => {
    engines = await startDistributedEngines();
    const env = { QUOTA_RECORDS_PER_SECOND: "50" };
    places = [await engines.place("one", env), await engines.place("other", env)];
    replicas = await Promise.all(places.map((place) => startBackend(place)));
    const operator = await login(places[0].apiUrl, "admin@localhost", FIRST_PASSWORD);
    tenant = await makeTenant(places[0].apiUrl, operator, "once");
    const unlimited = { bytes_per_second: 0, records_per_second: 0 };
    const set = await call("PUT", `${places[0].apiUrl}/api/orgs/${tenant.orgId}/limits`, { bearer: operator, body: unlimited });
    expect(set.status, set.text).toBeLessThan(300);
    await eventually("the limit is lifted everywhere", async () => {
      // More bodies than the limit allows at once.
      const bodies = places.flatMap(({ apiUrl }) =>
        Array.from({ length: 8 }, (_, index) => ({ apiUrl, body: logs(`warm ${index}`, 1000) })),
      );
      const answers = await Promise.all(bodies.map(({ apiUrl, body }) => signedPost(apiUrl, "/ingest/logs/otlp", tenant.apiKey, body)));
      return answers.every(({ status }) => status === 204);
    });
  });
  afterAll(async () => {
    await Promise.all((replicas ?? []).map((replica) => replica.end()));
    await engines?.[Symbol.asyncDispose]();
  });

  const now = Date.now();
  const logs = (name: string, rows: number) => {
    const logRecords = Array.from({ length: rows }, (_, index) => ({
      timeUnixNano: `${now}${String(index).padStart(6, "0")}`,
      body: { stringValue: `${name} ${index}` },
    }));
    return JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  };

  async function storedRows(name: string): Promise<number> {
    const body = `SELECT toUInt32(count()) AS stored FROM logs WHERE message LIKE '${name} %'`;
    const answer = await call("POST", `${new URL(engines.clickhouse.url).origin}/?default_format=JSONEachRow`, { body });
    return (answer.json as { stored: number }).stored;
  }

  /** Sends like a real sender: it retries after a 503. */
  async function sendUntilStored(apiUrl: string, body: string): Promise<void> {
    await eventually("the body is stored", async () => (await signedPost(apiUrl, "/ingest/logs/otlp", tenant.apiKey, body)).status === 204);
  }

  test.each([1, 10, 100, 999, 1000, 1500])("store %i rows to A, B, A, B once", async (rows) => {
    const body = logs(`turns-${rows}`, rows);
    for (let turn = 0; turn < 4; turn += 1)
      expect((await signedPost(places[turn % 2]?.apiUrl ?? "", "/ingest/logs/otlp", tenant.apiKey, body)).status).toBe(204);
    expect(await storedRows(`turns-${rows}`)).toBe(rows);
  });

  test.each([1, 10, 999])("store %i rows to both concurrently once", async (rows) => {
    for (let round = 0; round < 5; round += 1) {
      const name = `at-once-${rows}-${round}`;
      await Promise.all([0, 1, 0, 1].map((index) => sendUntilStored(places[index]?.apiUrl ?? "", logs(name, rows))));
      expect(await storedRows(name)).toBe(rows);
    }
  });

  test("share the count of failed logins", async () => {
    const attempt = ({ apiUrl }: BackendPlace) =>
      call("POST", `${apiUrl}/api/auth/login`, { body: { email: "admin@once.example", password: "a wrong password" } });
    for (let failure = 0; failure < 5; failure += 1) expect((await attempt(places[0])).status).toBe(401);
    for (const place of places) {
      const refused = await attempt(place);
      expect([refused.status, refused.json.error]).toEqual([429, "login_backoff"]);
    }
  });
});
