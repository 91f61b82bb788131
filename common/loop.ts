// A loop in the background: takes a step, sleeps as long as that step asks, backs off after failures, stops. Invariants: steps never
// overlap; a wake-up during a step is not lost; nothing runs after the loop was disposed; it never rejects.

/** Between failures in a row: doubling from the first to the second, milliseconds. */
export type Backoff = readonly [firstMs: number, mostMs: number];

export const DEFAULT_BACKOFF: Backoff = [1000, 30_000];

/** setTimeout fires at once for anything longer. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface LoopOptions {
  /** Answers how many milliseconds to sleep before the next step; undefined: until woken. */
  readonly step: (signal: AbortSignal) => Promise<number | undefined>;
  /** Called with each error of a step, unless the loop stops; `failures` in a row. May return the minimum time to wait (a Retry-After). */
  readonly failed: (error: unknown, failures: number) => number | undefined | void;
  /** The most also bounds what `failed` asks for. */
  readonly backoffMs?: Backoff | undefined;
  /** Before the first step; 0 unless given. */
  readonly firstAfterMs?: number;
  /** Stops the loop, as disposing it does. */
  readonly signal?: AbortSignal | undefined;
  readonly random?: (() => number) | undefined;
}

/** Starts on its own, after the caller's present statement. */
export class Loop implements AsyncDisposable {
  /** Resolves when the loop has stopped. */
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

  /** Ends the present sleep, also that of a backoff; during a step, the next one follows at once. */
  wake(): void {
    this.#wakeup.wake();
  }

  /** Resolves when the present step is over. A step that calls it must not await it. */
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

/** A sleep that can be ended from outside. A wake-up is kept until it is cleared or has ended one sleep. */
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

  /** Until woken, until `signal` aborts, and at most `ms` (undefined: for ever). One caller at a time. Never rejects. */
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

/** Sleeps for `ms`, at most until `signal` aborts. Never rejects. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await new Wakeup().wait(ms, signal);
}

/** Asks now and every so often until the answer is yes, or `signal` aborts. Answers whether it was. */
export async function pollUntil(isSo: () => boolean | Promise<boolean>, everyMs: number, signal: AbortSignal): Promise<boolean> {
  while (!(await isSo())) {
    if (signal.aborted) return false;
    await pause(everyMs, signal);
  }
  return true;
}

/** After so many failures in a row (1 and more): half to the whole of the doubled time, so that many clients spread. */
export function backoffOf(failures: number, [firstMs, mostMs]: Backoff, random: () => number = Math.random): number {
  return Math.round(Math.min(firstMs * 2 ** (failures - 1), mostMs) * (0.5 + random() / 2));
}

/** The backoff, or the time that a server asked for where that is longer; it cannot ask for more than the most. */
export function retryAfterMs(failures: number, askedMs: number, backoffMs: Backoff, random?: () => number): number {
  return Math.max(backoffOf(failures, backoffMs, random), Math.min(askedMs, backoffMs[1]));
}

/** Around `ms`, ± 10 %: what many do every so often is not done by all at once. */
export function spread(ms: number, random: () => number = Math.random): number {
  return ms * (0.9 + random() * 0.2);
}
