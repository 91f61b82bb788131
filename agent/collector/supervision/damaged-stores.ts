// Checks the bbolt files of the collector's file_storage extensions (disk queues and file offsets) while no collector runs. A damaged file
// would crash the collector at every start, so the agent renames it to `<file>.damaged` and logs the lost data. Invariant: only damaged files
// (bbolt-file.ts) are renamed; the supervisor calls `quarantineDamaged` only after the collector's log blamed a store (`blamesStore`).
import { readdirSync, renameSync, rmSync, statfsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parse } from "yaml";
import type { Log } from "../../log.ts";
import { findDamage } from "./bbolt-file.ts";

const QUARANTINED = ".damaged";
/** Messages of bbolt if it cannot open a file, and its package path in stack traces of panics and of faults in mapped memory. */
const BLAME = /go\.etcd\.io\/bbolt|: (invalid database|checksum error|version mismatch|file size too small|incompatible value)/;
/** Names of files that no collector uses: our quarantine, backups of older collectors, and files of interrupted compactions. */
const NOT_IN_USE = /\.damaged$|\.backup$|^tempdb/;

/** Returns whether the collector uses a file with this name in a store's folder. */
export function isStoreFile(name: string): boolean {
  return !NOT_IN_USE.test(name);
}

interface Config {
  readonly extensions: Record<string, { directory?: string } | null>;
  readonly receivers: Record<string, { storage?: string; start_at?: string } | null>;
  readonly exporters: Record<string, unknown>;
}

/** True if a line of the collector's log shows that bbolt could not use one of its files. */
export function blamesStore(line: string): boolean {
  return BLAME.test(line);
}

/**
 * Quarantines every damaged file in the stores of `config` (YAML). Returns the logged message for each, which becomes the reason of the
 * restart. Stops when `signal` aborts. Never throws.
 */
export async function quarantineDamaged(config: string, log: Log, signal?: AbortSignal): Promise<string[]> {
  const messages: string[] = [];
  for (const { file, parsed } of storeFiles(config, log)) {
    try {
      const damage = await findDamage(file, signal);
      if (signal?.aborted) return messages;
      if (damage !== undefined) messages.push(quarantine(file, damage, parsed, log));
    } catch (error) {
      if (signal?.aborted) return messages;
      // The supervisor restarts the collector with backoff, and its log has the reason why it cannot start.
      log.error(
        { event: "collector.store_check_failed", file, err: (error as Error).message },
        "cannot check or quarantine a file of the collector's stores",
      );
    }
  }
  return messages;
}

/** Logs every empty file, which a power failure can leave: the collector silently treats it as a new store. Never throws. */
export function reportEmptied(config: string, log: Log): void {
  for (const { file, parsed } of storeFiles(config, log)) {
    if (!isEmpty(file)) continue;
    log.error(
      { event: "collector.store_empty", file },
      `${file} is empty, as after a power failure; the collector will recreate it. If it contained data: ${describeLoss(basename(file), parsed)}`,
    );
  }
}

/** The files of all stores. If `config` cannot be parsed, logs an error and returns none. */
function storeFiles(config: string, log: Log): { file: string; parsed: Config }[] {
  try {
    const parsed = parse(config) as Config;
    const folders = Object.entries(parsed.extensions).flatMap(([id, store]) =>
      id.split("/")[0] === "file_storage" && store?.directory !== undefined ? [store.directory.replaceAll("$$", "$")] : [],
    );
    // Two stores share the folder of the queues.
    return [...new Set(folders)].flatMap((folder) =>
      listFiles(folder)
        .filter((name) => isStoreFile(name))
        .map((name) => ({ file: join(folder, name), parsed })),
    );
  } catch (error) {
    // No file is moved, and the collector itself reports what is wrong with its configuration.
    log.error(
      { event: "collector.stores_unknown", err: (error as Error).message },
      "cannot read the collector's stores from its configuration; their files are not checked",
    );
    return [];
  }
}

function isEmpty(file: string): boolean {
  try {
    return statSync(file).size === 0;
  } catch {
    // The collector reports a file that it cannot read.
    return false;
  }
}

/** Names of the regular files in a folder; empty if it cannot be read, as before the first start. */
function listFiles(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isFile() ? [entry.name] : []));
  } catch {
    return [];
  }
}

/** Renames the file, or removes it if the disk has no space for another one of its size. Returns the logged message. */
function quarantine(file: string, damage: string, config: Config, log: Log): string {
  const { size } = statSync(file);
  const target = `${file}${QUARANTINED}`;
  renameSync(file, target);
  const { bavail, bsize } = statfsSync(dirname(file));
  const isKept = bavail * bsize >= size;
  if (!isKept) rmSync(target);
  const where = isKept ? `was quarantined as ${target}` : "was removed because there is not enough disk space for a second copy";
  const message = `${file}, ${size} bytes, is damaged (${damage}) and ${where}. The collector starts without it. ${describeLoss(basename(file), config)}`;
  log.error({ event: "collector.store_damaged", file, bytes: size, moved_to: isKept ? target : undefined, damage }, message);
  return message;
}

/**
 * Describes the data that is lost with a file, based on its name: `exporter_<type>_<name>_<signal>` for a disk queue,
 * `receiver_<type>_<name>` for file offsets.
 */
function describeLoss(name: string, { exporters, receivers }: Config): string {
  const [, exporter, signal] = /^exporter_(.+)_([a-z]+)$/.exec(name) ?? [];
  const exporterId = Object.keys(exporters).find((id) => id.replace("/", "_") === exporter);
  if (exporterId !== undefined) return `Undelivered ${signal} in the disk queue of ${exporterId} are lost.`;
  const hasFile = (id: string): boolean => name === `receiver_${id.split("/")[0]?.replaceAll("_", "")}_${id.split("/")[1] ?? ""}`;
  const [receiverId, receiver] = Object.entries(receivers).find(([id]) => hasFile(id)) ?? [];
  if (!receiver) return "The data that the component stored in it is lost.";
  const loss = `${receiverId}'s read positions are lost.`;
  return receiver.start_at === "beginning"
    ? `${loss} It reads its files again from the beginning: no line is lost, and lines that were sent before arrive twice.`
    : `${loss} It resumes at the end of each file: lines written since the collector exited are skipped.`;
}
