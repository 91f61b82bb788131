// Handles one request body of a signal, whichever route or protocol it arrived through: checks memory and quota, reads, stores and counts it.
// Invariant: all protocols share one handler, so an organisation's limits apply to all of them together.
import type { FastifyRequest } from "fastify";
import type { RateLimits, Sender } from "../http/request-identity.ts";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";
import { withoutByteOrderMark } from "../../common/content-coding/decoder.ts";
import { freeBuffer } from "../../common/http.ts";
import { ApiError } from "../errors.ts";
import type { OwnMetrics, Signal } from "../operations/own-metrics.ts";
import type { ReplicaSet } from "../replicas/replica-set.ts";
import { type BodyPace, type Incoming, readBody } from "./body.ts";
import { Quota } from "./quota.ts";
import type { RecordFaults } from "./record-faults.ts";

/** The number of stored records and, by reason, of well-formed records that were dropped. */
export interface IngestResult {
  readonly accepted: number;
  readonly dropped: Readonly<Record<string, number>>;
  /** Names the records that were left out because they are invalid. */
  readonly faults?: RecordFaults;
  /** Set if it can be much more than the body, because every record is stored with its resource. */
  readonly storedBytes?: number;
  /** Exemplars that were stored next to the records. */
  readonly exemplars?: number;
  /** Native histograms of remote write, which are part of `accepted`. */
  readonly histograms?: number;
  /** Current active series of the organisation, if they are counted. */
  readonly activeSeries?: number;
}

/** Whether a reason counts dropped exemplars, for which senders get no error. */
export function isExemplarReason(reason: string): boolean {
  return reason.startsWith("exemplar_");
}

/** The format of a body that is neither OTLP/JSON nor exposition text. `protobuf` is OTLP. */
export type BodyEncoding = "protobuf" | "loki_json" | "loki_protobuf" | "remote_write" | "remote_write_2";

export interface IngestContext {
  readonly receivedAt: Date;
  /** Default: OTLP/JSON or exposition text. */
  readonly encoding?: BodyEncoding;
  /** An invalid record is left out and named, and the others are stored. On signed routes it makes the whole body invalid. */
  readonly isTolerant?: boolean;
  /** Scopes may mark their records as raw lines of log files (otlp/file-lines.ts). */
  readonly readsLines?: boolean;
  /** Memory that the body needs once decoded is added here, unless another budget limits it. */
  readonly reservation?: Pick<Reservation, "add">;
}

/**
 * Stores one decompressed body of a signal under the sender's identity, or throws ApiError with nothing stored. Once it has resolved,
 * nothing refers to the body any more, so its memory can be freed.
 */
export type IngestSignal = (sender: Sender, body: Buffer, context: IngestContext) => Promise<IngestResult>;

export interface IngestHandlerOptions {
  readonly ownMetrics: OwnMetrics;
  /** `settings.ingestMemoryBytes`. */
  readonly memoryBytes: number;
  readonly limitsOf: (orgId: string) => RateLimits;
  /** Default: there are no other replicas. */
  readonly replicas?: Pick<ReplicaSet, "shareOf" | "recordDemand"> | undefined;
  /** Counts what was stored, for the usage of the organisation. */
  readonly usage?: { count(orgId: string, signal: Signal, bytes: number, records: number, activeSeries?: number): void };
  /** True once the process is stopping: new bodies get 503. */
  readonly draining: () => boolean;
  readonly pace?: BodyPace;
}

export interface IngestRequest {
  readonly sender: Sender;
  readonly signal: Signal;
  readonly ingest: IngestSignal;
  /** Default: OTLP/JSON or exposition text. A function decides by the body. */
  readonly encoding?: BodyEncoding | ((body: Buffer) => BodyEncoding | undefined) | undefined;
  /** See IngestContext. */
  readonly isTolerant?: boolean;
  /** See IngestContext. */
  readonly readsLines?: boolean;
  /** Returns the decompressed body; its memory is added to the reservation. */
  readonly read: (reservation: Reservation) => Buffer | Promise<Buffer>;
}

const RETRY_AFTER_DRAINING_S = 2;
const OPENING_BRACE = 0x7b;
const EMPTY_RESULT: IngestResult = { accepted: 0, dropped: {} };

export class IngestHandler {
  readonly budget: ByteBudget;
  readonly #quota: Quota;
  /** Limits of ingest tokens that have their own, by token and signal. */
  readonly #tokenQuota: Quota;
  readonly #options: IngestHandlerOptions;
  inFlight = 0;

