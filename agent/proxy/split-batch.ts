// Cuts an OTLP/JSON document of logs or traces that the backend refuses for its size into smaller ones. Invariant: pure, so that what is
// sent again after a failure is the same bytes and stored once; no record is lost or doubled, and each keeps its resource and scope.
// A number beyond 2^53 would be rounded; the collector writes 64-bit integers as strings.
import { BodyError, parseDocument } from "../../common/otlp-metrics/json-body.ts";

export interface Part {
  readonly body: Buffer;
  readonly records: number;
}

/** What a part may be at most; one record alone may be more. */
export interface PartLimits {
  /** As it is stored, each record with its resource and scope. */
  readonly storedBytes: number;
  /** As it is sent. */
  readonly sentBytes: number;
}

/** Half of what the backend takes: the estimate here is rough. */
export const FIRST_LIMITS: PartLimits = { storedBytes: 64 << 20, sentBytes: 16 << 20 };

type Message = Readonly<Record<string, unknown>>;

const NAMES = {
  logs: { resources: "resourceLogs", scopes: "scopeLogs", records: "logRecords" },
  traces: { resources: "resourceSpans", scopes: "scopeSpans", records: "spans" },
} as const;

/** What the backend stores beside each record, about. */
const ROW_BYTES = 256;

/** In the order of the document. Throws BodyError "malformed" when it is none, "too_large" when it has too many values. */
export function* splitBatch(signal: keyof typeof NAMES, json: Buffer, limits: PartLimits): Generator<Part, void> {
  const names = NAMES[signal];
  try {
    const { [names.resources]: resources, ...rest } = parseDocument(json) as Message;
    const part = new PartBuilder(names.resources, rest);
    for (const { [names.scopes]: scopes, ...resource } of messages(resources)) {
      for (const { [names.records]: records, ...scope } of messages(scopes)) {
        const sharedBytes = lengthOf(resource) + lengthOf(scope);
        let into: Message[] | undefined;
        for (const record of messages(records)) {
          const bytes = lengthOf(record);
          const addedBytes = into ? 0 : sharedBytes;
          if (part.exceeds(limits, ROW_BYTES + sharedBytes + bytes, addedBytes + bytes)) {
            yield part.take();
            into = undefined;
          }
          into ??= part.begin(sharedBytes, (list) => ({ ...resource, [names.scopes]: [{ ...scope, [names.records]: list }] }));
          part.add(into, record, ROW_BYTES + sharedBytes + bytes, bytes);
        }
      }
    }
    if (part.records > 0) yield part.take();
  } catch (cause) {
    if (cause instanceof BodyError) throw cause;
    throw new BodyError("malformed", `${signal} that are not an OTLP/JSON document`, { cause });
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

  /** Whether one more record is too much; never for the first. */
  exceeds(limits: PartLimits, storedBytes: number, sentBytes: number): boolean {
    return this.records > 0 && (this.#storedBytes + storedBytes > limits.storedBytes || this.#sentBytes + sentBytes > limits.sentBytes);
  }

  /** A list for records of one resource and scope, in which `wrap` puts it. */
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

/** Absent and null are empty. */
function messages(list: unknown): readonly Message[] {
  return (list ?? []) as readonly Message[];
}

function lengthOf(message: Message): number {
  return Buffer.byteLength(JSON.stringify(message));
}
