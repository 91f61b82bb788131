// Kills the backend with SIGKILL under load repeatedly: all data that was acknowledged with 204 is there afterwards, exactly once, although
// senders repeated requests in between. (Kills of its engines alone: backend-engines.test.ts.)
import { beforeAll, expect, test } from "vitest";
import { type Tenant } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { expectExactSummariesIn } from "../fixtures/exact-summaries.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";
import { isAlive } from "../fixtures/process-state.ts";
import { lossesOf, NOTHING_LOST, Senders, SIGNALS } from "../fixtures/senders.ts";

const KILLS = 10;
/** Each kill is a whole start of the backend: seconds, but tens of them on a machine that is busy with something else. */
const TIMEOUT_MS = 600_000;

const backend = backendOfFile({ JWT_TTL: "2h" });
let tenant: Tenant;

beforeAll(async () => {
  tenant = await backend.tenant("load");
});

const enginePids = (): number[] => [backend.enginePid("victoria-metrics"), backend.enginePid("vmalert")];

/** Waits until some more bodies of each signal are acknowledged. */
async function moreOf(senders: Senders, bodies: number): Promise<void> {
  for (const signal of SIGNALS) {
    const before = senders.acknowledged(signal).length;
    await eventually(`${bodies} more ${signal}`, async () => senders.acknowledged(signal).length >= before + bodies);
  }
}

test(
  `after ${KILLS} kill -9 under load, all acknowledged data is readable exactly once, and no engine process is left`,
  async () => {
    await using senders = new Senders({ apiUrl: backend.apiUrl, tenant });
    for (let kill = 0; kill < KILLS; kill += 1) {
      await moreOf(senders, 2 + kill);
      const orphans = enginePids();
      await backend.end("SIGKILL");
      expect(orphans.map(isAlive)).toEqual([true, true]);
      await backend.start();
      expect(orphans.map(isAlive)).toEqual([false, false]);
      expect(enginePids().map(isAlive)).toEqual([true, true]);
      expect(backend.log).toContain("ended the engine of a killed backend");
    }
    await moreOf(senders, 5);
    await senders.finish();
    console.log(`${KILLS} kills: ${SIGNALS.map((signal) => `${senders.acknowledged(signal).length} bodies of ${signal}`).join(", ")};`);
    console.log(`${senders.retried} of them sent more than once; answers ${JSON.stringify(Object.fromEntries(senders.answers))}`);
    expect(senders.retried).toBeGreaterThan(KILLS);
    expect([...senders.answers.keys()].filter((answer) => !/^(204|no answer|50[23] .*again after)/.test(answer))).toEqual([]);
    for (const signal of SIGNALS) {
      await eventually(`every acknowledged record of ${signal} is readable once`, async () => {
        expect(await lossesOf(backend.apiUrl, tenant.token, signal, senders.sent)).toEqual(NOTHING_LOST);
        return true;
      });
    }
    await backend.end();
    console.log(`rows that the summaries count, as many as there are: ${JSON.stringify(await expectExactSummariesIn(backend.dataDir))}`);
  },
  TIMEOUT_MS,
);

test("killing backend and metrics engine together loses no acknowledged data", async () => {
  if (backend.ended) await backend.start();
  const numbers = Array.from({ length: 500 }, (_, index) => String(index));
  const body = numbers.map((n) => `numbered{n="${n}"} 1 ${Date.now()}\n`).join("");
  expect((await signedPost(backend.apiUrl, "/ingest", tenant.apiKey, body)).status).toBe(204);
  const engine = backend.enginePid("victoria-metrics");
  backend.child.kill("SIGKILL");
  process.kill(engine, "SIGKILL");
  await backend.end();
  await backend.start();
  const url = `${backend.apiUrl}/query/prometheus/api/v1/label/n/values?match[]=numbered`;
  await eventually(
    "every acknowledged sample is stored",
    async () => {
      const stored = new Set((await call("GET", url, { bearer: tenant.token })).json.data as string[]);
      return numbers.every((n) => stored.has(n));
    },
    120_000,
  );
});