  constructor(options: IngestHandlerOptions) {
    this.#options = options;
    const { replicas } = options;
    this.#quota = new Quota({ owners: "organisation's", replicas });
    this.#tokenQuota = new Quota({ owners: "ingest token's", replicas });
    this.budget = new ByteBudget(options.memoryBytes);
    options.ownMetrics.gauge("ingest_held_bytes", () => this.budget.heldBytes);
    options.ownMetrics.gauge("ingest_requests_in_flight", () => this.inFlight);
  }

  /** Reads the body of a request with hidden headers (`hideBody` of ingest-routes.ts). `isSnappy`: a body in Snappy stays compressed. */
  readRequest({ raw, declaredBytes, headers }: FastifyRequest, { isSnappy = false } = {}): IngestRequest["read"] {
    const header = headers["content-encoding"];
    const encoding = isSnappy && header?.trim().toLowerCase() === "snappy" ? undefined : header;
    return this.readStream({ request: raw, declaredBytes, encoding });
  }

  readStream(incoming: Incoming): IngestRequest["read"] {
    return (reservation) => readBody(incoming, reservation, this.#options.pace);
  }

  /** Throws ApiError with nothing stored. */
  async handle(request: IngestRequest): Promise<IngestResult> {
    this.inFlight += 1;
    try {
      return await this.#store(request);
    } finally {
      this.inFlight -= 1;
    }
  }

  async #store(request: IngestRequest): Promise<IngestResult> {
    const { sender, signal, ingest, encoding: format, isTolerant = false, readsLines = false, read } = request;
    if (this.#options.draining()) {
      throw new ApiError("unavailable", "this replica is stopping; send it again", { retryAfterS: RETRY_AFTER_DRAINING_S });
    }
    const { orgId } = sender;
    this.#admit(sender, signal);
    const receivedAt = new Date();
    using reservation = this.budget.open(orgId);
    let firstBytes: Buffer | undefined;
    try {
      const reading = read(reservation);
      const received = reading instanceof Promise ? await reading : reading;
      const encoding = typeof format === "function" ? format(received) : format;
      const body = encoding === undefined || encoding === "loki_json" ? withoutByteOrderMark(received) : received;
      if (body.length === 0) return EMPTY_RESULT;
      const bytes = body.length;
      // A copy: the ingest may hand the body's memory to another thread. Nothing binary that is known begins with a brace.
      if (encoding === undefined && body[0] !== OPENING_BRACE) firstBytes = Buffer.from(body.subarray(0, 512));
      const result = await ingest(sender, body, { receivedAt, reservation, isTolerant, readsLines, ...(encoding && { encoding }) });
      // Not after a failure, because a write may still be using it.
      freeBuffer(body);
      const cost = Math.max(bytes, result.storedBytes ?? 0);
      this.#charge(sender, signal, { bytes: cost, records: this.#countRecords(signal, result) });
      if (result.accepted > 0) this.#options.usage?.count(orgId, signal, cost, result.accepted, result.activeSeries);
      return result;
    } catch (error) {
      // A body that is rejected for its content is charged what reading it cost. A body that is to be retried is charged when it arrives
      // again.
      if (error instanceof ApiError && error.status < 500) this.#charge(sender, signal, { bytes: reservation.peakBytes, records: 0 });
      // Neither JSON nor exposition text contains these control characters.
      const isBinary = firstBytes?.some((byte) => byte < 9 || (byte > 13 && byte < 32));
      throw isBinary ? withBinaryHint(error) : error;
    }
  }

  #admit({ orgId, keyId, limits }: Sender, signal: Signal): void {
    this.#quota.admit(orgId, this.#options.limitsOf(orgId));
    if (limits) this.#tokenQuota.admit(`${keyId} ${signal}`, limits);
  }

  #charge({ orgId, keyId, limits }: Sender, signal: Signal, cost: { readonly bytes: number; readonly records: number }): void {
    this.#quota.charge(orgId, this.#options.limitsOf(orgId), cost);
    if (limits) this.#tokenQuota.charge(`${keyId} ${signal}`, limits, cost);
  }

  /** Adds the records to the backend's own metrics. Returns their number, stored or dropped. */
  #countRecords(signal: Signal, { accepted, dropped }: IngestResult): number {
    const { ownMetrics } = this.#options;
    ownMetrics.accepted(signal, accepted);
    for (const [reason, count] of Object.entries(dropped)) ownMetrics.dropped(signal, reason, count);
    return Object.values(dropped).reduce((sum, count) => sum + count, accepted);
  }
}

/** Adds that a rejected body looks binary. Its first bad line or byte is still named, because text may look binary, too. */
function withBinaryHint(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status !== 400) return error;
  return new ApiError(
    "invalid_payload",
    `${error.message}; it begins like protobuf or another binary format, which is not taken here: send OTLP/JSON (logs, traces) or Prometheus exposition text (metrics), or OTLP in protobuf with \`Content-Type: application/x-protobuf\``,
    { cause: error },
  );
}
