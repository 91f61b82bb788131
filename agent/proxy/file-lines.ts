// Lines of files on their way: without their places, and once, also where the collector was killed and reads or sends them again.
// Invariants: what is not sent was taken by the backend before, whatever else is in doubt is sent; a batch that the backend refuses takes
// none of the others with it that came in one request.
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { type FileBatch, type FileRequest, FILES_HEADER } from "../reread/file-batch.ts";
import type { StoredBatches } from "../reread/stored-batches.ts";
import type { Verdict } from "./forward.ts";

/** Sends a body; one that `isAlone` and too large goes in parts. */
export type SendFiles = (body: Buffer, isAlone: boolean) => Promise<Verdict>;

export class FileLines {
  readonly #stored: StoredBatches | undefined;
  readonly #log: Logger;
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor(stored: StoredBatches | undefined, log: Logger) {
    this.#stored = stored;
    this.#log = log;
  }

  /** Answers what `send` does, or "accepted" where the backend has all lines. A refusal means that all the rest is stored. */
  async once(request: IncomingMessage, files: FileRequest, send: SendFiles): Promise<Verdict> {
    const { batches } = files;
    // Anyone on this machine can ask the proxy; none but the collector shall have lines left out.
    if (this.#stored === undefined || !isToken(request.headers[FILES_HEADER], this.#stored.token)) return send(files.bodyOf(batches), true);
    const keys = new Set(batches.flatMap(({ key }) => key ?? []));
    // What was read twice may come side by side.
    for (let other = this.#anyOf(keys); other; other = this.#anyOf(keys)) await other.catch(() => {});
    const sending = this.#sendNew(this.#stored, files, send);
    for (const key of keys) this.#underWay.set(key, sending);
    try {
      return await sending;
    } finally {
      for (const key of keys) this.#underWay.delete(key);
    }
  }

  #anyOf(keys: ReadonlySet<string>): Promise<unknown> | undefined {
    for (const key of keys) {
      const other = this.#underWay.get(key);
      if (other) return other;
    }
    return undefined;
  }

  async #sendNew(stored: StoredBatches, { batches, bodyOf }: FileRequest, send: SendFiles): Promise<Verdict> {
    const fresh = this.#notStored(stored, batches);
    const verdict: Verdict = fresh.length === 0 ? { kind: "accepted" } : await send(bodyOf(fresh), fresh.length === 1);
    if (verdict.kind === "accepted") for (const batch of batches) stored.add(batch);
    if (fresh.length < 2 || verdict.kind !== "refused" || verdict.status === 429) return verdict;
    let refusal: Verdict | undefined;
    for (const batch of fresh) {
      const answer = await send(bodyOf([batch]), true);
      // What was taken until then is known when the others come again.
      if (answer.kind === "retry" || (answer.kind === "refused" && answer.status === 429)) return answer;
      if (answer.kind === "accepted") stored.add(batch);
      else refusal = answer;
    }
    return refusal ?? { kind: "accepted" };
  }

  /** Lines that wait in the queue and were read again may come in one request. */
  #notStored(stored: StoredBatches, batches: readonly FileBatch[]): FileBatch[] {
    const readAtMs = new Map<string, number>();
    return batches.filter((batch) => {
      const { key } = batch;
      if (key === undefined) return true;
      const isStored = stored.has(batch) || stored.isSecond(batch, readAtMs.get(key));
      if (!isStored) readAtMs.set(key, batch.readAtMs);
      else
        this.#log.debug({ read_at: new Date(batch.readAtMs).toISOString() }, "the backend has these lines; the collector read them again");
      return !isStored;
    });
  }
}

function isToken(given: string | string[] | undefined, token: string): boolean {
  return typeof given === "string" && given.length === token.length && timingSafeEqual(Buffer.from(given, "latin1"), Buffer.from(token));
}
