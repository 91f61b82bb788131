// Divides long work into slices of the event loop, so that other requests are answered in between, and counts the time of the work itself.
// Invariant: each turn of the event loop has one slice, however many works are divided (main-thread.ts).
import { setImmediate as nextTurn } from "node:timers/promises";
import { OnePerTurn } from "./main-thread.ts";
import { currentOwner } from "./request-owner.ts";

const SLICE_MS = 5;
/** Each work waits at most once, and the work is limited where it comes from. */
const turns = new OnePerTurn(Number.POSITIVE_INFINITY);

export class TimeSlices {
  readonly #owner: string;
  readonly #nowMs: () => number;
  #beganMs: number;
  #earlierMs = 0;

  /** `owner`: for whom the work is done. */
  constructor({ owner = currentOwner(), nowMs = () => performance.now() }: { owner?: string; nowMs?: () => number } = {}) {
    this.#owner = owner;
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
    await turns.run(this.#owner, () => undefined);
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
