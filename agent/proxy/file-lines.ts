// Lines of files on their way: without their places, and once, also where the collector was killed and reads them again. Invariant: what is
// not sent was taken by the backend before; whatever else is in doubt is sent.
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import type { FileBatch } from "../reread/file-batch.ts";
import { FILES_HEADER } from "../reread/file-batch.ts";
import type { StoredBatches } from "../reread/stored-batches.ts";
import type { Verdict } from "./forward.ts";

export class FileLines {
  readonly #stored: StoredBatches | undefined;
  readonly #log: Logger;
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor(stored: StoredBatches | undefined, log: Logger) {
    this.#stored = stored;
    this.#log = log;
  }

  /** Answers what `send` does, or "accepted" for lines that the backend has. */
  async once(request: IncomingMessage, batch: FileBatch, send: () => Promise<Verdict>): Promise<Verdict> {
    const { key } = batch;
    // Anyone on this machine can ask the proxy; none but the collector shall have lines left out.
    if (key === undefined || this.#stored === undefined || !isToken(request.headers[FILES_HEADER], this.#stored.token)) return send();
    // What was read twice may come side by side.
    for (let other = this.#underWay.get(key); other; other = this.#underWay.get(key)) await other.catch(() => {});
    if (this.#stored.has(batch)) {
      this.#stored.add(batch);
      this.#log.debug({ read_at: new Date(batch.readAtMs).toISOString() }, "the backend has these lines; the collector read them again");
      return { kind: "accepted" };
    }
    const sending = send();
    this.#underWay.set(key, sending);
    try {
      const verdict = await sending;
      if (verdict.kind === "accepted") this.#stored.add(batch);
      return verdict;
    } finally {
      this.#underWay.delete(key);
    }
  }
}

function isToken(given: string | string[] | undefined, token: string): boolean {
  return typeof given === "string" && given.length === token.length && timingSafeEqual(Buffer.from(given, "latin1"), Buffer.from(token));
}
