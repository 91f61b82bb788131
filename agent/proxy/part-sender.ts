// Splits batches that the backend refuses, as too large (413) or because of a record that it cannot read (400), and sends the parts. A small
// batch can be too large, because a resource's attributes are stored with each record, which is a data point in metrics. Invariants:
// splitting yields the same bytes each time, so that a repeated part is stored once; if a batch is repeated after a timeout, sending
// continues with the next part; a record that is refused by itself is dropped and counted, and does not cost the others.
import { createHash } from "node:crypto";
import { type ForwardResult, isFinal, isOfWhole } from "./forward.ts";
import type { Signal } from "../settings.ts";
import { BodyError } from "../../common/otlp-metrics/document.ts";
import { MAX_INVALID_RECORDS, MAX_PARTLY_SENT_BATCHES, MAX_REQUEST_PARTS } from "../agent-limits.ts";
import {
  type FieldRange,
  readMetric,
  readResources,
  REQUEST,
  RESOURCE_RECORDS,
  SCOPE_RECORDS,
} from "../../common/protobuf/otlp-requests.ts";
import { WireReader } from "../../common/protobuf/wire-reader.ts";
import { WireWriter } from "../../common/protobuf/wire-writer.ts";

/** Sends one part as its own request. */
type SendPart = (body: Buffer) => Promise<ForwardResult>;

/** A part that is still too large is split into this many parts. */
const SPLIT_FACTOR = 8;

type Refusal = Exclude<ForwardResult, { kind: "accepted" }>;
type OnDrop = (signal: Signal, reason: string, records: number, why: string) => void;

/** A batch that is being sent in parts. */
interface Batch {
  readonly signal: Signal;
  readonly send: SendPart;
  /** Records that the backend could not read. */
  invalidRecords: number;
}

/** Whether parts of a batch may be accepted although the batch was refused, by the backend or by a proxy with a lower limit. */
export function mayAcceptParts(result: ForwardResult): result is Refusal {
  return isOfWhole(result) && (isTooLarge(result) || (result.kind === "refused" && result.status === 400 && result.lacksProtobuf !== true));
}

function isTooLarge(result: ForwardResult): boolean {
  return result.kind === "retry" ? result.isTooLarge === true : result.kind === "refused" && result.status === 413;
}

export class PartSender {
  readonly #onDrop: OnDrop;
  /** Hash of the batch → number of parts that are stored or finally refused; most recently used last. */
  readonly #finishedParts = new Map<string, number>();

  constructor(onDrop: OnDrop) {
    this.#onDrop = onDrop;
  }

  /**
   * Returns "accepted" if every part is stored or dropped; otherwise, after all parts were tried, a refusal. `refusal` is the response to the
   * whole batch; it is returned if the batch cannot be split.
   */
  async send(signal: Signal, body: Buffer, refusal: Refusal, send: SendPart): Promise<ForwardResult> {
    const batch: Batch = { signal, send, invalidRecords: 0 };
    const limits = isTooLarge(refusal) ? FIRST_LIMITS[signal] : partOf({ storedBytes: Number.MAX_SAFE_INTEGER, sentBytes: body.length });
    const hash = createHash("sha256").update(body).digest("base64");
    let index = 0;
    let outcome: ForwardResult = { kind: "accepted" };
    try {
      for (const [part, isLast] of withLast(splitBatch(signal, body, limits))) {
        index += 1;
        // Nothing would be left of it, and the collector reports the loss.
        if (!isTooLarge(refusal) && index === 1 && isLast && part.records === 1) return refusal;
        if (index <= (this.#finishedParts.get(hash) ?? 0)) continue;
        const result = await this.#sendPart(batch, part, limits);
        if (!isFinal(result)) return result;
        if (result.kind === "refused") outcome = result;
        this.#remember(hash, index);
      }
    } catch (error) {
      if (error instanceof BodyError && !isTooLarge(refusal)) return refusal;
      throw error;
    }
    this.#finishedParts.delete(hash);
    return index === 0 ? refusal : outcome;
  }

  async #sendPart(batch: Batch, part: Part, limits: PartLimits): Promise<ForwardResult> {
    const result = await batch.send(part.body);
    if (!mayAcceptParts(result)) return result;
    // Each invalid record costs several requests.
    if (!isTooLarge(result) && batch.invalidRecords >= MAX_INVALID_RECORDS) return result;
    if (part.records === 1) return result.kind === "retry" ? result : this.#drop(batch, result);
    const smaller = partOf(isTooLarge(result) ? limits : { storedBytes: Number.MAX_SAFE_INTEGER, sentBytes: part.body.length });
    let outcome: ForwardResult = { kind: "accepted" };
    for (const smallerPart of splitBatch(batch.signal, part.body, smaller)) {
      const answer = await this.#sendPart(batch, smallerPart, smaller);
      if (!isFinal(answer)) return answer;
      if (answer.kind === "refused") outcome = answer;
    }
    return outcome;
  }

  #drop(batch: Batch, { status, code, message }: Extract<Refusal, { kind: "refused" }>): ForwardResult {
    const reason = status === 413 ? "too_large" : "invalid";
    if (reason === "invalid") batch.invalidRecords += 1;
    this.#onDrop(batch.signal, reason, 1, `${code}: ${message}`);
    return { kind: "accepted" };
  }

