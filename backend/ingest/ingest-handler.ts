// Takes one body of a signal, whichever route or protocol it arrived by: limits of memory and quota, reading, storing, counting. Invariant:
// all protocols share one handler, so an organisation's limits hold for all of them together.
import type { FastifyRequest } from "fastify";
import type { Sender } from "../auth/request-identity.ts";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";
import { freeBuffer } from "../../common/http.ts";
import { ApiError } from "../errors.ts";
import type { OwnMetrics, Signal } from "../operations/own-metrics.ts";
import { readBody, type BodyPace } from "./body.ts";
import { MAX_BODY_BYTES } from "./limits.ts";
import { Quota, type QuotaLimits } from "./quota.ts";

/** Records stored and, by reason, well-formed records that could not be kept. */
export interface IngestResult {
  readonly accepted: number;
  readonly dropped: Readonly<Record<string, number>>;
  /** Where it may be much more than the body, because every record carries its resource. */
  readonly storedBytes?: number;
  /** Of the organisation now, where they are counted. */
  readonly activeSeries?: number;
}

export interface IngestContext {
  readonly receivedAt: Date;
  /** Of an OTLP body; default JSON. */
  readonly encoding?: "protobuf";
  /** What the body becomes is added here, unless another budget limits it. */
  readonly reservation?: Pick<Reservation, "add">;
}

/**
 * Stores one decompressed body of a signal under the sender's identity, or throws ApiError with nothing stored. Once it has resolved,
 * nothing refers to the body any more: its memory is gone.
 */
export type IngestSignal = (sender: Sender, body: Buffer, context: IngestContext) => Promise<IngestResult>;

export interface IngestHandlerOptions {
  readonly ownMetrics: OwnMetrics;
  /** `settings.ingestMemoryBytes`. */
  readonly memoryBytes: number;
  /** Of now. */
  readonly limitsOf: (orgId: string) => QuotaLimits;
  /** Counts what was stored. */
  readonly usage?: { count(orgId: string, signal: Signal, bytes: number, records: number, activeSeries?: number): void };
  /** True once the process is stopping: new bodies get 503. */
  readonly draining: () => boolean;
  readonly pace?: BodyPace;
}

/** A request body and how to store it. */
export interface IngestRequest {
  readonly sender: Sender;
  readonly signal: Signal;
  readonly ingest: IngestSignal;
  /** Default JSON or text. */
  readonly encoding?: "protobuf" | undefined;
  /** The decompressed body; its memory is added to the reservation. */
  readonly read: (reservation: Reservation) => Buffer | Promise<Buffer>;
}

const RETRY_AFTER_DRAINING_S = 2;
const NOTHING: IngestResult = { accepted: 0, dropped: {} };

export class IngestHandler {
  readonly budget: ByteBudget;
  readonly #quota: Quota;
  readonly #options: IngestHandlerOptions;
  inFlight = 0;

  constructor(options: IngestHandlerOptions) {
    this.#options = options;
    this.budget = new ByteBudget(options.memoryBytes, MAX_BODY_BYTES);
    this.#quota = new Quota(options.limitsOf);
    options.ownMetrics.gauge("ingest_held_bytes", () => this.budget.heldBytes);
    options.ownMetrics.gauge("ingest_requests_in_flight", () => this.inFlight);
  }

  /** Reads the body of a request whose headers are hidden from Fastify (`hideBody` of routes.ts). */
  readRequest({ raw, declaredBytes, headers }: FastifyRequest): IngestRequest["read"] {
    const incoming = { request: raw, declaredBytes, encoding: headers["content-encoding"] };
    return (reservation) => readBody(incoming, reservation, this.#options.pace);
  }

  /** Throws ApiError with nothing stored. */
  async take(taking: IngestRequest): Promise<IngestResult> {
    this.inFlight += 1;
    try {
      return await this.#store(taking);
    } finally {
      this.inFlight -= 1;
    }
  }

  async #store({ sender, signal, ingest, encoding, read }: IngestRequest): Promise<IngestResult> {
    if (this.#options.draining()) {
      throw new ApiError("unavailable", "this replica is stopping; send it again", { retryAfterS: RETRY_AFTER_DRAINING_S });
    }
    const { orgId } = sender;
    this.#quota.admit(orgId);
    const receivedAt = new Date();
    using reservation = this.budget.open(orgId);
    let start: Buffer | undefined;
    try {
      const reading = read(reservation);
      const body = reading instanceof Promise ? await reading : reading;
      if (body.length === 0) return NOTHING;
      const bytes = body.length;
      // A copy: the ingest may hand the body's memory to another thread.
      if (encoding === undefined) start = Buffer.from(body.subarray(0, 512));
      const result = await ingest(sender, body, { receivedAt, reservation, ...(encoding && { encoding }) });
      // Not after a failure: a write may still be under way.
      freeBuffer(body);
      const cost = Math.max(bytes, result.storedBytes ?? 0);
      this.#quota.charge(orgId, cost, this.#count(signal, result));
      if (result.accepted > 0) this.#options.usage?.count(orgId, signal, cost, result.accepted, result.activeSeries);
      return result;
    } catch (error) {
      // What is refused for its content has cost its reading; what is to come again is charged then.
      if (error instanceof ApiError && error.status < 500) this.#quota.charge(orgId, reservation.peakBytes, 0);
      throw start && isBinary(start) ? namingBinary(error) : error;
    }
  }

  /** The records of the body, kept or dropped. */
  #count(signal: Signal, { accepted, dropped }: IngestResult): number {
    const { ownMetrics } = this.#options;
    ownMetrics.accepted(signal, accepted);
    for (const [reason, count] of Object.entries(dropped)) ownMetrics.dropped(signal, reason, count);
    return Object.values(dropped).reduce((sum, count) => sum + count, accepted);
  }
}

/** The error of a refused body that looks like protobuf says so too; its first bad line or byte stays named, because text may look so. */
function namingBinary(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status !== 400) return error;
  return new ApiError(
    "invalid_payload",
    `${error.message}; it begins like protobuf or another binary format, which is not taken here: send OTLP/JSON (logs, traces) or Prometheus exposition text (metrics)`,
    { cause: error },
  );
}

/** Control characters at the start, which neither JSON nor exposition text has there. */
function isBinary(start: Buffer): boolean {
  return start.some((byte) => byte < 9 || (byte > 13 && byte < 32));
}
