// Lists the log files of the node's pods that the collector should read (config/fragments/pod-logs.ts has the same rules as globs), so that
// files which it does not read are found.
import { stat } from "node:fs/promises";
import type { FoundFilesStatus, WatchedFile } from "./log-files-status.ts";
import { fileId } from "./link-name.ts";
import { POD_LOGS, podFiles } from "./pod-log-links.ts";

export interface PodLogFilesOptions {
  readonly ownPodUid: string;
  readonly excludeNamespaces: readonly string[];
  /** False while no logs are collected. */
  readonly isFollowing: () => boolean;
  readonly folder?: string;
  readonly nowMs?: () => number;
}

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
    const { ownPodUid, excludeNamespaces, isFollowing, folder = POD_LOGS } = this.#options;
    const isRead = (pod: string): boolean =>
      !pod.endsWith(`_${ownPodUid}`) && !excludeNamespaces.some((namespace) => pod.startsWith(`${namespace}_`));
    let open = 0;
    for await (const path of isFollowing() ? podFiles(folder, isRead) : []) {
      if (!LOG.test(path)) continue;
      // A removed file does not grow. Docker's files are links.
      const stats = await stat(path, { bigint: true }).catch(() => undefined);
      if (!stats?.isFile()) continue;
      open += 1;
      yield { id: fileId(stats), path, storedPath: path, size: Number(stats.size), changedMs: Number(stats.mtimeMs) };
    }
    this.#open = open;
    this.#lastPassMs = this.#nowMs();
  }
}