  #remember(batch: string, parts: number): void {
    this.#finishedParts.delete(batch);
    this.#finishedParts.set(batch, parts);
    const [oldest] = this.#finishedParts.keys();
    if (this.#finishedParts.size > MAX_PARTLY_SENT_BATCHES && oldest !== undefined) this.#finishedParts.delete(oldest);
  }
}

// Splits an OTLP/protobuf request. Invariants: it is pure, so that a repetition has the same bytes and is stored once; no
// record is lost or duplicated, and each keeps its resource and scope, a point its metric.

interface Part {
  readonly body: Buffer;
  readonly records: number;
}

/** Each item, and whether it is the last one. */
function* withLast<Item>(items: Iterator<Item>): Generator<[Item, boolean]> {
  for (let item = items.next(); item.done !== true;) {
    const next = items.next();
    yield [item.value, next.done === true];
    item = next;
  }
}

/** Limits of a part; a single record may exceed them. */
interface PartLimits {
  /** Size as stored: each record with its resource and scope. */
  readonly storedBytes: number;
  /** Size as sent. */
  readonly sentBytes: number;
}

/**
 * Half of the backend's limits, because sizes are estimated. Exposition text, which metrics become there, is limited more than rows are.
 */
const FIRST_LIMITS: Readonly<Record<Signal, PartLimits>> = {
  logs: { storedBytes: 64 << 20, sentBytes: 16 << 20 },
  traces: { storedBytes: 64 << 20, sentBytes: 16 << 20 },
  metrics: { storedBytes: 16 << 20, sentBytes: 16 << 20 },
};

function partOf({ storedBytes, sentBytes }: PartLimits): PartLimits {
  return { storedBytes: storedBytes / SPLIT_FACTOR, sentBytes: sentBytes / SPLIT_FACTOR };
}

/** Estimated overhead that the backend stores with each record. */
const ROW_BYTES = 256;
/** For the tags and lengths of a resource, a scope, a metric and its data. */
const SPARE_BYTES = 32;

/** A message around records, without them: its number in the message around it, and its other fields. */
interface Wrapper {
  readonly number: number;
  readonly fields: readonly FieldRange[];
}

/** Consecutive records of one scope, or points of one metric. */
interface Run {
  /** The outermost first. */
  readonly wrappers: readonly Wrapper[];
  readonly records: FieldRange[];
}

/** Parts in the order of the request. Throws BodyError. */
export function* splitBatch(signal: Signal, request: Buffer, limits: PartLimits): Generator<Part, void> {
  let part = new PartBuilder();
  for (const { wrappers, records } of runsOf(signal, request)) {
    const sharedBytes = wrappers.reduce((sum, { fields }) => sum + bytesOf(fields), SPARE_BYTES);
    let run: Run | undefined;
    for (const record of records) {
      const bytes = record.end - record.tagStart;
      const addedBytes = run ? 0 : sharedBytes;
      if (part.exceeds(limits, ROW_BYTES + sharedBytes + bytes, addedBytes + bytes)) {
        yield part.build(request);
        part = new PartBuilder();
        run = undefined;
      }
      run ??= part.begin({ wrappers, records: [] }, sharedBytes);
      part.add(run, record, ROW_BYTES + sharedBytes + bytes, bytes);
    }
  }
  if (part.records > 0) yield part.build(request);
}

function* runsOf(signal: Signal, request: Buffer): Generator<Run, void> {
  const reader = new WireReader(request);
  for (const { rest: resource, scopes } of readResources(reader, MAX_REQUEST_PARTS)) {
    for (const { rest: scope, records } of scopes) {
      const wrappers = [
        { number: REQUEST.resources, fields: resource },
        { number: RESOURCE_RECORDS.scopes, fields: scope },
      ];
      if (signal !== "metrics") yield { wrappers, records: [...records] };
      else {
        for (const record of records) {
          const { rest: metric, data, dataRest, points } = readMetric(reader, record);
          const around = [...wrappers, { number: SCOPE_RECORDS.records, fields: metric }, { number: data, fields: dataRest }];
          yield { wrappers: around, records: points };
        }
      }
    }
  }
}

class PartBuilder {
  readonly #runs: Run[] = [];
  #storedBytes = 0;
  #sentBytes = 0;
  records = 0;

  /** Whether one more record would exceed the limits; never true for the first. */
  exceeds(limits: PartLimits, storedBytes: number, sentBytes: number): boolean {
    return this.records > 0 && (this.#storedBytes + storedBytes > limits.storedBytes || this.#sentBytes + sentBytes > limits.sentBytes);
  }

  begin(run: Run, sharedBytes: number): Run {
    this.#runs.push(run);
    this.#sentBytes += sharedBytes;
    return run;
  }

  add({ records }: Run, record: FieldRange, storedBytes: number, sentBytes: number): void {
    records.push(record);
    this.#storedBytes += storedBytes;
    this.#sentBytes += sentBytes;
    this.records += 1;
  }

  build(request: Buffer): Part {
    const writer = new WireWriter(this.#sentBytes);
    const copy = (fields: readonly FieldRange[]): void => {
      for (const { tagStart, end } of fields.toReversed()) writer.copy(request, tagStart, end);
    };
    for (const { wrappers, records } of this.#runs.toReversed()) {
      const end = writer.position;
      copy(records);
      for (const { number, fields } of wrappers.toReversed()) {
        copy(fields);
        writer.field(number, end);
      }
    }
    return { body: writer.take(), records: this.records };
  }
}

function bytesOf(fields: readonly FieldRange[]): number {
  return fields.reduce((sum, { tagStart, end }) => sum + end - tagStart, 0);
}
