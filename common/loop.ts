// Runs a background loop: executes a step, sleeps as long as the step requests, backs off after failures, and stops on demand. Invariants:
// steps never overlap; a wake-up during a step is not lost; nothing runs after the loop was disposed; it never rejects.

/** Waits between consecutive failures, in milliseconds: doubled from the first value up to the second. */
export type Backoff = readonly [firstMs: number, mostMs: number];

export const DEFAULT_BACKOFF: Backoff = [1000, 30_000];

/** setTimeout fires at once for longer times. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface LoopOptions {
  /** Returns how many milliseconds to sleep before the next step; undefined: until woken. */
  readonly step: (signal: AbortSignal) => Promise<number | undefined>;
  /**
   * Called with each error of a step, unless the loop is stopping; `failures`: how many in a row. May return the minimum time to wait (a
   * Retry-After).
   */
  readonly failed: (error: unknown, failures: number) => number | undefined | void;
  /** Its upper value also limits the time that `failed` returns. */
  readonly backoffMs?: Backoff | undefined;
  /** Wait before the first step; 0 by default. */
  readonly firstAfterMs?: number;
  /** Aborting it stops the loop, like disposing the loop. */
  readonly signal?: AbortSignal | undefined;
  readonly random?: (() => number) | undefined;
}

/** Starts by itself once the caller's current statement has finished. */
export class Loop implements AsyncDisposable {
  /** Resolves once the loop has stopped. */
  readonly done: Promise<void>;
  readonly #options: LoopOptions;
  readonly #stop = new AbortController();
  readonly #wakeup = new Wakeup();
  readonly #signal: AbortSignal;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#signal = options.signal ? AbortSignal.any([options.signal, this.#stop.signal]) : this.#stop.signal;
    this.done = Promise.resolve().then(() => this.#run());
  }

  /** Ends the current sleep or backoff; during a step, the next step follows at once. */
  wake(): void {
    this.#wakeup.wake();
  }

  /** Resolves once the current step has ended. A step that disposes its own loop must not await this. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.done;
  }

  async #run(): Promise<void> {
    const { step, failed, backoffMs = DEFAULT_BACKOFF, firstAfterMs = 0, random } = this.#options;
    const signal = this.#signal;
    await this.#wakeup.wait(firstAfterMs, signal);
    for (let failures = 0; !signal.aborted;) {
      this.#wakeup.clear();
      let waitMs: number | undefined;
      try {
        waitMs = await step(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
        const askedMs = failed(error, failures) ?? 0;
        waitMs = retryAfterMs(failures, askedMs, backoffMs, random);
      }
      await this.#wakeup.wait(waitMs, signal);
    }
  }
}

/** A sleep that can be interrupted. A wake-up is stored until it is cleared or has ended one sleep. */
export class Wakeup {
  #isDue = false;
  #end: (() => void) | undefined;

  wake(): void {
    this.#isDue = true;
    this.#end?.();
  }

  clear(): void {
    this.#isDue = false;
  }

  /** Waits until woken, until `signal` aborts, or for `ms` (undefined: without limit). One caller at a time. Never rejects. */
  async wait(ms: number | undefined, signal?: AbortSignal): Promise<void> {
    if (!this.#isDue && !signal?.aborted && (ms === undefined || ms > 0)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = ms === undefined ? undefined : setTimeout(resolve, Math.min(ms, LONGEST_TIMER_MS));
      const end = (): void => resolve();
      this.#end = end;
      signal?.addEventListener("abort", end, { once: true });
      await promise;
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      this.#end = undefined;
    }
    this.#isDue = false;
  }
}

/** Sleeps for `ms` (undefined: without limit), or until `signal` aborts. Never rejects. */
export async function pause(ms: number | undefined, signal?: AbortSignal): Promise<void> {
  await new Wakeup().wait(ms, signal);
}

/** Waits for `work`, but at most `ms`: what a signal aborts may still hang in a write to a store. */
export async function settleWithin(work: readonly Promise<unknown>[], ms: number): Promise<void> {
  const pauseStop = new AbortController();
  const all = Promise.allSettled(work).then(() => pauseStop.abort());
  await Promise.race([all, pause(ms, pauseStop.signal)]);
}

/** Checks at once and periodically, until the result is true or `signal` aborts. Returns the last result. */
export async function pollUntil(isSo: () => boolean | Promise<boolean>, everyMs: number, signal: AbortSignal): Promise<boolean> {
  while (!(await isSo())) {
    if (signal.aborted) return false;
    await pause(everyMs, signal);
  }
  return true;
}

/**
 * Backoff after this many failures in a row (at least 1): random between half of the doubled time and all of it, so that many clients
 * spread.
 */
export function backoffOf(failures: number, [firstMs, mostMs]: Backoff, random: () => number = Math.random): number {
  return Math.round(Math.min(firstMs * 2 ** (failures - 1), mostMs) * (0.5 + random() / 2));
}

/** The backoff or the time that a server requested, whichever is longer, up to the longest backoff. */
export function retryAfterMs(failures: number, askedMs: number, backoffMs: Backoff, random?: () => number): number {
  return Math.max(backoffOf(failures, backoffMs, random), Math.min(askedMs, backoffMs[1]));
}

/** `ms` ± 10 %, so that many clients do not act at the same time. */
export function spread(ms: number, random: () => number = Math.random): number {
  return ms * (0.9 + random() * 0.2);
}
