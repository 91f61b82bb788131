// Tells an outage in a few lines instead of one per refused request: when it begins (with its cause), every half minute how many more, and
// when it has ended. Invariant: nothing of a failure's kind is lost, only its repetitions are counted.
import type { Log } from "../observability/log.ts";

const INTERVAL_MS = 30_000;

interface Chapter {
  since: number;
  last: number;
  all: number;
}

export class FailureStory implements Disposable {
  readonly #log: Log;
  readonly #chapters = new Map<string, Chapter>();
  readonly #timer: NodeJS.Timeout;

  constructor(log: Log, intervalMs = INTERVAL_MS) {
    this.#log = log;
    this.#timer = setInterval(() => this.#review(), intervalMs).unref();
  }

  /** `what` is the message of the answer; failures with the same one are one outage. */
  failed(what: string, cause: unknown, context: Record<string, unknown>): void {
    const chapter = this.#chapters.get(what);
    if (chapter) {
      chapter.last += 1;
      chapter.all += 1;
      return;
    }
    this.#chapters.set(what, { since: Date.now(), last: 0, all: 1 });
    const { message, cause: deeper } = cause instanceof Error ? cause : new Error(String(cause));
    this.#log.error({ ...context, cause: deeper instanceof Error ? `${message}: ${deeper.message}` : message }, what);
  }

  #review(): void {
    for (const [what, chapter] of this.#chapters) {
      const seconds = Math.round((Date.now() - chapter.since) / 1000);
      if (chapter.last > 0) this.#log.warn({ requests: chapter.all, seconds }, `still: ${what}`);
      else {
        this.#log.info({ requests: chapter.all, seconds }, `no more: ${what}`);
        this.#chapters.delete(what);
      }
      chapter.last = 0;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
