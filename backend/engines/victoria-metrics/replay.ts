// Gives the engine again what its journal owes it, until it has taken everything. Invariant: it goes on for as long as the engine runs,
// with growing pauses, because an engine that comes up on a full disk refuses writes at first; one replay is under way at a time.
import { Loop } from "../../../agent/common/loop.ts";
import { Outage } from "../../../agent/common/outage.ts";
import type { Log } from "../../observability/log.ts";
import { loginOf } from "../engine-login.ts";
import type { WriteJournal } from "./journal.ts";

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;
const REMIND_MS = 300_000;
/** Above the engine's own queue of one minute for inserts. */
const TIMEOUT_MS = 75_000;

export class Replay implements AsyncDisposable {
  readonly #journal: WriteJournal;
  readonly #log: Log;
  readonly #firstPauseMs: number;
  readonly #outage: Outage;
  #url = "";
  #loop: Loop | undefined;

  constructor(journal: WriteJournal, log: Log, firstPauseMs = FIRST_PAUSE_MS) {
    this.#journal = journal;
    this.#log = log;
    this.#firstPauseMs = firstPauseMs;
    this.#outage = new Outage({
      began: (err) => log.error({ err }, "the metrics engine refuses the writes of its journal; retrying"),
      reminded: (err, facts) => log.error({ err, ...facts }, "the metrics engine still refuses the writes of its journal; retrying"),
      ended: ({ failures, seconds }) => log.info({ failures, seconds }, "recovered: the metrics engine takes the writes of its journal"),
      remindEveryMs: REMIND_MS,
    });
  }

  /** Begins at once. The first time it resolves when the first attempt is over, whether or not the engine took everything. */
  async engineIsUp(url: string): Promise<void> {
    this.#url = url;
    if (this.#loop) return this.#loop.wake();
    const { promise: tried, resolve } = Promise.withResolvers<void>();
    this.#loop = new Loop({
      step: (signal) => this.#step(signal).finally(resolve),
      failed: (error) => this.#outage.failed(error),
      backoffMs: [this.#firstPauseMs, MAX_PAUSE_MS],
    });
    await Promise.race([tried, this.#loop.done]);
  }

  /** Ends what is under way; what is owed stays in the journal. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
  }

  /** Until the engine comes up anew, unless something is owed already. */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    if (!this.#journal.owes) return undefined;
    const writes = await this.#journal.replay((path, body) => this.#send(path, body, signal));
    this.#outage.recovered();
    if (writes > 0) this.#log.info({ writes }, "replayed the journal of the metrics engine");
    return this.#journal.owes ? 0 : undefined;
  }

  async #send(path: string, body: NonSharedBuffer, stopping: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(TIMEOUT_MS)]);
    const { url, headers } = loginOf(this.#url);
    const answer = await fetch(url + path, { method: "POST", body, headers, signal });
    await answer.body?.cancel();
    // 400: what the engine refuses for its content it refused then as well, and nobody was told that it was taken.
    if (answer.status >= 300 && answer.status !== 400) throw new Error(`the engine answered ${answer.status}`);
  }
}
