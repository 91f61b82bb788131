// Gives the engine again what its journal owes it, until it has taken everything. Invariant: it goes on for as long as the engine runs,
// with growing pauses, because an engine that comes up on a full disk refuses writes at first; one replay is under way at a time.
import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../observability/log.ts";
import { loginOf } from "../engine-login.ts";
import type { WriteJournal } from "./journal.ts";

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;
/** Above the engine's own queue of one minute for inserts. */
const TIMEOUT_MS = 75_000;

export class Replay implements AsyncDisposable {
  readonly #journal: WriteJournal;
  readonly #log: Log;
  readonly #firstPauseMs: number;
  readonly #stopping = new AbortController();
  #url = "";
  #loop: Promise<void> | undefined;
  #wake: (() => void) | undefined;

  constructor(journal: WriteJournal, log: Log, firstPauseMs = FIRST_PAUSE_MS) {
    this.#journal = journal;
    this.#log = log;
    this.#firstPauseMs = firstPauseMs;
  }

  /** Begins at once. Resolves when the first attempt is over, whether or not the engine took everything; at once if it is at it already. */
  async engineIsUp(url: string): Promise<void> {
    this.#url = url;
    this.#wake?.();
    if (this.#loop) return;
    const { promise: tried, resolve } = Promise.withResolvers<void>();
    this.#loop = this.#run(resolve).finally(() => {
      this.#loop = undefined;
      resolve();
    });
    await tried;
  }

  /** Ends what is under way; what is owed stays in the journal. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    this.#wake?.();
    await this.#loop;
  }

  async #run(tried: () => void): Promise<void> {
    let writes = 0;
    for (let pauseMs = this.#firstPauseMs; this.#journal.owes && !this.#stopping.signal.aborted; pauseMs *= 2) {
      try {
        writes += await this.#journal.replay((path, body) => this.#send(path, body));
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        if (pauseMs === this.#firstPauseMs)
          this.#log.error({ err: error }, "the metrics engine does not take again what it may not have written to disk; trying on");
        tried();
        if (await this.#pause(Math.min(MAX_PAUSE_MS, pauseMs))) pauseMs = this.#firstPauseMs / 2;
      }
    }
    if (writes > 0) this.#log.info({ writes }, "gave the metrics engine again what it may not have written to disk");
  }

  /** Answers whether it was cut short, because the engine has come up anew. */
  async #pause(ms: number): Promise<boolean> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await sleep(ms, undefined, { signal: woken.signal }).catch(() => undefined);
    this.#wake = undefined;
    return woken.signal.aborted;
  }

  async #send(path: string, body: Buffer): Promise<void> {
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const { url, headers } = loginOf(this.#url);
    const answer = await fetch(url + path, { method: "POST", body: new Uint8Array(body), headers, signal });
    await answer.body?.cancel();
    // 400: what the engine refuses for its content it refused then as well, and nobody was told that it was taken.
    if (answer.status >= 300 && answer.status !== 400) throw new Error(`the engine answered ${answer.status}`);
  }
}
