// Lists the log files of the node's pods that the collector should read (config/fragments/pod-logs.ts has the same rules as globs), so that
// files which it does not read are found.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { FoundFilesStatus, WatchedFile } from "./log-files-status.ts";
import { fileId } from "./link-name.ts";

export interface PodLogFilesOptions {
  readonly ownPodUid: string;
  readonly excludeNamespaces: readonly string[];
  /** False while no logs are collected. */
  readonly isFollowing: () => boolean;
  readonly folder?: string;
  readonly nowMs?: () => number;
}

const ROOT = "/var/log/pods";
/** Also as the kubelet renames it at a rotation. */
const LOG = /\.log(?:\.2\d{7}-\d{6})?$/;

export class PodLogFiles {
  readonly #options: PodLogFilesOptions;
  readonly #nowMs: () => number;
  #open = 0;
  #lastPassMs: number;

  constructor(options: PodLogFilesOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#lastPassMs = this.#nowMs();
  }

  status(): FoundFilesStatus {
    return { open: this.#open, notRead: {}, isFollowing: this.#options.isFollowing(), lastPassMs: this.#lastPassMs };
  }

  async *watched(): AsyncGenerator<WatchedFile> {
    const { ownPodUid, excludeNamespaces, isFollowing, folder = ROOT } = this.#options;
    let open = 0;
    for (const pod of isFollowing() ? await names(folder) : []) {
      if (pod.endsWith(`_${ownPodUid}`) || excludeNamespaces.some((namespace) => pod.startsWith(`${namespace}_`))) continue;
      for (const container of await names(join(folder, pod))) {
        for (const name of await names(join(folder, pod, container))) {
          if (!LOG.test(name)) continue;
          const path = join(folder, pod, container, name);
          // A removed file does not grow. Docker's files are links.
          const stats = await stat(path, { bigint: true }).catch(() => undefined);
          if (!stats?.isFile()) continue;
          open += 1;
          yield { id: fileId(stats), path, storedPath: path, size: Number(stats.size), changedMs: Number(stats.mtimeMs) };
        }
      }
    }
    this.#open = open;
    this.#lastPassMs = this.#nowMs();
  }
}

/** Empty if the folder cannot be read, such as one of a pod that was just removed. */
async function names(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []);
}
