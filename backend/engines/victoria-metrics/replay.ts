// Replays the write journal into VictoriaMetrics, embedded or not, until the engine has accepted everything. Invariants: one replay runs at
// a time; a failed one is retried with increasing delays, because an engine that starts on a full disk refuses writes at first.
import type { Log } from "../../log.ts";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import { loginOf } from "../engine-http.ts";
import type { WriteJournal } from "./journal.ts";

const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;
const REMIND_MS = 300_000;
/** Longer than an insert waits in the engine's own queue, one minute. */
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
      began: (err) => log.error({ event: "metrics_journal.replay_failed", err }, "replay of the metrics journal failed, retrying"),
      reminded: (err, facts) =>
        log.error({ event: "metrics_journal.replay_failed", err, ...facts }, "replay of the metrics journal still fails, retrying"),
      ended: ({ failures, seconds }) =>
        log.info({ event: "metrics_journal.replay_recovered", failures, seconds }, "recovered: replay of the metrics journal works again"),
      remindEveryMs: REMIND_MS,
    });
  }

  /** Starts immediately. The first call resolves after the first attempt, even if the engine did not accept everything. */
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

  /** Stops; writes that are pending replay remain in the journal. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
  }

  /** Waits for the next start of the engine, unless another replay is pending already. */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    if (!this.#journal.isReplayPending) return undefined;
    const writes = await this.#journal.replay((path, body) => this.#send(path, body, signal));
    this.#outage.recovered();
    if (writes > 0) this.#log.info({ event: "metrics_journal.replayed", writes }, "metrics journal replayed");
    return this.#journal.isReplayPending ? 0 : undefined;
  }

  async #send(path: string, body: NonSharedBuffer, stopping: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(TIMEOUT_MS)]);
    const { url, headers } = loginOf(this.#url);
    const answer = await fetch(url + path, { method: "POST", body, headers, signal });
    await answer.body?.cancel();
    // On 400, the engine refused this content the first time, too, so the write was never acknowledged.
    if (answer.status >= 300 && answer.status !== 400) throw new Error(`the engine answered ${answer.status}`);
  }
}
