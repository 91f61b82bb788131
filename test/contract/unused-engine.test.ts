// An installation that receives only metrics does not load the engine of logs and spans: neither its library, 170 MB of memory, nor its
// folder. The engine is loaded with the first record, which is stored as usual, and from then on at each start.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { adminPassword, backendPlace, flushSamples, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { call, eventually, signedPost, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

test("a backend for metrics alone never loads ClickHouse, not for a backup either; the first log does, and each later start", async () => {
  using folder = temporaryFolder();
  const place = await backendPlace(folder.path);
  const hasEngine = ({ child }: TestProcess): boolean => readFileSync(`/proc/${child.pid}/maps`, "utf8").includes("libchdb");
  const engines = async (): Promise<unknown> => (await call("GET", `${place.healthUrl}/readyz`)).json.engines;
  let token: string;
  {
    await using backend = await startBackend(place);
    const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
    const tenant = await makeTenant(place.apiUrl, operator, "metrics");
    ({ token } = tenant);
    const post = async (path: string, body: string): Promise<number> => (await signedPost(place.apiUrl, path, tenant.apiKey, body)).status;
    expect(await post("/ingest", "metrics_alone 1\n")).toBe(204);
    await eventually("the sample is there", async () => {
      await flushSamples(place);
      const answer = await call("GET", `${place.apiUrl}/query/prometheus/api/v1/query?query=metrics_alone`, { bearer: token });
      return answer.json?.data?.result.length === 1;
    });
    expect(await engines()).toEqual({ metrics: "ok", database: "ok", clickhouse: "ok" });
    const copy = join(folder.path, "copy");
    await using backup = new TestProcess(["backend/main.ts", "backup", copy], place.env, join(folder.path, "backup.out"));
    await backup.exited;
    expect(backup.child.exitCode, backup.log).toBe(0);
    expect(existsSync(join(copy, "data", "clickhouse"))).toBe(false);
    expect(hasEngine(backend)).toBe(false);
    expect(existsSync(join(place.dataDir, "clickhouse"))).toBe(false);

    const record = { timeUnixNano: `${Date.now()}000000`, body: { stringValue: "the first" } };
    const logs = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });
    // Several at once: it is opened once, and the same body is stored once.
    expect(await Promise.all([1, 2, 3].map(() => post("/ingest/logs/otlp", logs)))).toEqual([204, 204, 204]);
    expect(hasEngine(backend)).toBe(true);
    expect(await engines()).toEqual({ metrics: "ok", database: "ok", clickhouse: "ok" });
  }
  await using again = await startBackend(place);
  expect(hasEngine(again)).toBe(true);
  expect((await call("GET", `${place.apiUrl}/query/logs`, { bearer: token })).json).toMatchObject([{ message: "the first" }]);
});
