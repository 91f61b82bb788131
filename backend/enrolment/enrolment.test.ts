import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, directKey, makeOrg, registerCluster, registerHost, type AccountsApp } from "../../test/fixtures/accounts-app.ts";
import { openDatabase, type Database } from "../engines/postgres/database.ts";
import { createLog } from "../log.ts";

const dataDir = mkdtempSync(join(tmpdir(), "atherops-enrolment-"));
let database: Database;
let backend: AccountsApp;

beforeAll(async () => {
  database = await openDatabase({ dataDir, log: createLog("silent") });
  backend = await accountsApp(database);
});

afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  rmSync(dataDir, { recursive: true, force: true });
});

test("smoke", async () => {
  const org = await makeOrg(backend);
  const cluster = await registerCluster(backend, org.token);
  const beat = await backend.call("POST", "/heartbeat", {
    key: cluster.api_key,
    body: { node: "n1", interval_s: 30, collector: { state: "running", restarts: 0 } },
  });
  expect(beat.body).toBe("");
  expect(beat.statusCode).toBe(204);
  expect(beat.headers["x-key-age-days"]).toBe("0");
  expect((await backend.call("POST", "/heartbeat", { key: cluster.api_key })).statusCode).toBe(204);
  console.log((await backend.call("GET", "/api/clusters", { bearer: org.token })).json()[0]);
  const host = await registerHost(backend, org.token);
  expect((await backend.call("POST", "/ingest/agents/heartbeat", { key: host.api_key })).statusCode).toBe(204);
  const put = await backend.call("PUT", `/api/v1/agents/${host.agent_id}/config`, { bearer: org.token, body: { signals: ["logs"] } });
  expect(put.body).toBe('{"version":"1","config":{"signals":["logs"]}}');
  console.log((await backend.call("GET", "/api/v1/agents", { bearer: org.token })).json()[0]);
  console.log((await backend.call("GET", `/api/v1/agents/${host.agent_id}/config`, { key: host.api_key })).body);
  const key = await directKey(backend, org.token);
  expect((await backend.call("POST", "/ingest", { key: key.api_key })).statusCode).toBe(204);
  const rotated = await backend.call("POST", "/api/clusters/rotate-key", {
    key: cluster.api_key,
    headers: { "idempotency-key": crypto.randomUUID() },
  });
  expect(rotated.statusCode).toBe(200);
  expect((await backend.call("POST", "/api/install-tokens", { bearer: org.token })).statusCode).toBe(201);
});
