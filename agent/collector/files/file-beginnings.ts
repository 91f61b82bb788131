// Finds open log files that the collector cannot tell apart. The collector identifies a file by its first FINGERPRINT_BYTES, the agent by
// device and inode: of two files with the same beginning, the collector reads only one, and logs nothing. Files without text that were
// empty when they were opened are found here too. Invariant: a check examines a limited number of files, and reads a complete beginning once.
import { createHash } from "node:crypto";
import { FINGERPRINT_BYTES } from "../../agent-limits.ts";
import { isText, type OpenFile, readBeginning, statOpenFile } from "./open-files.ts";

const CHECK_EVERY_MS = 10_000;
/** Other files follow with the next check: thousands of idle files must not cost a node CPU. */
const FILES_PER_CHECK = 500;
/** A rotation copies a file before it truncates it, so both are equal for a moment. */
const ALIKE_AFTER_MS = 30_000;

interface Beginning {
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly hash: string;
}

export class FileBeginnings {
  readonly #beginnings = new Map<string, Beginning>();
  /** Since when files have the beginning of another one; Unix milliseconds. */
  #alikeSinceMs = new Map<string, number>();
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  /** Files that this round has not examined yet. */
  #remaining: OpenFile[] = [];

  /** Returns examined files that have no text. Does nothing if the last check is less than ten seconds ago. */
  async check(open: ReadonlyMap<string, OpenFile>, nowMs: number): Promise<OpenFile[]> {
    if (nowMs - this.#checkedAtMs < CHECK_EVERY_MS) return [];
    this.#checkedAtMs = nowMs;
    for (const id of this.#beginnings.keys()) if (!open.has(id)) this.#beginnings.delete(id);
    if (this.#remaining.length === 0) this.#remaining = [...open.values()];
    const encoded: OpenFile[] = [];
    for (const file of this.#remaining.splice(0, FILES_PER_CHECK)) {
      if (!open.has(file.id)) continue;
      const beginning = await this.#read(file);
      if (beginning === "encoded") encoded.push(file);
      else if (beginning === undefined) this.#beginnings.delete(file.id);
      else this.#beginnings.set(file.id, beginning);
    }
    this.#findAlike(nowMs);
    return encoded;
  }

  /** With the next check, whenever the last one was. */
  checkNow(): void {
    this.#checkedAtMs = Number.NEGATIVE_INFINITY;
    this.#alikeSinceMs.clear();
  }

  /** Ids of files that the collector does not read, because an older one begins with the same bytes. */
  alike(nowMs: number): string[] {
    return [...this.#alikeSinceMs].filter(([, sinceMs]) => nowMs - sinceMs >= ALIKE_AFTER_MS).map(([id]) => id);
  }

  /** Undefined for an empty file. */
  async #read(file: OpenFile): Promise<Beginning | "encoded" | undefined> {
    const { size, mtimeNs } = await statOpenFile(file.fd);
    const known = this.#beginnings.get(file.id);
    const isComplete = known !== undefined && known.size >= FINGERPRINT_BYTES && size >= known.size;
    // A file that is smaller than at the last check was truncated.
    if (known && (isComplete || (known.size === size && known.mtimeNs === mtimeNs))) return { ...known, size, mtimeNs };
    const bytes = await readBeginning(file.fd, FINGERPRINT_BYTES);
    if (bytes.length === 0) return undefined;
    if (!isText(bytes)) return "encoded";
    return { size, mtimeNs, hash: createHash("sha256").update(bytes).digest("base64") };
  }

  #findAlike(nowMs: number): void {
    const [seen, alike] = [new Set<string>(), new Map<string, number>()];
    for (const [id, { hash }] of this.#beginnings) {
      if (seen.has(hash)) alike.set(id, this.#alikeSinceMs.get(id) ?? nowMs);
      seen.add(hash);
    }
    this.#alikeSinceMs = alike;
  }
}
