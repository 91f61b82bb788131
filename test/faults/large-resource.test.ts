// An ordinary Java service whose `process.command_args` has 64 kB: 27,000 of its lines are 4 MB as the collector sends them, and 1.7 GB as
// they are stored. They are sent through the agent's proxy to a real backend, and retried as the collector does until they are accepted.
import { pino } from "pino";
import { beforeAll, expect, test } from "vitest";
import { startProxy } from "../../agent/proxy/server.ts";
import { createUpstream } from "../../agent/upstream/pool.ts";
import { logRecord, logsBody, nanosecondsOf, stringAttribute } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { residentMib } from "../fixtures/process-state.ts";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually } from "../fixtures/processes.ts";

const RECORDS = 27_000;
const LIMIT_MIB = 2048;

const backend = backendOfFile();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("java");
});
test("is stored whole and once, in parts, within its memory limit", { timeout: 600_000 }, async () => {
  await using upstream = createUpstream({ backendUrl: backend.apiUrl });
  const credential = { id: tenant.keyId, apiKey: tenant.apiKey, keyCreatedAt: new Date().toISOString() };
  await using proxy = await startProxy({
    listen: { host: "127.0.0.1", port: 0 },
    upstream,
    credentials: { current: () => credential, refresh: async () => credential },
    clock: { nowUnixS: () => Math.floor(Date.now() / 1000) },
    compression: "none",
    log: pino({ level: "silent" }),
  });
  const now = nanosecondsOf(new Date());
  const records = Array.from({ length: RECORDS }, (_, index) => logRecord(now + BigInt(index), `line ${index} end`));
  const attributes = [stringAttribute("service.name", "java"), stringAttribute("process.command_args", "-Dname=value ".repeat(5000))];
  const body = encodeProtobuf("logs", JSON.parse(logsBody(records, attributes).toString()) as object);
  const statuses: number[] = [];
  const startedAt = Date.now();
  await eventually(
    "the batch is taken",
    async () => {
      const answer = await call("POST", `http://127.0.0.1:${proxy.port}/v1/logs`, {
        body,
        headers: { "content-type": "application/x-protobuf" },
      });
      statuses.push(answer.status);
      return answer.status === 200;
    },
    400_000,
  );
  const peak = residentMib(backend.pid, "VmHWM");
  console.log(
    `${body.length} bytes taken after ${Math.round((Date.now() - startedAt) / 1000)} s, answers ${statuses.join(", ")}; peak ${peak} MiB`,
  );
  // Requests to retry are allowed, lost data is not.
  expect(new Set(statuses).isSubsetOf(new Set([200, 503]))).toBe(true);
  for (const index of [0, 1, 500, RECORDS / 2, RECORDS - 2, RECORDS - 1]) {
    const found = await call("GET", `${backend.apiUrl}/query/logs?source=java&limit=3&q=line%20${index}%20end`, { bearer: tenant.token });
    expect((found.json as { message: string }[]).map(({ message }) => message)).toEqual([`line ${index} end`]);
  }
  expect(proxy.status().logs).toMatchObject({ accepted: 1, refused: 0, droppedPoints: {} });
  expect(peak).toBeLessThan(LIMIT_MIB);
});
