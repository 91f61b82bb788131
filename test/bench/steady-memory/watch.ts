// Records the memory of each process over time, from the kernel: its proportional set size (its own pages, and its part of shared ones).
// Prints one line per period of the run, to the terminal and as CSV. Invariant: the figures of a line are medians of the period's samples.
import { appendFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { proportionalMb, summary } from "../../fixtures/measure.ts";

const MOST_LINE_MS = 60_000;
const LINES = 10;
const MOST_SAMPLE_MS = 10_000;
const SAMPLES = 120;

export interface Watched {
  readonly runMs: number;
  readonly out: string | undefined;
  readonly pids: () => Record<string, number>;
  /** Further current figures, each as a separate column. */
  readonly more: () => Promise<Record<string, number>>;
}

interface Sample {
  readonly ms: number;
  readonly figures: Readonly<Record<string, number>>;
}

export class MemoryWatch {
  readonly #watched: Watched;
  readonly #samples: Sample[] = [];
  readonly #startedAt = performance.now();

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  get ranMs(): number {
    return performance.now() - this.#startedAt;
  }

  async untilAborted(ended: AbortSignal): Promise<void> {
    const { runMs } = this.#watched;
    const [lineMs, sampleMs] = [Math.min(MOST_LINE_MS, runMs / LINES), Math.min(MOST_SAMPLE_MS, runMs / SAMPLES)];
    let lines = 0;
    while (!ended.aborted) {
      await sleep(sampleMs, undefined, { signal: ended }).catch(() => {});
      const pids = Object.entries(this.#watched.pids());
      const memory = Object.fromEntries(pids.map(([name, pid]) => [name, proportionalMb(pid)]));
      this.#samples.push({ ms: this.ranMs, figures: { ...memory, ...(await this.#watched.more()) } });
      for (; (lines + 1) * lineMs <= this.ranMs; lines += 1) this.#print(lines === 0, lines * lineMs, (lines + 1) * lineMs);
    }
  }

  #print(isFirst: boolean, fromMs: number, toMs: number): void {
    const figures = { minute: (toMs / 60_000).toFixed(1), ...this.medians(fromMs, toMs) };
    if (isFirst) this.#line(Object.keys(figures).join(","), true);
    this.#line(Object.values(figures).join(","));
  }

  #line(text: string, isFirst = false): void {
    console.log(text);
    if (this.#watched.out !== undefined) (isFirst ? writeFileSync : appendFileSync)(this.#watched.out, `${text}\n`);
  }

  /** By name of process or figure. */
  medians(fromMs: number, toMs: number): Record<string, number> {
    const within = this.#samples.filter(({ ms }) => ms > fromMs && ms <= toMs);
    return Object.fromEntries(
      Object.keys(this.#samples[0]?.figures ?? {}).map((name) => [
        name,
        Math.round(summary(within.map(({ figures }) => figures[name] ?? Number.NaN)).median),
      ]),
    );
  }

  /** The largest sample of each. */
  peaks(): Record<string, number> {
    return Object.fromEntries(
      Object.keys(this.#samples[0]?.figures ?? {}).map((name) => [
        name,
        Math.round(summary(this.#samples.map(({ figures }) => figures[name] ?? Number.NaN)).most),
      ]),
    );
  }
}
