// Sends in parts what the backend refuses whole for its size (413): a resource's attributes are stored with each of its records, so a
// small batch may be too much. Invariants: the parts are the same bytes each time, so that what is sent again is stored once; a batch that
// takes longer than one request has time goes on where it stopped; a record that is too large by itself is left out and counted, and
// holds up nothing.
import { createHash } from "node:crypto";
import type { Verdict } from "./forward.ts";
import { MAX_PARTLY_SENT_BATCHES } from "./limits.ts";
import { FIRST_LIMITS, type Part, type PartLimits, splitBatch } from "./split-batch.ts";

type SplitSignal = "logs" | "traces";

/** Sends one part as a request of its own. */
export type SendPart = (body: Buffer) => Promise<Verdict>;

const FEWER = 8;

export class PartSender {
  readonly #onDrop: (signal: SplitSignal, records: number, why: string) => void;
  /** Hash of the batch → parts that are stored, or refused for good; the last used last. */
  readonly #done = new Map<string, number>();

  constructor(onDrop: (signal: SplitSignal, records: number, why: string) => void) {
    this.#onDrop = onDrop;
  }

  /**
   * "accepted" when every part is stored or left out; a refusal for another reason than its size when the rest is. `tooLarge` is the answer
   * to the whole, and stands when there is nothing to be cut.
   */
  async send(signal: SplitSignal, json: Buffer, tooLarge: Verdict, send: SendPart): Promise<Verdict> {
    const batch = createHash("sha256").update(json).digest("base64");
    let index = 0;
    let refusal: Verdict | undefined;
    for (const part of splitBatch(signal, json, FIRST_LIMITS)) {
      index += 1;
      if (index <= (this.#done.get(batch) ?? 0)) continue;
      const verdict = await this.#sendPart(signal, part, FIRST_LIMITS, send);
      if (!isFinal(verdict)) return verdict;
      if (verdict.kind === "refused") refusal = verdict;
      this.#remember(batch, index);
    }
    this.#done.delete(batch);
    if (index === 0) return tooLarge;
    return refusal ?? { kind: "accepted" };
  }

  async #sendPart(signal: SplitSignal, part: Part, limits: PartLimits, send: SendPart): Promise<Verdict> {
    const verdict = await send(part.body);
    if (verdict.kind !== "refused" || verdict.status !== 413) return verdict;
    if (part.records === 1) {
      this.#onDrop(signal, 1, `${verdict.code}: ${verdict.message}`);
      return { kind: "accepted" };
    }
    const smaller = { storedBytes: limits.storedBytes / FEWER, sentBytes: limits.sentBytes / FEWER };
    let refusal: Verdict = { kind: "accepted" };
    for (const smallerPart of splitBatch(signal, part.body, smaller)) {
      const answer = await this.#sendPart(signal, smallerPart, smaller, send);
      if (!isFinal(answer)) return answer;
      if (answer.kind === "refused") refusal = answer;
    }
    return refusal;
  }

  #remember(batch: string, parts: number): void {
    this.#done.delete(batch);
    this.#done.set(batch, parts);
    const [oldest] = this.#done.keys();
    if (this.#done.size > MAX_PARTLY_SENT_BATCHES && oldest !== undefined) this.#done.delete(oldest);
  }
}

/** Not worth sending again. */
function isFinal(verdict: Verdict): boolean {
  return verdict.kind === "accepted" || (verdict.kind === "refused" && verdict.status !== 429);
}
