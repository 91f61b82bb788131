// Forwards log file lines without their offsets, and only once, even if the collector was killed and reads or sends them again. Invariants: a
// line is omitted only if the backend has accepted it; lines that the backend may already have are sent as the same bytes; if the backend
// refuses one batch of a request, the other batches are still sent.
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { type FileBatch, joinBatches, parseFileRequest, FILES_HEADER } from "../collector/files/file-batch.ts";
import type { StoredBatches } from "../collector/files/stored-batches.ts";
import type { Unanswered, UnansweredRequests } from "../collector/files/unanswered-requests.ts";
import { type ForwardResult, isFinal } from "./forward.ts";

/** Sends a body; one that is too large is split only if it is a single batch. */
type SendFiles = (body: Buffer, isSingleBatch: boolean) => Promise<ForwardResult>;

export class FileLines {
  readonly #stored: StoredBatches | undefined;
  readonly #log: Logger;
  /** Requests that are being sent, by the keys of their batches. */
  readonly #sending = new Map<string, Promise<unknown>>();

  constructor(stored: StoredBatches | undefined, log: Logger) {
    this.#stored = stored;
    this.#log = log;
  }

  /**
   * Returns the result of `send`, or "accepted" if the backend already has all lines. A refusal means that all other batches are stored.
   */
  async sendOnce(request: IncomingMessage, batches: readonly FileBatch[], sendBody: SendFiles): Promise<ForwardResult> {
    const send: SendFiles = async (body, isSingleBatch) => (body.length === 0 ? { kind: "accepted" } : sendBody(body, isSingleBatch));
    // Any program on this machine can send to the proxy, but lines are omitted only for the collector.
    if (this.#stored === undefined || !isToken(request.headers[FILES_HEADER], this.#stored.token)) return send(joinBatches(batches), true);
    const keys = new Set(batches.flatMap(({ key }) => key ?? []));
    // Lines that were read twice may arrive in concurrent requests.
    for (let concurrent = this.#findSending(keys); concurrent; concurrent = this.#findSending(keys)) await concurrent.catch(() => {});
    const sending = this.#sendNew(this.#stored, batches, send);
    for (const key of keys) this.#sending.set(key, sending);
    try {
      return await sending;
    } finally {
      for (const key of keys) this.#sending.delete(key);
    }
  }

  #findSending(keys: ReadonlySet<string>): Promise<unknown> | undefined {
    for (const key of keys) {
      const sending = this.#sending.get(key);
      if (sending) return sending;
    }
    return undefined;
  }

  async #sendNew(stored: StoredBatches, batches: readonly FileBatch[], send: SendFiles): Promise<ForwardResult> {
    let fresh = this.#notStored(stored, batches);
    let body = joinBatches(fresh);
    for (const unanswered of stored.unanswered.findOverlapping(fresh, body)) {
      const result = await this.#sendAgain(stored, unanswered, send);
      if (!isFinal(result)) return result;
      fresh = this.#notStored(stored, fresh);
      body = joinBatches(fresh);
    }
    if (fresh.length === 0) {
      stored.add(batches);
      return { kind: "accepted" };
    }
    const result = await this.#sendRecorded(stored, fresh, body, send, batches);
    if (fresh.length < 2 || result.kind === "accepted" || !isFinal(result)) return result;
    let refusal: ForwardResult | undefined;
    for (const batch of fresh) {
      const answer = await this.#sendRecorded(stored, [batch], batch.body, send);
      // Batches that were accepted so far are recognised when the request is repeated.
      if (!isFinal(answer)) return answer;
      if (answer.kind !== "accepted") refusal = answer;
    }
    return refusal ?? { kind: "accepted" };
  }

  /**
   * Records the request before it is sent, because a repetition can have other bytes: its batches may arrive in other requests, or the
   * collector may read the lines again, with their attributes in another order. The request is removed only after its batches are recorded as
   * stored: the agent may be killed in between. `known`: all batches that the backend has once it accepts `body`.
   */
  async #sendRecorded(
    stored: StoredBatches,
    batches: readonly FileBatch[],
    body: Buffer,
    send: SendFiles,
    known: readonly FileBatch[] = batches,
  ): Promise<ForwardResult> {
    const { unanswered } = stored;
    const isKnown = batches.some(({ key }) => key !== undefined);
    const id = isKnown ? this.#begin(unanswered, batches, body) : undefined;
    const result = await send(body, batches.length === 1);
    if (result.kind === "accepted") stored.add(known);
    if (id !== undefined && isFinal(result)) unanswered.end(id);
    return result;
  }

  #begin(unanswered: UnansweredRequests, batches: readonly FileBatch[], body: Buffer): string | undefined {
    try {
      return unanswered.begin(batches, body);
    } catch (error) {
      // At worst, lines are duplicated, and only if the agent is killed now.
      this.#log.debug({ event: "collector.checkpoint_failed", err: (error as Error).message }, "cannot record a request with log lines");
      return undefined;
    }
  }

  /** Sends an unanswered request again. If it is refused, the backend has none of its lines. */
  async #sendAgain(stored: StoredBatches, { id, batches }: Unanswered, send: SendFiles): Promise<ForwardResult> {
    const body = stored.unanswered.readBody(id);
    const isSingleBatch = body !== undefined && parseFileRequest(body).length === 1;
    const result: ForwardResult = body ? await send(body, isSingleBatch) : { kind: "refused", status: 400, code: "lost", message: "" };
    if (result.kind === "accepted") stored.add(batches);
    if (isFinal(result)) stored.unanswered.end(id);
    return result;
  }

  /** Also removes repetitions within the request, because lines from the queue and lines that were read again may arrive together. */
  #notStored(stored: StoredBatches, batches: readonly FileBatch[]): FileBatch[] {
    const readAtMs = new Map<string, number>();
    return batches.filter((batch) => {
      const { key } = batch;
      if (key === undefined) return true;
      const isStored = stored.has(batch) || stored.isRepeated(batch, readAtMs.get(key));
      if (!isStored) readAtMs.set(key, batch.readAtMs);
      else
        this.#log.debug(
          { event: "collector.lines_already_stored", read_at: new Date(batch.readAtMs).toISOString() },
          "the backend has these lines; the collector read them again",
        );
      return !isStored;
    });
  }
}

function isToken(value: string | string[] | undefined, token: string): boolean {
  return typeof value === "string" && value.length === token.length && timingSafeEqual(Buffer.from(value, "latin1"), Buffer.from(token));
}
