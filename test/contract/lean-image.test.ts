// What the lean image's program is, as Dockerfile.backend puts it together: the backend without the packages of the embedded engines.
// Invariant: over engines outside it lacks nothing, and where one of those packages is needed it says what to set.
import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { login, makeTenant, startBackend, type BackendPlace } from "../fixtures/backend-process.ts";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, ROOT, signedPost, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

/** The packages that Dockerfile.backend takes out for the lean image. */
const ENGINES = (
  /mv (node_modules\S+(?: node_modules\S+)*) \/engines/.exec(readFileSync(join(ROOT, "Dockerfile.backend"), "utf8"))?.[1] ?? ""
)
  .split(" ")
  .filter(Boolean);

/** Copies, not links: Node looks for packages where a link leads to. Answers the program. */
function layOut(folder: string): string {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, { dev?: boolean; link?: boolean }>;
  };
  const installed = Object.entries(packages).filter(
    ([path, { dev, link }]) =>
      path.startsWith("node_modules/") &&
      !dev &&
      !link &&
      !ENGINES.some((engine) => `${path}/`.startsWith(`${engine}/`)) &&
      existsSync(join(ROOT, path)),
  );
  for (const path of ["package.json", "agent/package.json", "agent/protocol", "agent/common", "backend", ...installed.map(([of]) => of)]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path), { recursive: true });
  }
  return join(folder, "backend/main.ts");
}

describe.skipIf(!postgresBinaries)(`the lean image's program${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  const app = temporaryFolder();
  let program: string;
  let engines: DistributedEngines;
  let place: BackendPlace;

  beforeAll(async () => {
    program = layOut(app.path);
    engines = await startDistributedEngines();
    place = await engines.place("lean");
  });

  afterAll(async () => {
    await engines?.[Symbol.asyncDispose]();
    app[Symbol.dispose]();
  });

  test("has no embedded ClickHouse and no PGlite", () => {
    expect(ENGINES.map((path) => path.replace("node_modules/", ""))).toEqual(["chdb", "@chdb", "@electric-sql"]);
    expect(ENGINES.filter((path) => existsSync(join(app.path, path)))).toEqual([]);
  });

  test("over engines outside it stores and answers metrics, logs and spans, and takes a rule", async () => {
    await using _backend = await startBackend(place, [], program);
    const operator = await login(place.apiUrl, "admin@localhost", FIRST_PASSWORD);
    const { token, apiKey } = await makeTenant(place.apiUrl, operator, "lean");
    const nowNs = `${Date.now()}000000`;
    const logs = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: nowNs, body: { stringValue: "a line" } }] }] }] };
    const span = {
      traceId: "0af7651916cd43dd8448eb211c80319c",
      spanId: "b7ad6b7169203331",
      name: "a span",
      startTimeUnixNano: nowNs,
      endTimeUnixNano: nowNs,
    };
    for (const [path, body] of [
      ["/ingest/logs/otlp", JSON.stringify(logs)],
      ["/ingest/traces", JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] })],
      ["/ingest", "a_series 42\n"],
    ] as const)
      expect((await signedPost(place.apiUrl, path, apiKey, body)).status).toBe(204);
    const get = async (path: string) => (await call("GET", `${place.apiUrl}${path}`, { bearer: token })).json;
    expect(await get("/query/logs")).toMatchObject([{ message: "a line" }]);
    expect(await get("/query/traces")).toMatchObject([{ Operation: "a span" }]);
    const series = "/query/prometheus/api/v1/query?query=last_over_time(a_series[1h])";
    await eventually("the sample", async () => (await get(series)).data.result[0]?.value[1] === "42");
    const rule = { name: "it is there", severity: "info", expr: "a_series > 41", for: "0s", enabled: true };
    const made = await call("POST", `${place.alertingUrl}/rules`, { bearer: token, body: rule });
    expect(made.status, made.text).toBe(201);
  });

  test("without CLICKHOUSE_URL it says in one sentence what to set", async () => {
    const { CLICKHOUSE_URL: _none, ...env } = place.env;
    await using backend = new TestProcess([program, "serve"], env, join(app.path, "refused.out"));
    await eventually("its end", async () => backend.ended);
    expect(backend.child.exitCode).toBe(2);
    expect(backend.log).toMatch(/^atherops-backend: the embedded ClickHouse \(chDB\) is not installed here: set CLICKHOUSE_URL,.*\n$/m);
    expect(backend.log).not.toContain("    at ");
  });
});
