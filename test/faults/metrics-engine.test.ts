// Kills the metrics engine of a real backend under load repeatedly: 502 with Retry-After while it is down, recovery without a restart of
// the backend, and no loss of data that was acknowledged with 204, including the engine's last second.
import { beforeAll, expect, test } from "vitest";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";

const KILLS = 3;
const SAMPLES_A_BODY = 20;

const backend = backendOfFile();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("numbered");
});
function enginePid(): number {
  return backend.enginePid("victoria-metrics");
}

async function storedNumbers(): Promise<Set<string>> {
  const answer = await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/label/n/values?match[]=numbered`, { bearer: tenant.token });
  return new Set(answer.json.data as string[]);
}

test("killed under load, the engine is 502 until it is back, and every acknowledged sample is there afterwards", async () => {
  const acknowledged: string[] = [];
  const answers: Record<string, number> = {};
  let next = 0;
  async function send(): Promise<number> {
    const numbers = Array.from({ length: SAMPLES_A_BODY }, () => String(next++));
    const body = numbers.map((n) => `numbered{n="${n}"} 1 ${Date.now()}\n`).join("");
    const { status, headers } = await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, body);
    if (status === 204) acknowledged.push(...numbers);
    const kind = `${status} ${headers.has("retry-after") ? "Retry-After" : ""}`.trim();
    answers[kind] = (answers[kind] ?? 0) + 1;
    return status;
  }
  const downMs: number[] = [];
  for (let kill = 0; kill < KILLS; kill += 1) {
    for (let body = 0; body < 50; body += 1) await send();
    process.kill(enginePid(), "SIGKILL");
    const killedAt = Date.now();
    while ((await send()) !== 502);
    while ((await send()) !== 204);
    downMs.push(Date.now() - killedAt);
  }
  for (let body = 0; body < 50; body += 1) await send();
  expect(Object.keys(answers).sort()).toEqual(["204", "502 Retry-After"]);
  await eventually(
    "every acknowledged sample is stored",
    async () => {
      const stored = await storedNumbers();
      return acknowledged.every((n) => stored.has(n));
    },
    120_000,
  );
  console.log(
    `engine killed ${KILLS} times: back after ${downMs.join(", ")} ms; ${acknowledged.length} samples acknowledged, none missing`,
  );
  expect(backend.ended).toBe(false);
  expect(await fetch(`${backend.healthUrl}/metrics`).then((answer) => answer.text())).toContain(
    `atherops_engine_restarts_total{engine="victoria-metrics"} ${KILLS}`,
  );
});

test("backend and engine killed together lose nothing that was acknowledged", async () => {
  const numbers = Array.from({ length: 500 }, (_, index) => String(1_000_000 + index));
  const body = numbers.map((n) => `numbered{n="${n}"} 1 ${Date.now()}\n`).join("");
  expect((await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, body)).status).toBe(204);
  const engine = enginePid();
  backend.child.kill("SIGKILL");
  process.kill(engine, "SIGKILL");
  await backend.end();
  await backend.start();
  await eventually(
    "every acknowledged sample is stored",
    async () => {
      const stored = await storedNumbers();
      return numbers.every((n) => stored.has(n));
    },
    120_000,
  );
});
