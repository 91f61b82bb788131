// Limits of bytes per second for logs of pods. The collector cannot count per pod, so the agent measures how fast the files of limited pods
// grow, and lowers the share of their lines that the collector keeps, before the disk queue. Invariants: a pod that writes less than its part
// of a limit loses nothing, however much its neighbours write; bytes that are dropped are counted.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { Loop } from "../../common/loop.ts";
import type { Outage } from "../../common/outage.ts";
import { fairLimit } from "../monitors/fair-share.ts";
import { MAX_RATE_NAMESPACES, MAX_RATED_FILES } from "../limits.ts";

export interface LimitedPod {
  readonly namespace: string;
  readonly name: string;
  /** Bytes per second of this pod; undefined without a limit of its own. */
  readonly limit: number | undefined;
  /** Bytes per second of all pods of its namespace on this node. */
  readonly namespaceLimit: number | undefined;
  /** Share of lines that sampling keeps. */
  readonly sampled: number;
}

export interface LogRatesOptions {
  readonly pods: () => readonly LimitedPod[];
  /** Called if the share of a pod is another. */
  readonly changed: () => void;
  readonly outage: Outage;
  readonly folder?: string | undefined;
  readonly nowMs?: () => number;
}

interface Rated {
  readonly pod: LimitedPod;
  readonly sizes: ReadonlyMap<number, number>;
  /** How much its files grew by each time. */
  readonly growth: readonly { readonly atMs: number; readonly bytes: number }[];
  readonly share: number;
  readonly dropped: number;
}

const EVERY_MS = 5000;
const WINDOW_MS = 30_000;
const OTHERS = "";

export class LogRates implements AsyncDisposable {
  /** Dropped bytes by namespace; "" has those of namespaces beyond the limit. */
  readonly droppedBytes = new Map<string, number>();
  readonly #options: LogRatesOptions;
  readonly #loop: Loop;
  #rated: ReadonlyMap<string, Rated> = new Map();

  constructor(options: LogRatesOptions) {
    this.#options = options;
    const { outage } = options;
    const step = async (): Promise<number> => {
      await this.measure();
      outage.recovered();
      return EVERY_MS;
    };
    this.#loop = new Loop({ firstAfterMs: EVERY_MS, step, failed: (error) => outage.failed(error) });
  }

  /** Share of the lines of `shop/web-1` that its limits allow, and the bytes that were dropped since it was first limited. */
  of(pod: string): { readonly share: number; readonly dropped: number } {
    return this.#rated.get(pod) ?? { share: 1, dropped: 0 };
  }

  async measure(): Promise<void> {
    const { pods, nowMs = Date.now, changed, folder = "/var/log/pods" } = this.#options;
    const limited = pods();
    const folders = limited.length === 0 ? [] : await readdir(folder);
    const atMs = nowMs();
    const measured = new Map<string, Rated>();
    for (const pod of limited) {
      const prefix = `${pod.namespace}_${pod.name}_`;
      const own = folders.filter((name) => name.startsWith(prefix)).map((name) => join(folder, name));
      measured.set(`${pod.namespace}/${pod.name}`, this.#grown(pod, await sizesOf(own), atMs));
    }
    const before = this.#rated;
    this.#rated = allot(measured, atMs);
    if ([...this.#rated].some(([name, { share }]) => share !== (before.get(name)?.share ?? 1))) changed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  #grown(pod: LimitedPod, sizes: ReadonlyMap<number, number>, atMs: number): Rated {
    const before = this.#rated.get(`${pod.namespace}/${pod.name}`);
    // What it wrote before it was limited does not count.
    if (!before) return { pod, sizes, growth: [{ atMs, bytes: 0 }], share: 1, dropped: 0 };
    const bytes = [...sizes].reduce((sum, [file, size]) => sum + Math.max(0, size - (before.sizes.get(file) ?? 0)), 0);
    const dropped = Math.round(bytes * Math.max(0, pod.sampled - before.share));
    const { namespace } = pod;
    const key = this.droppedBytes.has(namespace) || this.droppedBytes.size < MAX_RATE_NAMESPACES ? namespace : OTHERS;
    if (dropped > 0) this.droppedBytes.set(key, (this.droppedBytes.get(key) ?? 0) + dropped);
    const growth = [...before.growth.filter((past) => atMs - past.atMs <= WINDOW_MS), { atMs, bytes }];
    return { ...before, pod, sizes, growth, dropped: before.dropped + dropped };
  }
}

/** Inode → bytes: a rotated file keeps its inode. */
async function sizesOf(folders: readonly string[]): Promise<Map<number, number>> {
  const sizes = new Map<number, number>();
  for (const folder of folders) {
    const names = await readdir(folder, { recursive: true }).catch(() => []);
    for (const name of names.slice(0, MAX_RATED_FILES)) {
      // Safe: a file that is removed meanwhile does not grow.
      const found = name.endsWith(".gz") ? undefined : await stat(join(folder, name)).catch(() => undefined);
      if (found?.isFile()) sizes.set(found.ino, found.size);
    }
  }
  return sizes;
}

function allot(measured: ReadonlyMap<string, Rated>, atMs: number): Map<string, Rated> {
  const shares = new Map<string, Rated>();
  for (const pods of Map.groupBy(measured, ([, { pod }]) => pod.namespace).values()) {
    const demands = pods.map(([name, rated]) => {
      const rate = rateOf(rated, atMs);
      return { name, rated, rate, wanted: Math.min(rate * rated.pod.sampled, rated.pod.limit ?? Number.POSITIVE_INFINITY) };
    });
    const total = Math.min(...pods.map(([, { pod }]) => pod.namespaceLimit ?? Number.POSITIVE_INFINITY));
    const most = fairLimit(
      demands.map(({ wanted }) => wanted),
      total,
    );
    for (const { name, rated, rate, wanted } of demands) {
      const allowed = Math.min(wanted, most);
      shares.set(name, { ...rated, share: allowed < rate * rated.pod.sampled ? allowed / rate : 1 });
    }
  }
  return shares;
}

/** Bytes per second within the window. */
function rateOf({ growth }: Rated, atMs: number): number {
  const [first, ...later] = growth;
  const seconds = (atMs - (first?.atMs ?? atMs)) / 1000;
  return seconds > 0 ? later.reduce((sum, { bytes }) => sum + bytes, 0) / seconds : 0;
}
