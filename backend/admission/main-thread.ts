// Runs work that takes this thread some milliseconds, one piece in each turn of the event loop, so that other requests are served in between.
// Invariant: the queue is fair, so however many pieces of one organisation wait, the next piece of another one is not behind them.
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { FairQueue } from "./fair-queue.ts";

const MAX_WAITING_PER_ORG = 256;
const RETRY_AFTER_S = 1;

export class OnePerTurn {
  readonly #queue: FairQueue;

  constructor(waitingPerOrg: number) {
    this.#queue = new FairQueue({ running: 1, waitingPerOrg, retryAfterS: RETRY_AFTER_S });
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  /**
   * Returns the result of `work`, and starts the next piece in the next turn: for an asynchronous one, when it has done what it does at
   * once. Throws QueueFullError.
   */
  run<T>(orgId: string, work: () => T | Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const slot = this.#queue.run(orgId, undefined, async () => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
      await yieldToEventLoop();
    });
    slot.catch(reject);
    return promise;
  }
}

/** For all short work. Slices of long work have their own queue (time-slices.ts): they would wait for all short work of their organisation. */
export const mainThread = new OnePerTurn(MAX_WAITING_PER_ORG);
