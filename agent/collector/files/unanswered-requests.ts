// Stores requests with log file lines until they are answered. If the agent is killed before the answer, it cannot know whether the backend
// has the request, and the collector may send its batches in other requests or read its lines again. Invariant: if a batch of such a request
// arrives again, the identical request is sent first, so that the backend stores it once. Files are written without fsync, as in
// stored-batches.ts: they survive kill -9, and a file that a power failure damaged is ignored. A request that the disk does not take is kept
// in memory.
import { hash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MAX_UNANSWERED_REQUESTS } from "../../agent-limits.ts";
import type { BatchId } from "./file-batch.ts";

export interface Unanswered {
  /** Hash of its body. */
  readonly id: string;
  readonly batches: readonly BatchId[];
}

const FOLDER = "unanswered";
/** The backend no longer recognises older requests (docs/contract.md, "Ingest"). */
const KNOWN_MS = 600_000;

export class UnansweredRequests {
  readonly #folder: string;
  readonly #nowMs: () => number;
  /** Requests by id, oldest first. */
  readonly #all = new Map<string, Unanswered & { readonly sinceMs: number; readonly body?: Buffer | undefined }>();

  /** `nowMs`: a clock that cannot be set, because a request is forgotten by its age. */
  constructor(stateFolder: string, nowMs = () => performance.now()) {
    this.#folder = join(stateFolder, FOLDER);
    this.#nowMs = nowMs;
    for (const name of this.#names()) {
      const request = this.#read(name);
      if (request) this.#all.set(name, { id: name, batches: request.batches, sinceMs: nowMs() });
      else this.end(name);
    }
  }

  /** Call before `body`, which consists of these batches, is sent. */
  begin(batches: readonly BatchId[], body: Buffer): string {
    const id = hashOf(body);
    const known = this.#all.get(id);
    if (known && !known.body) return id;
    // The disk may take a request when it is repeated.
    const isWritten = this.#write(id, Buffer.concat([Buffer.from(`${JSON.stringify(batches)}\n`), body]));
    this.#all.set(id, { id, batches, sinceMs: known?.sinceMs ?? this.#nowMs(), body: isWritten ? undefined : body });
    this.#forgetOld();
    return id;
  }

  /** Call once the result is known. */
  end(id: string): void {
    this.#all.delete(id);
    unlinkIfThere(join(this.#folder, id));
  }

  /** Returns the requests whose batches match, except the request with this `body`. */
  find(matches: (batches: readonly BatchId[]) => boolean, body: Buffer): Unanswered[] {
    this.#forgetOld();
    const found = [...this.#all.values()].filter(({ batches }) => matches(batches));
    if (found.length === 0) return [];
    const bodyHash = hashOf(body);
    return found.filter(({ id }) => id !== bodyHash);
  }

  /** Undefined if the file is incomplete. */
  readBody(id: string): Buffer | undefined {
    return this.#all.get(id)?.body ?? this.#read(id)?.body;
  }

  /** Written in place: its name is the hash of the body, so an incomplete file is recognised. Returns whether it was written. */
  #write(id: string, content: Buffer): boolean {
    const file = join(this.#folder, id);
    try {
      try {
        writeFileSync(file, content, { mode: 0o600 });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
        writeFileSync(file, content, { mode: 0o600 });
      }
      return true;
    } catch {
      unlinkIfThere(file);
      return false;
    }
  }

  #read(name: string): { batches: readonly BatchId[]; body: Buffer } | undefined {
    try {
      const bytes = readFileSync(join(this.#folder, name));
      const end = bytes.indexOf("\n");
      const batches = JSON.parse(bytes.toString("utf8", 0, end)) as BatchId[];
      const body = bytes.subarray(end + 1);
      // An earlier agent did not write the lines.
      return hashOf(body) === name && batches.every(({ lines }) => Array.isArray(lines)) ? { batches, body } : undefined;
    } catch {
      // At worst, lines are duplicated.
      return undefined;
    }
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      return [];
    }
  }

  #forgetOld(): void {
    for (const { id, sinceMs } of this.#all.values())
      if (this.#all.size > MAX_UNANSWERED_REQUESTS || this.#nowMs() - sinceMs > KNOWN_MS) this.end(id);
  }
}

/** Does not use `rmSync`, which calls stat first. */
function unlinkIfThere(file: string): void {
  try {
    unlinkSync(file);
  } catch {
    // At worst, on a disk that cannot be written, the request is sent again after a restart.
  }
}

function hashOf(body: Buffer): string {
  return hash("sha256", body);
}
