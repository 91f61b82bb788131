// The backend, or backend and agent, away while a log file grows, with real processes: every line is stored. (Kills of the collector and stops of
// the agent: agent-killed.test.ts.)
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { hostAgentPlace, startHostAgent, type AgentPlace } from "../fixtures/host-agent-process.ts";
import { allRows, eventually, type TestProcess } from "../fixtures/processes.ts";

const SEQUENCE = 10_000;
/** Longer than several retries of the collector and of the agent. */
const AWAY_MS = 15_000;
const backend = backendOfFile({ JWT_TTL: "2h" });
let agentPlace: AgentPlace;
let agent: TestProcess;
let token: string;

beforeAll(async () => {
  token = await backend.operator();
  agentPlace = await hostAgentPlace(backend.folder, backend.apiUrl, { INSTALL_TOKEN: await backend.installToken(token), SIGNALS: "logs" });
  agent = await startHostAgent(agentPlace);
});

afterAll(async () => {
  await agent?.end();
});

/** How often each number of a sequence is stored. */
async function stored(sequence: string): Promise<Map<number, number>> {
  const seen = new Map<number, number>();
  for (const { message } of await allRows<{ message: string }>(`${backend.apiUrl}/query/logs?limit=500&q=${sequence}`, token)) {
    const number = Number(message.split(" ")[1]);
    seen.set(number, (seen.get(number) ?? 0) + 1);
  }
  return seen;
}

/** Appends the numbered sequence in small pieces while `meanwhile` runs, then waits until every number is stored. */
async function writeWhile(sequence: string, meanwhile: () => Promise<void>): Promise<{ missing: number; doubled: number }> {
  const file = join(agentPlace.logFolder, `${sequence}.log`);
  const disturbance = meanwhile();
  for (let first = 0; first < SEQUENCE; first += 100) {
    appendFileSync(
      file,
      Array.from({ length: 100 }, (_, index) => `${sequence} ${first + index} padding to look like a line of log\n`).join(""),
    );
    // Writes at a pace, so that the disturbance comes in between.
    await sleep(20);
  }
  await disturbance;
  const seen = await eventually(
    `all ${SEQUENCE} lines of ${sequence}`,
    async () => {
      const now = await stored(sequence);
      return now.size === SEQUENCE && now;
    },
    120_000,
  ).catch(() => stored(sequence));
  return { missing: SEQUENCE - seen.size, doubled: [...seen.values()].filter((count) => count > 1).length };
}

test("loses and repeats none of 10,000 lines that are written while the backend is unavailable", async () => {
  const outcome = await writeWhile("backend-away", async () => {
    // In the middle of the writing.
    await sleep(500);
    await backend.end("SIGKILL");
    // The length of the outage.
    await sleep(AWAY_MS);
    await backend.start();
  });
  console.log("backend away:", outcome);
  expect(outcome).toEqual({ missing: 0, doubled: 0 });
});

test("replaces the orphaned collector of a killed agent while the backend is unavailable, and loses no line", async () => {
  const outcome = await writeWhile("kill-agent", async () => {
    await backend.end("SIGKILL");
    await agent.end("SIGKILL");
    const started = startHostAgent(agentPlace).catch((error: unknown) => error);
    // The backend is unavailable for longer than a retry of the agent.
    await sleep(3000);
    await backend.start();
    const result = await started;
    if (result instanceof Error) throw result;
    agent = result as TestProcess;
  });
  console.log("agent killed:", outcome);
  expect(outcome.missing).toBe(0);
});
