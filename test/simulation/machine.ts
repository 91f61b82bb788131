// The machine on which a history runs: one virtual clock for everything, and processes that can be killed at any await. Invariants: time
// passes only between events; what a killed process had scheduled never happens; the same seed gives the same history.
import { Random } from "../../common/random.fixture.ts";
import type { Disk } from "./disk.ts";

interface Scheduled {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
  /** The process that it belongs to; 0: the world outside. */
  readonly process: number;
}

export interface WallClock {
  /** What it is ahead of the time that has passed. */
  aheadMs: number;
}

const OUTSIDE = 0;
/** Ends a history that cannot end by itself. */
const MAX_EVENTS = 100_000;
const EPOCH_MS = Date.UTC(2026, 10, 29);
// The real function: `install` replaces the global one.
const realImmediate = setImmediate;

export class Machine {
  readonly random: Random;
  disk!: Disk;
  nowMs = 0;
  /** The clock of processes that have no other. */
  readonly clock: WallClock = { aheadMs: 0 };
  #order = 0;
  #lastProcess = 0;
  /** The process whose code runs now. */
  #running = OUTSIDE;
  readonly #alive = new Map<number, WallClock>();
  #events = 0;
  /** A binary heap by time, then by order. */
  readonly #heap: Scheduled[] = [];

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  get wallMs(): number {
    return EPOCH_MS + this.nowMs + (this.#alive.get(this.#running) ?? this.clock).aheadMs;
  }

  /** Starts a process, whose code is run by `enter`. */
  spawn(clock = this.clock): number {
    this.#lastProcess += 1;
    this.#alive.set(this.#lastProcess, clock);
    return this.#lastProcess;
  }

  get running(): number {
    return this.#running;
  }

  isAlive(process: number): boolean {
    return this.#alive.has(process);
  }

  /** Nothing that the process waits for happens. */
  kill(process: number): void {
    this.#alive.delete(process);
  }

  /** Runs code of a process; what it schedules belongs to the process. To be called from an event outside, as its last call. */
  enter<T>(process: number, run: () => T): T {
    this.#running = process;
    return run();
  }

  /** Runs `run` in the process that is running; never if it is killed before. */
  inProcess(afterMs: number, run: () => void): void {
    this.#schedule(afterMs, run, this.#running);
  }

  outside(afterMs: number, run: () => void): void {
    this.#schedule(afterMs, run, OUTSIDE);
  }

  /** Resolves after a simulated delay, in the process. */
  delay(ms: number): Promise<void> {
    return new Promise((resolve) => this.inProcess(ms, resolve));
  }

  /** Lets time pass until `isOver`, or up to `untilMs`. Returns whether it is over. */
  async runUntil(isOver: () => boolean, untilMs: number): Promise<boolean> {
    await drain();
    while (!isOver()) {
      const next = this.#take();
      if (!next || next.atMs > untilMs) {
        if (next) this.#push(next);
        this.nowMs = Math.max(this.nowMs, untilMs);
        return isOver();
      }
      if (next.process !== OUTSIDE && !this.#alive.has(next.process)) continue;
      this.#events += 1;
      if (this.#events > MAX_EVENTS) throw new Error(`the history does not end: ${MAX_EVENTS} events`);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      this.#running = next.process;
      next.run();
      await drain();
    }
    return true;
  }

  get events(): number {
    return this.#events;
  }

  #schedule(afterMs: number, run: () => void, process: number): void {
    this.#push({ atMs: this.nowMs + Math.max(0, afterMs), order: this.#order++, run, process });
  }

  #push(scheduled: Scheduled): void {
    const heap = this.#heap;
    let at = heap.push(scheduled) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent] as Scheduled, scheduled)) break;
      heap[at] = heap[parent] as Scheduled;
      at = parent;
    }
    heap[at] = scheduled;
  }

  #take(): Scheduled | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Scheduled, heap[child] as Scheduled)) child += 1;
      if (isBefore(last, heap[child] as Scheduled)) break;
      heap[at] = heap[child] as Scheduled;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Scheduled, b: Scheduled): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** Resolves when no code of the history can continue without an event. */
function drain(): Promise<void> {
  return new Promise((resolve) => realImmediate(resolve));
}

let current: Machine | undefined;

/** The machine of the current history. */
export function machine(): Machine {
  if (!current) throw new Error("no history is running");
  return current;
}

class Timer {
  #cancelled = false;
  #hasFired = false;

  start(ms: number, run: () => void): this {
    machine().inProcess(ms, () => {
      this.#hasFired = true;
      if (!this.#cancelled) run();
    });
    return this;
  }

  cancel(): void {
    this.#cancelled = true;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return !this.#hasFired;
  }
}

function startInterval(ms: number, run: () => void): Timer {
  const timer = new Timer();
  const again = (): void => {
    run();
    timer.start(ms, again);
  };
  return timer.start(ms, again);
}

/** Replaces the clocks and timers of this thread by those of `next`. */
export function install(next: Machine): void {
  current = next;
  Object.assign(globalThis, {
    setTimeout: (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => new Timer().start(ms, () => run(...args)),
    clearTimeout: (timer?: Timer) => timer?.cancel(),
    setInterval: (run: () => void, ms = 0) => startInterval(ms, run),
    clearInterval: (timer?: Timer) => timer?.cancel(),
  });
  Date.now = () => Math.floor(next.wallMs);
  performance.now = () => next.nowMs;
  Math.random = () => next.random.next();
  AbortSignal.timeout = (ms: number) => {
    const controller = new AbortController();
    next.inProcess(ms, () => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")));
    return controller.signal;
  };
}
