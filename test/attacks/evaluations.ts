// Checks from outside whether alert rules are evaluated in time, with an Alertmanager that records when each rule's alert arrived. A rule
// that always fires sends an alert at each evaluation; a failed or late evaluation leaves a gap.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface EvaluationCounts {
  readonly rules: number;
  readonly came: number;
  /** Evaluations that did not happen, failed, or were late by a whole interval. */
  readonly missed: number;
  readonly longestGapMs: number;
}

export class Evaluations implements AsyncDisposable {
  readonly #server: Server;
  readonly #came = new Map<string, number[]>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(): Promise<Evaluations> {
    const server = createServer((request, response) => {
      text(request)
        .then((body) => evaluations.#take(body))
        .catch(() => undefined)
        .finally(() => response.end("{}"));
    });
    const evaluations = new Evaluations(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return evaluations;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** True once an alert of each of these rules has arrived. */
  haveCome(ruleIds: readonly string[]): boolean {
    return ruleIds.every((id) => this.#came.has(id));
  }

  /** Counts the evaluations of these rules between two values of performance.now(). */
  counts(ruleIds: readonly string[], intervalMs: number, fromMs: number, toMs: number): EvaluationCounts {
    let [came, missed, longestGapMs] = [0, 0, 0];
    for (const id of ruleIds) {
      const times = this.#came.get(id) ?? [];
      const before = times.findLast((time) => time < fromMs) ?? fromMs;
      const within = times.filter((time) => time >= fromMs && time <= toMs);
      came += within.length;
      for (const [index, time] of [...within, toMs].entries()) {
        const gap = time - (index === 0 ? before : (within[index - 1] ?? before));
        longestGapMs = Math.max(longestGapMs, Math.round(gap));
        missed += Math.max(0, Math.floor(gap / intervalMs + 0.1) - 1);
      }
    }
    return { rules: ruleIds.length, came, missed, longestGapMs };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #take(body: string): void {
    const now = performance.now();
    if (body === "") return;
    const ids = new Set((JSON.parse(body) as { labels: { rule_id?: string } }[]).map(({ labels }) => labels.rule_id ?? ""));
    for (const id of ids) this.#came.set(id, [...(this.#came.get(id) ?? []), now]);
  }
}
