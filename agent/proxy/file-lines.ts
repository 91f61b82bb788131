// Forwards log file lines without their offsets, and only once, even if the collector was killed and reads or sends them again. Invariants: a
// line is omitted only if the backend has accepted it; lines that the backend may already have are sent as the same bytes; if the backend
// refuses one batch of a request, the other batches are still sent.
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Logger } from "pino";
import { type BatchId, type FileBatch, joinBatches, parseFileRequest, FILES_HEADER } from "../collector/files/file-batch.ts";
import type { StoredBatches } from "../collector/files/stored-batches.ts";
import type { Unanswered } from "../collector/files/unanswered-requests.ts";
import { type ForwardResult, isFinal, isOfWhole } from "./forward.ts";

/** Sends a body; one that is too large is split only if it is a single batch. */
type SendFiles = (body: Buffer, isSingleBatch: boolean) => Promise<ForwardResult>;

/** What of a batch is sent. */
type Sent = Pick<FileBatch, "identity" | "body">;

/** A request that is being sent. */
interface Sending {
  readonly batches: readonly BatchId[];
  readonly done: Promise<unknown>;
}

export class FileLines {
  readonly #stored: StoredBatches | undefined;
  readonly #log: Logger;
  readonly #sending = new Set<Sending>();

  constructor(stored: StoredBatches | undefined, log: Logger) {
    this.#stored = stored;
    this.#log = log;
  }

  /**
   * Returns the result of `send`, or "accepted" if the backend already has all lines. A refusal means that all other batches are stored.
   */
  async sendOnce(request: IncomingMessage, batches: readonly FileBatch[], sendBody: SendFiles): Promise<ForwardResult> {
    const send: SendFiles = async (body, isSingleBatch) => (body.length === 0 ? { kind: "accepted" } : sendBody(body, isSingleBatch));
    const stored = this.#stored;
    // Any program on this machine can send to the proxy, but lines are omitted only for the collector.
    if (stored === undefined || !isToken(request.headers[FILES_HEADER], stored.token)) return send(joinBatches(batches), true);
    const identities = identitiesOf(batches);
    const findSending = (): Sending | undefined => [...this.#sending].find((other) => stored.lines.mayShare(identities, other.batches));
    // Lines that were read twice may arrive in concurrent requests.
    for (let other = findSending(); other; other = findSending()) await other.done.catch(() => {});
    const sending = { batches: identities, done: this.#sendNew(stored, batches, send) };
    this.#sending.add(sending);
    try {
      return await sending.done;
    } finally {
      this.#sending.delete(sending);
    }
  }

  async #sendNew(stored: StoredBatches, batches: readonly FileBatch[], send: SendFiles): Promise<ForwardResult> {
    let fresh = this.#notStored(stored, batches);
    let body = joinBatches(fresh);
    for (const unanswered of stored.unanswered.find((others) => stored.lines.mayShare(identitiesOf(fresh), others), body)) {
      const result = await this.#sendAgain(stored, unanswered, send);
      if (!isFinal(result)) return result;
      fresh = this.#notStored(stored, batches);
      body = joinBatches(fresh);
    }
    if (fresh.length === 0) {
      stored.add(identitiesOf(batches));
      return { kind: "accepted" };
    }
    const result = await this.#sendRecorded(stored, fresh, body, send, batches);
    if (fresh.length < 2 || !isOfWhole(result)) return result;
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
    batches: readonly Sent[],
    body: Buffer,
    send: SendFiles,
    known: readonly Sent[] = batches,
  ): Promise<ForwardResult> {
    const identities = identitiesOf(batches);
    const id = identities.length > 0 ? stored.unanswered.begin(identities, body) : undefined;
    const result = await send(body, batches.length === 1);
    if (result.kind === "accepted") stored.add(identitiesOf(known));
    // What a proxy refused as a whole is sent as other requests.
    if (id !== undefined && (isFinal(result) || (batches.length > 1 && isOfWhole(result)))) stored.unanswered.end(id);
    return result;
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
  #notStored(stored: StoredBatches, batches: readonly FileBatch[]): Sent[] {
    const [ids, inRequest] = [new Set<string>(), new Map<number, BatchId>()];
    return batches.flatMap((batch): Sent[] => {
      const { identity } = batch;
      if (!identity) return [batch];
      const { id, lines, readAtMs } = identity;
      const repeated = new Set(ids.has(id) ? lines : [...stored.formerLines(batch), ...stored.lines.repeated(identity, inRequest)]);
      if (repeated.size > 0)
        this.#log.debug(
          { event: "collector.lines_already_stored", read_at: new Date(readAtMs).toISOString(), lines: repeated.size },
          "the backend has these lines; the collector read them again",
        );
      ids.add(id);
      const fresh = repeated.size === 0 ? lines : lines.filter((line) => !repeated.has(line));
      if (stored.lines.mayRepeat(identity)) for (const line of fresh) inRequest.set(line, identity);
      if (fresh.length === 0) return [];
      return [fresh === lines ? batch : { identity: { ...identity, lines: fresh }, body: batch.without(repeated) }];
    });
  }
}

function identitiesOf(batches: readonly Sent[]): BatchId[] {
  return batches.flatMap(({ identity }) => identity ?? []);
}

function isToken(value: string | string[] | undefined, token: string): boolean {
  return typeof value === "string" && value.length === token.length && timingSafeEqual(Buffer.from(value, "latin1"), Buffer.from(token));
}
