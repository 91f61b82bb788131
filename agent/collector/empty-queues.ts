// Removes the files of disk queues that hold nothing but take space. A queue's file keeps its size when it was sent: on a full disk the
// collector can then write nothing to it, and cannot compact it either, because that needs a copy. Invariant: no collector runs meanwhile; a
// file that holds an entry, or may hold one, stays.
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { Log } from "../log.ts";
import { holdsQueued } from "./bbolt-file.ts";
import { QUEUE_STORAGE } from "./config.ts";

/** Smaller ones are not worth a look: a new file has 32 KiB. */
const MIN_BYTES = 1024 * 1024;

/** `config`: YAML that a collector is about to run with. Never throws. */
export async function removeEmptyQueues(config: string, log: Log): Promise<void> {
  const folder = queueFolder(config);
  for (const name of folder === undefined ? [] : list(folder)) {
    const file = join(folder ?? "", name);
    try {
      const { size } = statSync(file);
      if (size < MIN_BYTES || (await holdsQueued(file))) continue;
      rmSync(file);
      log.info({ event: "collector.empty_queue_removed", file, bytes: size }, "removed the file of an empty disk queue");
    } catch (error) {
      // Safe: the collector starts with the file as it is.
      log.warn({ event: "collector.empty_queue_kept", file, err: (error as Error).message }, "cannot look into a disk queue");
    }
  }
}

function queueFolder(config: string): string | undefined {
  try {
    const { extensions } = parse(config) as { extensions: Record<string, { directory?: string } | undefined> };
    return extensions[QUEUE_STORAGE]?.directory?.replaceAll("$$", "$");
  } catch {
    // Safe: the collector itself reports what is wrong with its configuration.
    return undefined;
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.startsWith("exporter_") && !/\.(damaged|backup)$/.test(name));
  } catch {
    return [];
  }
}
