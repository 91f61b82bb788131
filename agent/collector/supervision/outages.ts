// Lines that a receiver says again at each reading that fails: the first is passed on, then one more when it is over. Invariant: at most
// MAX_OUTAGES are followed, and a line that is not followed is passed on.
import type { Log } from "../../log.ts";
import { MAX_OUTAGES, MAX_QUIET_MS } from "../../limits.ts";

const MIN_QUIET_MS = 30_000;
/** So many times the pause between two repetitions without another, and it is over. */
const QUIET_PAUSES = 3;

/** They read one thing each, so that all they complain of is one story, in several lines a reading. */
const ONE_STORY = ["kubeletstats", "prometheus/cadvisor"];

interface Outage {
  readonly since: number;
  lastAt: number;
  /** Between the lines of two readings; 0 while there was one. */
  pauseMs: number;
  repeated: number;
  timer: NodeJS.Timeout;
}

export interface ReceiverLine {
  readonly receiver: string;
  /** All else that it says, but for the time. */
  readonly text: string;
}

export class Outages implements Disposable {
  readonly #log: Log;
  readonly #minQuietMs: number;
  readonly #outages = new Map<string, Outage>();

  constructor(log: Log, minQuietMs = MIN_QUIET_MS) {
    this.#log = log;
    this.#minQuietMs = minQuietMs;
  }

  /** False for what was said before and is not over. */
  isNews(line: ReceiverLine): boolean {
    const { receiver, text } = line;
    const key = ONE_STORY.includes(receiver) ? receiver : `${receiver}\n${text}`;
    const now = performance.now();
    const known = this.#outages.get(key);
    if (known) {
      clearTimeout(known.timer);
      // Lines of one reading come together.
      if (now - known.lastAt >= 500) {
        known.pauseMs = now - known.lastAt;
        known.repeated++;
      }
      known.lastAt = now;
      known.timer = this.#awaitEnd(key, receiver, known.pauseMs);
      return false;
    }
    if (this.#outages.size < MAX_OUTAGES) {
      this.#outages.set(key, { since: now, lastAt: now, pauseMs: 0, repeated: 0, timer: this.#awaitEnd(key, receiver, 0) });
    }
    return true;
  }

  #awaitEnd(key: string, receiver: string, pauseMs: number): NodeJS.Timeout {
    const quietMs = pauseMs === 0 ? MAX_QUIET_MS : Math.min(Math.max(pauseMs * QUIET_PAUSES, this.#minQuietMs), MAX_QUIET_MS);
    return setTimeout(() => this.#end(key, receiver), quietMs).unref();
  }

  #end(key: string, receiver: string): void {
    const { since, lastAt, repeated } = this.#outages.get(key) ?? { since: 0, lastAt: 0, repeated: 0 };
    this.#outages.delete(key);
    if (repeated === 0) return;
    const fields = { component: "collector", receiver, repeated, for_s: Math.round((lastAt - since) / 1000) };
    this.#log.info({ event: "collector.receiver_recovered", ...fields }, `${receiver} does not complain any more`);
  }

  /** Says nothing more. */
  [Symbol.dispose](): void {
    for (const { timer } of this.#outages.values()) clearTimeout(timer);
    this.#outages.clear();
  }
}
