// Keeps the collector's disk queues usable on a small or full disk. The queues may use only a share of the disk space. Before each start of
// the collector, the agent removes the large files of empty queues, requeues the entries that the collector skipped on a full disk, and
// allocates the disk space that the collector needs to send the entries. Invariant: no collector runs while files are changed.
import { existsSync, readdirSync, rmSync, statfsSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { nearestExisting } from "../../../common/files.ts";
import type { Log } from "../../log.ts";
import { EXPORTERS, QUEUE_SIZE, QUEUE_STORAGE } from "../config/collector-config.ts";
import { MIN_QUEUE_BYTES, QUEUE_DISK_SHARE } from "../../agent-limits.ts";
import { type QueueFile, readQueueFile, rewind } from "./queue-file.ts";
import { isStoreFile } from "./damaged-stores.ts";

interface Config {
  readonly extensions?: Record<string, { directory?: string } | null>;
  readonly exporters?: Record<string, { sending_queue?: { queue_size?: unknown } } | null>;
  readonly service?: { pipelines?: Record<string, { exporters?: readonly string[] }> };
}

/** Smaller files of empty queues are kept. */
const MIN_REMOVED_BYTES = 1024 * 1024;
/** A transaction that deletes an entry rewrites up to four leaves and a few small pages of the file, which is a bbolt database. */
const LEAVES_PER_TRANSACTION = 4;
const SMALL_PAGES_PER_TRANSACTION = 32;
/** Unit of `blocks` in `stat`. */
const BLOCK_BYTES = 512;

/** The disk queues of one configuration. */
export class QueueSpace {
  readonly #folder: string | undefined;
  /** Undefined if the operator's own configuration sets the size. */
  readonly #configuredBytes: number | undefined;
  readonly #queues: number;
  #limitBytes: number | undefined;

  /** `config`: YAML that a collector is about to run with. Never throws. */
  constructor(config: string) {
    const parsed = parseConfig(config);
    this.#folder = parsed.extensions?.[QUEUE_STORAGE]?.directory?.replaceAll("$$", "$");
    this.#configuredBytes = configuredBytes(parsed);
    this.#queues = Math.max(1, countQueues(parsed));
  }

  /** Prepares the queue files. Returns why the collector must not be started yet; undefined if it may start. Never throws. */
  async prepare(log: Log): Promise<string | undefined> {
    for (const file of this.#files()) {
      try {
        const queue = await readQueueFile(file);
        if (queue && !(await prepareQueue(queue, log))) return `no space left on device: sending the entries of ${file} needs disk space`;
      } catch (error) {
        // The file could not be read, rewound or extended. The collector starts with it as it is.
        log.warn({ event: "collector.empty_queue_kept", file, err: (error as Error).message }, "cannot prepare a disk queue");
      }
    }
    return undefined;
  }

  /**
   * Calculates the size limit of each queue, remembers it for `growth`, and returns it; undefined if it is unknown or the operator sets it.
   * Allocates nothing. Never throws.
   */
  updateLimitBytes(): number | undefined {
    this.#limitBytes = this.#shareBytes();
    return this.#limitBytes;
  }

  /** Returns the size limit that would apply now, divided by the remembered one. Never throws. */
  growth(): number {
    const share = this.#shareBytes();
    return share === undefined || this.#limitBytes === undefined ? 1 : share / this.#limitBytes;
  }

  #shareBytes(): number | undefined {
    if (this.#configuredBytes === undefined || this.#folder === undefined) return undefined;
    try {
      const usedBytes = this.#files().reduce((sum, file) => sum + statSync(file).blocks * BLOCK_BYTES, 0);
      const share = Math.floor(((freeBytes(this.#folder) + usedBytes) * QUEUE_DISK_SHARE) / this.#queues);
      return Math.max(MIN_QUEUE_BYTES, Math.min(this.#configuredBytes, share));
    } catch {
      // The queues keep their configured size, and the collector reports the problem with the folder.
      return undefined;
    }
  }

  /** Empty before the first start. */
  #files(): string[] {
    const folder = this.#folder;
    if (folder === undefined || !existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.startsWith("exporter_") && isStoreFile(name))
      .map((name) => join(folder, name));
  }
}

/** Returns false if the disk has no space for the collector's transactions. */
async function prepareQueue(queue: QueueFile, log: Log): Promise<boolean> {
  const { path: file, entries, skipped } = queue;
  const { size } = statSync(file);
  if (entries === 0) {
    if (size < MIN_REMOVED_BYTES) return true;
    rmSync(file);
    log.info({ event: "collector.empty_queue_removed", file, bytes: size }, "removed the file of an empty disk queue");
    return true;
  }
  // The collector moves entries that were being sent to the end of its queue. With little space, it could delete them and fail to add them.
  const isDiskShort = freeBytes(file) < Math.max(queue.bytes, transactionBytes(queue));
  if (isDiskShort || skipped > 0) await rewind(queue);
  if (skipped > 0)
    log.warn(
      { event: "collector.skipped_queued_again", file, entries: skipped },
      "the collector skipped entries of its disk queue on a full disk; they are queued again",
    );
  return hasFreePages(queue) || (await reserve(queue));
}

function transactionBytes({ pages: { largestBytes, pageBytes } }: QueueFile): number {
  return LEAVES_PER_TRANSACTION * largestBytes + SMALL_PAGES_PER_TRANSACTION * pageBytes;
}

/** Returns whether the file has enough free pages that are already allocated on disk. */
function hasFreePages(queue: QueueFile): boolean {
  const { used, endPage, largestBytes, pageBytes } = queue.pages;
  let freePages = 0;
  let run = 0;
  for (let page = 2; page <= endPage; page++) {
    if (page < endPage && !used.has(page)) run++;
    else {
      if (run * pageBytes >= largestBytes) freePages += run;
      run = 0;
    }
  }
  return freePages * pageBytes >= transactionBytes(queue);
}

/** Allocates disk space after the last page, where the collector's next transactions write. False if the disk has none. */
async function reserve(queue: QueueFile): Promise<boolean> {
  const file = await open(queue.path, "r+");
  try {
    const at = queue.pages.endPage * queue.pages.pageBytes;
    const bytes = Buffer.alloc(transactionBytes(queue));
    for (let done = 0; done < bytes.length;) done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  } finally {
    await file.close();
  }
}

/** Free bytes of the file system of `path`, which may not exist yet. */
function freeBytes(path: string): number {
  const { bavail, bsize } = statfsSync(nearestExisting(path));
  return bavail * bsize;
}

function configuredBytes({ exporters = {} }: Config): number | undefined {
  const sizes = EXPORTERS.map((id) => QUEUE_SIZE.exec(String(exporters[id]?.sending_queue?.queue_size))?.[1]);
  const size = sizes.find((bytes) => bytes !== undefined);
  return size === undefined ? undefined : Number(size);
}

/** The collector has one queue for each exporter and signal. */
function countQueues({ service: { pipelines = {} } = {} }: Config): number {
  const queues = Object.entries(pipelines).flatMap(([id, { exporters = [] }]) =>
    exporters.filter((exporter) => EXPORTERS.includes(exporter)).map((exporter) => `${exporter} ${id.split("/")[0]}`),
  );
  return new Set(queues).size;
}

/** Empty if the text cannot be parsed; the collector reports the error. */
function parseConfig(config: string): Config {
  try {
    const parsed: unknown = parse(config);
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}
