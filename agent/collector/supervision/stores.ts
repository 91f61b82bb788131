// Quarantines damaged files of the collector's stores (disk queues, offsets) as `<file>.damaged` before it starts. Invariants: no collector
// runs meanwhile; a file is quarantined only if the collector's log blames a store and the file itself is damaged.
import { readdirSync, renameSync, rmSync, statfsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parse } from "yaml";
import type { Log } from "../../log.ts";
import { damageOf } from "./bbolt-file.ts";

const QUARANTINED = ".damaged";
/** What the store below answers when it opens a file, and its name in the trace of a panic, or of a read beyond the end of a file. */
const BLAME = /go\.etcd\.io\/bbolt|: (invalid database|checksum error|version mismatch|file size too small|incompatible value)/;
/** Not the collector's queues and places: what we quarantined, what collectors before us did, and what a killed one was compacting. */
const NOT_IN_USE = /\.damaged$|\.backup$|^tempdb/;

interface Config {
  readonly extensions: Record<string, { directory?: string } | null>;
  readonly receivers: Record<string, { storage?: string; start_at?: string } | null>;
  readonly exporters: Record<string, unknown>;
}

/** True when a line of the collector is about a file of a store. */
export function blamesStore(line: string): boolean {
  return BLAME.test(line);
}

/**
 * Quarantines each damaged file in the stores of `config` (YAML), which no collector may use meanwhile. Answers what it said of each;
 * empty when none is damaged. Quarantines nothing once `signal` aborted. Never throws.
 */
export async function quarantineDamaged(config: string, log: Log, signal?: AbortSignal): Promise<string[]> {
  const said: string[] = [];
  for (const { file, parsed } of storeFiles(config, log)) {
    try {
      const damage = await damageOf(file, signal);
      if (signal?.aborted) return said;
      if (damage !== undefined) said.push(quarantine(file, damage, parsed, log));
    } catch (error) {
      if (signal?.aborted) return said;
      // Safe: the collector is started again as after any crash, with growing pauses and its own reason in the log.
      log.error(
        { event: "collector.store_check_failed", file, err: (error as Error).message },
        "cannot look into a file of the collector's stores, or cannot quarantine it",
      );
    }
  }
  return said;
}

/** Says which files are cut to nothing: the collector starts with them as new ones, and without a word. Never throws. */
export function reportEmptied(config: string, log: Log): void {
  for (const { file, parsed } of storeFiles(config, log)) {
    if (!isEmpty(file)) continue;
    log.error(
      { event: "collector.store_empty", file },
      `${file} is empty, as after a power failure; the collector fills it anew; if it held anything, ${lostWith(basename(file), parsed)}`,
    );
  }
}

/** None, and one line, where `config` is not one. */
function storeFiles(config: string, log: Log): { file: string; parsed: Config }[] {
  try {
    const parsed = parse(config) as Config;
    const folders = Object.entries(parsed.extensions).flatMap(([id, store]) =>
      id.split("/")[0] === "file_storage" && store?.directory !== undefined ? [store.directory.replaceAll("$$", "$")] : [],
    );
    return folders.flatMap((folder) =>
      list(folder)
        .filter((name) => !NOT_IN_USE.test(name))
        .map((name) => ({ file: join(folder, name), parsed })),
    );
  } catch (error) {
    // Safe: nothing is moved, and the collector itself says what it thinks of its configuration.
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
    // Safe: only a hint depends on it; opening the file reports it.
    return false;
  }
}

/** Empty when the folder is not there. */
function list(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isFile() ? [entry.name] : []));
  } catch {
    return [];
  }
}

/** Answers what it said. */
function quarantine(file: string, damage: string, config: Config, log: Log): string {
  const { size } = statSync(file);
  const target = `${file}${QUARANTINED}`;
  renameSync(file, target);
  const { bavail, bsize } = statfsSync(dirname(file));
  const isKept = bavail * bsize >= size;
  if (!isKept) rmSync(target);
  const where = isKept ? `is quarantined as ${target}` : "is removed, as the disk has no room for another as large";
  const said = `${file}, ${size} bytes, is damaged (${damage}) and ${where}; the collector starts without it; ${lostWith(basename(file), config)}`;
  log.error({ event: "collector.store_damaged", file, bytes: size, moved_to: isKept ? target : undefined, damage }, said);
  return said;
}

/** The collector names a file after the kind, type and name of the component, and an exporter's also after the signal. */
function lostWith(name: string, { exporters, receivers }: Config): string {
  const [, exporter, signal] = /^exporter_(.+)_([a-z]+)$/.exec(name) ?? [];
  const exporterId = Object.keys(exporters).find((id) => id.replace("/", "_") === exporter);
  if (exporterId !== undefined) return `lost are the ${signal} in the disk queue of ${exporterId} that were not delivered yet.`;
  const isOf = (id: string): boolean => name === `receiver_${id.split("/")[0]?.replaceAll("_", "")}_${id.split("/")[1] ?? ""}`;
  const [receiverId, receiver] = Object.entries(receivers).find(([id]) => isOf(id)) ?? [];
  if (!receiver) return "lost is what a component kept in it.";
  const places = `lost is how far ${receiverId} had read its files.`;
  return receiver.start_at === "beginning"
    ? `${places} It reads them again from the beginning: no line is lost, and lines that were sent before arrive twice.`
    : `${places} It goes on at their ends: lines written since the collector ended are skipped.`;
}
