// Sends the telemetry of the nodes of docs/sizing.md, several nodes in a body: a round is one body of log records and two of spans, and in
// every tenth round one of samples. The kinds of records have the proportions of a node, whatever the size of a body.
import { setTimeout as sleep } from "node:timers/promises";
import { INGEST_PATHS, LoadBody } from "../../fixtures/otlp-load.ts";
import { signedPost } from "../../fixtures/processes.ts";
import { expositionBody } from "../peers/bodies.ts";
import { ROUNDS_OF_A_SCRAPE, type Shape, SPAN_BODIES } from "./simulate.ts";

/** Records of a node per second. */
export const LINES = 25;
export const SPANS = 10;
export const SAMPLES = 2000 / 30;

export interface Sender {
  readonly apiUrl: string;
  readonly apiKey: string;
}

export interface Sent {
  readonly rounds: number;
  readonly failures: number;
  readonly seconds: number;
}

/** Late rounds are sent at once. On a busy machine, the rate may be lower than requested. */
export async function sendRounds(senders: readonly Sender[], { roundsPerSecond, nodesOfARound }: Shape, seconds: number): Promise<Sent> {
  let [rounds, failures] = [0, 0];
  const startedMs = performance.now();
  const periodMs = (1000 * senders.length) / roundsPerSecond;
  const run = async ({ apiUrl, apiKey }: Sender, index: number): Promise<void> => {
    const post = async (path: string, body: Uint8Array): Promise<void> => {
      const answer = await signedPost(apiUrl, path, apiKey, body).catch(() => undefined);
      if (answer?.status !== 204) failures += 1;
    };
    const logs = new LoadBody("logs", Math.round(nodesOfARound * LINES));
    const spans = Array.from({ length: SPAN_BODIES }, () => new LoadBody("spans", Math.round((nodesOfARound * SPANS) / SPAN_BODIES)));
    const samples = expositionBody(Math.round(nodesOfARound * SAMPLES * ROUNDS_OF_A_SCRAPE), 0);
    for (let round = 0; ; round += 1) {
      const dueMs = startedMs + (round + index / senders.length) * periodMs;
      if (dueMs >= startedMs + seconds * 1000 || performance.now() >= startedMs + seconds * 1000) return;
      // Paces the load.
      await sleep(Math.max(0, dueMs - performance.now()));
      await Promise.all([
        post(INGEST_PATHS.logs, logs.next()),
        ...spans.map((body) => post(INGEST_PATHS.spans, body.next())),
        ...((round + index) % ROUNDS_OF_A_SCRAPE === 0 ? [post("/ingest", samples.next())] : []),
      ]);
      rounds += 1;
    }
  };
  await Promise.all(senders.map(run));
  return { rounds, failures, seconds: (performance.now() - startedMs) / 1000 };
}
