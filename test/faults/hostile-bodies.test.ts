// One tenant sends the bodies with the highest cost for their size as fast as possible: resources copied into thousands of records, and
// JSON of every dense shape. The backend's memory stays within the limits of docs/guarantees.md, another tenant's ordinary bodies are
// stored within seconds meanwhile, and each body gets a final response. Prints the figures.
import { gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { HOSTILE_BODIES } from "../../backend/ingest/otlp/hostile-bodies.fixture.ts";
import { logRecord, logsBody, nanosecondsOf } from "../../backend/ingest/otlp/otlp-body.fixture.ts";
import { residentMib } from "../fixtures/process-state.ts";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";
import { nameOf } from "../fixtures/senders.ts";

const PATHS = { logs: "/ingest/logs/otlp", traces: "/ingest/traces" };
/** Limit of a pod of the API: memory of the process with the default of INGEST_MEMORY_MIB, including its embedded engine. */
const LIMIT_MIB = 2048;
const SENDERS = 8;
/** Of each body. */
const COPIES = 2;
/** Alone it is milliseconds; a body of others that is being decoded is waited for. */
const SECONDS_FOR_OTHERS = 20;

const backend = backendOfFile();
let tenants: Tenant[];

beforeAll(async () => {
  tenants = await Promise.all(["hostile", "good"].map((name) => backend.tenant(name)));
  await backend.loadLogs(tenants[1] as Tenant);
});
/** A body as an agent sends it, some 100 kB. */
function ordinary(): Buffer {
  const now = nanosecondsOf(new Date());
  return logsBody(Array.from({ length: 400 }, (_, index) => logRecord(now + BigInt(index), "x".repeat(150))));
}

test("bodies that cost most for their size do not affect others, however many are sent, and each gets a final response", async () => {
  const [hostile, good] = tenants as [Tenant, Tenant];
  const before = residentMib(backend.pid, "VmRSS");
  const attacks = HOSTILE_BODIES.map(({ name, signal, answer, make }) => ({ name, path: PATHS[signal], answer, body: gzipSync(make()) }));
  const answers = new Map<string, Set<string>>(attacks.map(({ name }) => [name, new Set()]));
  const queue = Array.from({ length: COPIES }, () => attacks).flat();
  const over = new AbortController();
  const waits: number[] = [];
  const others = (async () => {
    while (!over.signal.aborted) {
      const startedAt = Date.now();
      const body = ordinary();
      await eventually(
        "another tenant's body is stored",
        async () => (await signedPost(backend.apiUrl, "/ingest/logs/otlp", good.apiKey, body)).status === 204,
      );
      waits.push(Date.now() - startedAt);
    }
  })();
  const startedAt = Date.now();
  const send = async (): Promise<void> => {
    for (let attack = queue.shift(); attack; attack = queue.shift()) {
      const answer = await signedPost(backend.apiUrl, attack.path, hostile.apiKey, attack.body, { "content-encoding": "gzip" });
      answers.get(attack.name)?.add(nameOf(answer));
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, send));
  over.abort();
  await others;
  const peak = residentMib(backend.pid, "VmHWM");
  waits.sort((a, b) => a - b);
  console.log(
    `${attacks.length * COPIES} hostile bodies in ${Math.round((Date.now() - startedAt) / 1000)} s; another tenant's ${waits.length} bodies: median ${waits[waits.length >> 1]} ms, longest ${waits.at(-1)} ms; resident ${before} MiB before, peak ${peak} MiB`,
  );
  console.log([...answers].map(([name, of]) => `  ${name}: ${[...of].join(", ")}`).join("\n"));
  for (const { name, answer: final } of attacks) {
    expect([name, [final, "503 unavailable, again after 1 s"]]).toEqual([name, expect.arrayContaining([...(answers.get(name) ?? [])])]);
  }
  expect(peak).toBeLessThan(LIMIT_MIB);
  expect(waits.at(-1)).toBeLessThan(SECONDS_FOR_OTHERS * 1000);
  const health = await call("GET", `${backend.healthUrl}/readyz`);
  expect(health.status).toBe(200);
  // A sender that respects its final response does not retry forever. Most bodies had it under load.
  for (const { name, path, answer: final, body } of attacks.filter((attack) => !answers.get(attack.name)?.has(attack.answer))) {
    const last = await eventually(`${name} is answered`, async () => {
      const answer = nameOf(await signedPost(backend.apiUrl, path, hostile.apiKey, body, { "content-encoding": "gzip" }));
      return answer.startsWith("503") ? undefined : answer;
    });
    expect([name, last]).toEqual([name, final]);
  }
}, 600_000);
