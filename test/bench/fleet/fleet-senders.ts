// Sends a fleet's requests at a fixed rate, whatever the response times: the keys take turns, and each request goes to the next replica.
// Invariant: the number of requests in flight is limited; at the limit, the fleet waits and reports for how long.
import { setTimeout as sleep } from "node:timers/promises";
import { Pool } from "undici";
import { sign } from "../../../common/protocol/signature.ts";
import type { FleetKey } from "./fill.ts";

const CONNECTIONS = 128;
const MAX_UNDER_WAY = 2000;
const TICK_MS = 10;

export interface Outgoing {
  readonly path: string;
  readonly body: string | Buffer;
  readonly headers?: Record<string, string>;
}

export class Fleet implements AsyncDisposable {
  readonly #pools: readonly Pool[];
  #underWay = 0;
  /** By kind of request: the number of each status, and the response times in ms. */
  readonly answers = new Map<string, Map<string, number>>();
  readonly times = new Map<string, number[]>();
  heldMs = 0;

  constructor(urls: readonly string[]) {
    this.#pools = urls.map((url) => new Pool(url, { connections: CONNECTIONS }));
  }

  /** Returns the status and the text. */
  async post(what: string, replica: number, { apiKey }: FleetKey, { path, body, headers }: Outgoing): Promise<[number, string]> {
    const startedAt = performance.now();
    this.#underWay += 1;
    try {
      const signed = { ...sign(apiKey, "POST", path, Date.now() / 1000), "content-type": "application/json", ...headers };
      const pool = this.#pools[replica % this.#pools.length] as Pool;
      const answer = await pool.request({ method: "POST", path, headers: signed, body });
      const text = await answer.body.text();
      this.#count(what, String(answer.statusCode), performance.now() - startedAt);
      return [answer.statusCode, text];
    } catch (error) {
      this.#count(what, (error as NodeJS.ErrnoException).code ?? String(error), performance.now() - startedAt);
      return [0, ""];
    } finally {
      this.#underWay -= 1;
    }
  }

  /** Calls `send(n)` `perSecond` times a second, until `until`; resolves when all are answered. */
  async paced(perSecond: number, until: AbortSignal, send: (n: number) => Promise<unknown>): Promise<void> {
    const startedAt = performance.now();
    let heldMs = 0;
    const sent = new Set<Promise<unknown>>();
    for (let n = 0; !until.aborted;) {
      const due = ((performance.now() - startedAt - heldMs) * perSecond) / 1000;
      for (; n < due && this.#underWay < MAX_UNDER_WAY; n += 1) {
        const one = send(n).finally(() => sent.delete(one));
        sent.add(one);
      }
      const pausedAt = performance.now();
      await sleep(TICK_MS);
      if (n < due) heldMs += performance.now() - pausedAt;
    }
    await Promise.all(sent);
    this.heldMs += heldMs;
  }

  /** Counts a response of a request that was sent elsewhere. */
  count(what: string, status: number): void {
    this.#count(what, String(status));
  }

  #count(what: string, status: string, ms?: number): void {
    const statuses = this.answers.get(what) ?? new Map<string, number>();
    this.answers.set(what, statuses.set(status, (statuses.get(status) ?? 0) + 1));
    if (ms === undefined) return;
    const times = this.times.get(what) ?? [];
    this.times.set(what, times);
    times.push(ms);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.destroy()));
  }
}
