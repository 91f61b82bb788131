// Limits the log rate of pods, in bytes per second. The collector cannot count per pod, so the agent measures how fast the files of limited
// pods grow, and reduces the share of their lines that the collector keeps. Invariants: a pod that writes less than its part of a limit loses
// no lines because of other pods (except for 10 s if it is new in a namespace above its limit); dropped bytes are counted; a reduced share
// rises again once the pod has compensated for the excess, which is limited to ten minutes of the rate limit.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { Loop } from "../../common/loop.ts";
import type { Outage } from "../../common/outage.ts";
import { MAX_RATE_NAMESPACES, MAX_RATED_FILES } from "../agent-limits.ts";
import {
  type Allowance,
  allotNamespaces,
  allotPods,
  type LimitedPod,
  type MeasuredPod,
  type NamespaceAllowance,
} from "./rate-allotment.ts";

export interface LogRatesOptions {
  readonly pods: () => readonly LimitedPod[];
  /** Called if a share changed. */
  readonly changed: () => void;
  readonly outage: Outage;
  readonly folder?: string | undefined;
  readonly nowMs?: () => number;
}

const MEASURE_EVERY_MS = 5000;
const WINDOW_MS = 30_000;
const OTHERS = "";

export class LogRates implements AsyncDisposable {
  /** Dropped bytes per namespace; the key "" counts namespaces beyond the limit. */
  readonly droppedBytes = new Map<string, number>();
  readonly #options: LogRatesOptions;
  readonly #loop: Loop;
  #pods: ReadonlyMap<string, MeasuredPod> = new Map();
  /** Namespaces with a limit: pods that are not measured yet start with its share. */
  #namespaces: ReadonlyMap<string, NamespaceAllowance> = new Map();
  #measuredMs = Number.NEGATIVE_INFINITY;

  constructor(options: LogRatesOptions) {
    this.#options = options;
    const { outage } = options;
    const step = async (): Promise<number> => {
      await this.measure();
      outage.recovered();
      return MEASURE_EVERY_MS;
    };
    this.#loop = new Loop({ firstAfterMs: MEASURE_EVERY_MS, step, failed: (error) => outage.failed(error) });
  }

  /**
   * Returns the share of lines that the limits of a pod (`shop/web-1`) allow, and the bytes that were dropped since it was first limited.
   * `namespace`: the pod's namespace, if that has a limit.
   */
  find(pod: string, namespace?: string): { readonly share: number; readonly dropped: number } {
    return this.#pods.get(pod) ?? { share: this.#namespaces.get(namespace ?? "")?.share ?? 1, dropped: 0 };
  }

  async measure(): Promise<void> {
    const { pods, nowMs = Date.now, changed, folder = "/var/log/pods" } = this.#options;
    const limited = pods();
    const folders = limited.length === 0 ? [] : await readdir(folder);
    const atMs = nowMs();
    const measured = new Map<string, MeasuredPod>();
    for (const pod of limited) {
      const prefix = `${pod.namespace}_${pod.name}_`;
      const podFolders = folders.filter((name) => name.startsWith(prefix)).map((name) => join(folder, name));
      measured.set(`${pod.namespace}/${pod.name}`, this.#measurePod(pod, await readFiles(podFolders), atMs));
    }
    const time = { atMs, seconds: Math.max(0, atMs - this.#measuredMs) / 1000 };
    const before = this.#namespaces;
    this.#namespaces = allotNamespaces(measured, before, time);
    this.#pods = allotPods(measured, time);
    this.#measuredMs = atMs;
    if (isChanged(measured, this.#pods) || isChanged(before, this.#namespaces)) changed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  #measurePod(pod: LimitedPod, files: readonly LogFile[], atMs: number): MeasuredPod {
    const namespace = pod.namespaceLimit === undefined ? undefined : this.#namespaces.get(pod.namespace);
    const sizes = new Map(files.map(({ inode, size }) => [inode, size]));
    const first: MeasuredPod = { pod, sizes, growth: [{ atMs, bytes: 0 }], share: 1, debt: 0, sent: 0, dropped: 0 };
    const before = this.#pods.get(`${pod.namespace}/${pod.name}`) ?? (namespace && this.#newPod(first, namespace, files));
    // Bytes from before the first measurement do not count.
    if (!before) return first;
    const bytes = [...sizes].reduce((sum, [file, size]) => sum + Math.max(0, size - (before.sizes.get(file) ?? 0)), 0);
    const dropped = Math.round(bytes * Math.max(0, pod.sampled - before.share));
    const key = this.droppedBytes.has(pod.namespace) || this.droppedBytes.size < MAX_RATE_NAMESPACES ? pod.namespace : OTHERS;
    if (dropped > 0) this.droppedBytes.set(key, (this.droppedBytes.get(key) ?? 0) + dropped);
    const growth = [...before.growth.filter((entry) => atMs - entry.atMs <= WINDOW_MS), { atMs, bytes }];
    return { ...before, pod, sizes, growth, sent: bytes * Math.min(pod.sampled, before.share), dropped: before.dropped + dropped };
  }

  /**
   * Returns a pod that started after the last measurement: all its bytes count, but not the files of an earlier pod with the same name.
   */
  #newPod(pod: MeasuredPod, { share }: NamespaceAllowance, files: readonly LogFile[]): MeasuredPod {
    const atMs = this.#measuredMs;
    const oldSizes = files.filter(({ changedMs }) => changedMs < atMs).map(({ inode, size }) => [inode, size] as const);
    return { ...pod, share, sizes: new Map(oldSizes), growth: [{ atMs, bytes: 0 }] };
  }
}

function isChanged(before: ReadonlyMap<string, Allowance>, after: ReadonlyMap<string, Allowance>): boolean {
  return [...after].some(([name, { share }]) => share !== (before.get(name)?.share ?? 1));
}

interface LogFile {
  /** Does not change when a file is rotated. */
  readonly inode: number;
  readonly size: number;
  readonly changedMs: number;
}

async function readFiles(folders: readonly string[]): Promise<LogFile[]> {
  const files: LogFile[] = [];
  for (const folder of folders) {
    const names = await readdir(folder, { recursive: true }).catch(() => []);
    for (const name of names.slice(0, MAX_RATED_FILES)) {
      // A removed file does not grow.
      const stats = name.endsWith(".gz") ? undefined : await stat(join(folder, name)).catch(() => undefined);
      if (stats?.isFile()) files.push({ inode: stats.ino, size: stats.size, changedMs: stats.mtimeMs });
    }
  }
  return files;
}
