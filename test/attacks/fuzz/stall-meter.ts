// Measures the longest uninterrupted piece of work in this thread's event loop. It counts CPU time, because on a busy machine wall time
// also contains the work of other processes.
const PERIOD_MS = 5;

export class StallMeter implements Disposable {
  longestMs = 0;
  longestCpuMs = 0;
  readonly #timer: NodeJS.Timeout;
  readonly #onStall: (cpuMs: number) => void;
  #lastMs = performance.now();
  #lastCpuMs = threadCpuMs();

  /** `onStall`: called with each CPU time that is longer than `boundMs`. */
  constructor(boundMs: number, onStall: (cpuMs: number) => void) {
    this.#onStall = (cpuMs) => (cpuMs > boundMs ? onStall(cpuMs) : undefined);
    this.#timer = setInterval(() => this.#tick(), PERIOD_MS);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    const [nowMs, nowCpuMs] = [performance.now(), threadCpuMs()];
    const cpuMs = nowCpuMs - this.#lastCpuMs;
    this.longestMs = Math.max(this.longestMs, nowMs - this.#lastMs - PERIOD_MS);
    this.longestCpuMs = Math.max(this.longestCpuMs, cpuMs);
    this.#onStall(cpuMs);
    [this.#lastMs, this.#lastCpuMs] = [nowMs, nowCpuMs];
  }
}

export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
