// Divides long work into slices of the event loop, so that other requests are answered in between, and counts the time of the work itself.
import { setImmediate as nextTurn } from "node:timers/promises";

const SLICE_MS = 10;

export class TimeSlices {
  readonly #nowMs: () => number;
  #beganMs: number;
  #earlierMs = 0;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
    this.#beganMs = nowMs();
  }

  /** Milliseconds of work so far, without the time of other work in between. */
  get busyMs(): number {
    return this.#earlierMs + this.#nowMs() - this.#beganMs;
  }

  /** True if `next` should be called, between two steps of the work. */
  get isOver(): boolean {
    return this.#nowMs() - this.#beganMs >= SLICE_MS;
  }

  async next(): Promise<void> {
    this.#earlierMs = this.busyMs;
    await nextTurn();
    this.#beganMs = this.#nowMs();
  }

  async map<T, R>(items: readonly T[], work: (item: T) => R): Promise<R[]> {
    const results: R[] = [];
    for (const item of items) {
      if (this.isOver) await this.next();
      results.push(work(item));
    }
    return results;
  }
}
