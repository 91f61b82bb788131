// Splits batches that the backend refuses as too large (413) and sends the parts. A small batch can be too large, because a resource's
// attributes are stored with each record. Invariants: splitting yields the same bytes each time, so that a repeated part is stored once; if a
// batch is repeated after a timeout, sending continues with the next part; a record that is too large by itself is dropped and counted.
import { createHash } from "node:crypto";
import { type ForwardResult, isFinal } from "./forward.ts";
import { MAX_PARTLY_SENT_BATCHES } from "../agent-limits.ts";
import { BodyError, parseDocument } from "../../common/otlp-metrics/document.ts";

type SplitSignal = "logs" | "traces";

/** Sends one part as its own request. */
type SendPart = (body: Buffer) => Promise<ForwardResult>;

/** A part that is still too large is split into this many parts. */
const SPLIT_FACTOR = 8;

export class PartSender {
  readonly #onDrop: (signal: SplitSignal, records: number, why: string) => void;
  /** Hash of the batch → number of parts that are stored or finally refused; most recently used last. */
  readonly #finishedParts = new Map<string, number>();

  constructor(onDrop: (signal: SplitSignal, records: number, why: string) => void) {
    this.#onDrop = onDrop;
  }

  /**
   * Returns "accepted" if every part is stored or dropped; otherwise, after all parts were tried, a refusal for another reason than size.
   * `tooLarge` is the response to the whole batch; it is returned if the batch cannot be split.
   */
  async send(signal: SplitSignal, json: Buffer, tooLarge: ForwardResult, send: SendPart): Promise<ForwardResult> {
    const batch = createHash("sha256").update(json).digest("base64");
    let index = 0;
    let outcome: ForwardResult = { kind: "accepted" };
    for (const part of splitBatch(signal, json, FIRST_LIMITS)) {
      index += 1;
      if (index <= (this.#finishedParts.get(batch) ?? 0)) continue;
      const result = await this.#sendPart(signal, part, FIRST_LIMITS, send);
      if (!isFinal(result)) return result;
      if (result.kind === "refused") outcome = result;
      this.#remember(batch, index);
    }
    this.#finishedParts.delete(batch);
    return index === 0 ? tooLarge : outcome;
  }

  async #sendPart(signal: SplitSignal, part: Part, limits: PartLimits, send: SendPart): Promise<ForwardResult> {
    const result = await send(part.body);
    if (result.kind !== "refused" || result.status !== 413) return result;
    if (part.records === 1) {
      this.#onDrop(signal, 1, `${result.code}: ${result.message}`);
      return { kind: "accepted" };
    }
    const smaller = { storedBytes: limits.storedBytes / SPLIT_FACTOR, sentBytes: limits.sentBytes / SPLIT_FACTOR };
    let outcome: ForwardResult = { kind: "accepted" };
    for (const smallerPart of splitBatch(signal, part.body, smaller)) {
      const answer = await this.#sendPart(signal, smallerPart, smaller, send);
      if (!isFinal(answer)) return answer;
      if (answer.kind === "refused") outcome = answer;
    }
    return outcome;
  }

  #remember(batch: string, parts: number): void {
    this.#finishedParts.delete(batch);
    this.#finishedParts.set(batch, parts);
    const [oldest] = this.#finishedParts.keys();
    if (this.#finishedParts.size > MAX_PARTLY_SENT_BATCHES && oldest !== undefined) this.#finishedParts.delete(oldest);
  }
}

// Splits an OTLP/JSON document of logs or traces. Invariants: it is pure, so that a repetition has the same bytes and is stored once; no record
// is lost or duplicated, and each keeps its resource and scope. Numbers beyond 2^53 would be rounded; the collector writes 64-bit integers as
// strings.

interface Part {
  readonly body: Buffer;
  readonly records: number;
}

/** Limits of a part; a single record may exceed them. */
interface PartLimits {
  /** Size as stored: each record with its resource and scope. */
  readonly storedBytes: number;
  /** Size as sent. */
  readonly sentBytes: number;
}

/** Half of the backend's limits, because sizes are estimated. */
const FIRST_LIMITS: PartLimits = { storedBytes: 64 << 20, sentBytes: 16 << 20 };

type Message = Readonly<Record<string, unknown>>;

const NAMES = {
  logs: { resources: "resourceLogs", scopes: "scopeLogs", records: "logRecords" },
  traces: { resources: "resourceSpans", scopes: "scopeSpans", records: "spans" },
} as const;

/** Estimated overhead that the backend stores with each record. */
const ROW_BYTES = 256;

/** Parts in the order of the document. Throws BodyError "malformed" if it is not valid, "too_large" if it has too many values. */
export function* splitBatch(signal: keyof typeof NAMES, json: Buffer, limits: PartLimits): Generator<Part, void> {
  const names = NAMES[signal];
  try {
    const { [names.resources]: resources, ...rest } = parseDocument(json) as Message;
    const part = new PartBuilder(names.resources, rest);
    for (const { [names.scopes]: scopes, ...resource } of messages(resources)) {
      for (const { [names.records]: records, ...scope } of messages(scopes)) {
        const sharedBytes = jsonBytes(resource) + jsonBytes(scope);
        let list: Message[] | undefined;
        for (const record of messages(records)) {
          const bytes = jsonBytes(record);
          const addedBytes = list ? 0 : sharedBytes;
          if (part.exceeds(limits, ROW_BYTES + sharedBytes + bytes, addedBytes + bytes)) {
            yield part.take();
            list = undefined;
          }
          list ??= part.begin(sharedBytes, (added) => ({ ...resource, [names.scopes]: [{ ...scope, [names.records]: added }] }));
          part.add(list, record, ROW_BYTES + sharedBytes + bytes, bytes);
        }
      }
    }
    if (part.records > 0) yield part.take();
  } catch (cause) {
    if (cause instanceof BodyError) throw cause;
    throw new BodyError("malformed", `the ${signal} are not an OTLP/JSON document`, { cause });
  }
}

class PartBuilder {
  readonly #name: string;
  readonly #rest: Message;
  #resources: Message[] = [];
  #storedBytes = 0;
  #sentBytes = 0;
  records = 0;

  constructor(name: string, rest: Message) {
    this.#name = name;
    this.#rest = rest;
  }

  /** Whether one more record would exceed the limits; never true for the first. */
  exceeds(limits: PartLimits, storedBytes: number, sentBytes: number): boolean {
    return this.records > 0 && (this.#storedBytes + storedBytes > limits.storedBytes || this.#sentBytes + sentBytes > limits.sentBytes);
  }

  /** Adds a list for records of one resource and scope; `wrap` returns the resource with the list. */
  begin(sharedBytes: number, wrap: (list: Message[]) => Message): Message[] {
    const list: Message[] = [];
    this.#resources.push(wrap(list));
    this.#sentBytes += sharedBytes;
    return list;
  }

  add(list: Message[], record: Message, storedBytes: number, sentBytes: number): void {
    list.push(record);
    this.#storedBytes += storedBytes;
    this.#sentBytes += sentBytes;
    this.records += 1;
  }

  take(): Part {
    const part = { body: Buffer.from(JSON.stringify({ ...this.#rest, [this.#name]: this.#resources })), records: this.records };
    this.#resources = [];
    this.#storedBytes = 0;
    this.#sentBytes = 0;
    this.records = 0;
    return part;
  }
}

/** Absent and null mean empty. */
function messages(list: unknown): readonly Message[] {
  return (list ?? []) as readonly Message[];
}

function jsonBytes(message: Message): number {
  return Buffer.byteLength(JSON.stringify(message));
}
