// Backups of one installation in one folder, named by their time. Invariants: only what bears such a name is counted or removed; nothing is
// removed before a newer one is complete; one that is being removed has another name first, so that no half of it looks finished.
import { existsSync, readdirSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { folderSynced } from "../../../common/files.ts";
import { MANIFEST } from "./manifest.ts";

const NAME = /^atherops-(\d{4}-\d{2}-\d{2})T(\d{2})(\d{2})(\d{2})Z$/;
const CUT_OFF = /^\.atherops-\d{4}-\d{2}-\d{2}T\d{6}Z\.(?:partial|removed)$/;

/** `atherops-2026-11-22T071500Z`. */
export function newName(now: Date): string {
  return `atherops-${now.toISOString().replace(/\.\d+/, "").replaceAll(":", "")}`;
}

/** Those that are complete, the oldest first; none where the folder cannot be read. */
export function finished(into: string): string[] {
  return namesIn(into)
    .filter((name) => NAME.test(name) && existsSync(join(into, name, MANIFEST)))
    .sort();
}

function namesIn(into: string): string[] {
  try {
    return readdirSync(into);
  } catch {
    // Safe: whoever writes there next is told why it cannot.
    return [];
  }
}

/** When the newest was begun, Unix milliseconds; undefined: there is none. */
export function newestMs(into: string): number | undefined {
  const [, day, hours, minutes, seconds] = NAME.exec(finished(into).at(-1) ?? "") ?? [];
  return day === undefined ? undefined : Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`);
}

/** Removes the oldest above `keep`, of which one is `made`, whatever a wrong clock has named it. Answers their names. */
export async function prune(into: string, keep: number, made: string): Promise<string[]> {
  const others = finished(into).filter((name) => name !== made);
  const removed = others.slice(0, Math.max(0, others.length - (keep - 1)));
  for (const name of removed) {
    const gone = join(into, `.${name}.removed`);
    await rename(join(into, name), gone);
    await folderSynced(into);
    await rm(gone, { recursive: true, force: true });
  }
  return removed;
}

/** Removes what killed commands have left. Only while no other backup of this installation is under way. */
export async function removeCutOff(into: string): Promise<void> {
  const names = namesIn(into).filter((name) => CUT_OFF.test(name));
  for (const name of names) await rm(join(into, name), { recursive: true, force: true });
}
