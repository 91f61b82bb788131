// Decodes OTLP request bodies into rows without blocking the event loop. The size of a body decides where it is decoded:
//
// 1. small bodies: immediately, on this thread;
// 2. larger bodies, if the WebAssembly kernel accepts them: on this thread, one per turn of the event loop;
// 3. all others: on worker threads (otlp-decoder-worker.ts).
//
// Invariants: each body gets one result, even if decoding it kills its thread; memory for the rows of a body is reserved before they are
// built; the queues are fair, so however many bodies of one organisation wait, the next body of another organisation is not behind them.
import { availableParallelism } from "node:os";
import { freeBuffer } from "../../../common/http.ts";
import { ApiError } from "../../errors.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import { mainThread } from "../../admission/main-thread.ts";
import { ByteBudget, type Reservation } from "../../admission/byte-budget.ts";
import { MAX_DECODER_THREADS, MAX_ROWS_BYTES, MAX_WAITING_BODIES_PER_ORG } from "../ingest-limits.ts";
import type { KernelLimits } from "./fast-decode.ts";
import type { DecodedBody } from "./decoded-rows.ts";
import {
  asJson,
  decompressedBytes,
  type DecodeTask,
  LARGE_BYTES,
  rowsBytes,
  validateBody,
  type ValidatedBody,
  validateFast,
} from "./decode-body.ts";
import { type JobError, ThreadPool, toApiError } from "./thread-pool.ts";

/** A message of a worker: first the memory that it needs and, after a MemoryReply, the rows. */
export type DecodeAnswer = { neededBytes: number } | { decoded: DecodedBody } | JobError | { stopped: true };

/** The reply to `neededBytes`. */
export interface MemoryReply {
  readonly isReserved: boolean;
}

/** Transferring a smaller body to a thread costs more than decoding it, unless its rows are far larger. */
const INLINE_BYTES = 32 * 1024;
const INLINE_ROWS_BYTES = 1024 * 1024;
/** The kernel decodes a smaller body in less than a millisecond; a thread would cost half as much again. */
const MAX_KERNEL_BYTES = 384 * 1024;
/** A smaller body is converted to JSON within about 5 ms. Protobuf grows at most sevenfold, but a Loki entry of two bytes becomes 48. */
const MAX_INLINE_TRANSCODED_BYTES = { protobuf: INLINE_BYTES, loki_json: 16 * 1024, loki_protobuf: 16 * 1024 } as const;
/** Limits of the kernel on this thread. */
const INLINE_LIMITS: KernelLimits = { maxBodyBytes: MAX_KERNEL_BYTES, maxRowsBytes: INLINE_ROWS_BYTES };
/** Twice what the worst body needs, a record of 32 MiB. If JSON.parse exceeds the limit, the whole process ends, not only the thread. */
const WORKER_HEAP_MIB = 512;
const RETRY_AFTER_S = 1;

function createQueue(slots: number): FairQueue {
  return new FairQueue({
    running: slots,
    endsSoon: true,
    waitingPerOrg: MAX_WAITING_BODIES_PER_ORG,
    fullMessage: "too many bodies are waiting to be decoded; send it again later",
    retryAfterS: RETRY_AFTER_S,
  });
}

export class OtlpDecoder implements AsyncDisposable {
  /** Enough for two of the largest bodies of different organisations. */
  readonly #rows = new ByteBudget(2 * MAX_ROWS_BYTES);
  readonly #threadQueue: FairQueue;
  /** Large bodies pass this queue first, so that they occupy at most one thread. */
  readonly #largeQueue = createQueue(1);
  readonly #pool: ThreadPool;
  #isClosed = false;

  constructor(threads = Math.min(MAX_DECODER_THREADS, availableParallelism()), { idleMs }: { idleMs?: number } = {}) {
    this.#threadQueue = createQueue(threads);
    this.#pool = new ThreadPool({
      script: new URL("./otlp-decoder-worker.ts", import.meta.url),
      heapMib: WORKER_HEAP_MIB,
      idleMs,
      tooLarge: (cause) =>
        new ApiError("batch_too_large", "the document needs too much memory once decoded: send smaller batches", { cause }),
      interrupted: (cause) => unavailable("decoding was interrupted; try again", cause),
    });
  }

  /** Bodies that wait for a thread. */
  get queued(): number {
    return mainThread.waiting + this.#threadQueue.waiting + this.#largeQueue.waiting;
  }

  /** Bytes of decoded rows that are not stored yet. */
  get heldBytes(): number {
    return this.#rows.heldBytes;
  }

  /** Current worker threads: none before the first body that needs one, and none a minute after the last. */
  get threads(): number {
    return this.#pool.threads;
  }

  /** Opens an account for the memory of one body's rows; dispose of it when nothing refers to them any more. */
  open(orgId: string): Reservation {
    return this.#rows.open(orgId);
  }

  /**
   * Takes ownership of the body: once it is decoded, its memory is freed, unless it is shared. The memory of the rows is added to
   * `reservation`. A result that is not a promise is available immediately. Throws malformed_body, invalid_payload, batch_too_large,
   * unstorable, unavailable.
   */
  decode(task: DecodeTask, reservation: Reservation): DecodedBody | Promise<DecodedBody> {
    if (task.encoding === undefined) return this.#decodeJson(task, reservation);
    if (decompressedBytes(task) > MAX_INLINE_TRANSCODED_BYTES[task.encoding]) return this.#decodeQueued(task, reservation);
    const inline = decodeInline(task, validateFast(task, INLINE_LIMITS), reservation);
    if (inline) return inline;
    const json = asJson(task);
    freeBuffer(task.body);
    const { byteLength } = json.body;
    reservation.add(byteLength);
    const decoded = this.#decodeJson(json, reservation);
    if (decoded instanceof Promise) return decoded.finally(() => reservation.add(-byteLength));
    reservation.add(-byteLength);
    return decoded;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await this.#pool[Symbol.asyncDispose]();
  }

  /** Decodes immediately if the body is small and has few rows. */
  #decodeJson(task: DecodeTask, reservation: Reservation): DecodedBody | Promise<DecodedBody> {
    const isSmall = task.body.byteLength <= INLINE_BYTES;
    const decoded = isSmall ? decodeInline(task, validateBody(task, INLINE_LIMITS), reservation) : undefined;
    return decoded ?? this.#decodeQueued(task, reservation, isSmall);
  }

  /** `isTried`: the kernel of this thread did not accept the body. */
  async #decodeQueued(task: DecodeTask, reservation: Reservation, isTried = false): Promise<DecodedBody> {
    const { orgId } = task.context;
    await this.#rows.waitForSpace(orgId, MAX_WAITING_BODIES_PER_ORG);
    const onThread = () => this.#threadQueue.run(orgId, undefined, () => this.#decodeOnThread(task, reservation));
    const isKnown = task.encoding === undefined || task.encoding === "protobuf";
    const isForKernel = isKnown && !isTried && task.body.byteLength <= MAX_KERNEL_BYTES;
    const withKernel = () => decodeInline(task, validateFast(task, INLINE_LIMITS), reservation);
    const decoded = isForKernel ? await mainThread.run(orgId, withKernel) : undefined;
    if (decoded) return decoded;
    return await (decompressedBytes(task) > LARGE_BYTES ? this.#largeQueue.run(orgId, undefined, onThread) : onThread());
  }

  async #decodeOnThread(task: DecodeTask, reservation: Reservation): Promise<DecodedBody> {
    if (this.#isClosed) throw unavailable("shutting down; try again");
    let reservedBytes = 0;
    let refusal: unknown;
    return await this.#pool.run<DecodeAnswer, DecodedBody>(task, (answer, reply) => {
      if (!("neededBytes" in answer)) return readResult(answer, { reservation, reservedBytes, refusal });
      try {
        reservation.add(answer.neededBytes);
        reservedBytes = answer.neededBytes;
      } catch (error) {
        refusal = error;
      }
      reply({ isReserved: refusal === undefined } satisfies MemoryReply);
      return undefined;
    });
  }
}

/** The rows of a small body; undefined if they are large. */
function decodeInline({ body }: DecodeTask, validated: ValidatedBody | undefined, reservation: Reservation): DecodedBody | undefined {
  if (!validated || validated.neededBytes > INLINE_ROWS_BYTES) return undefined;
  const { neededBytes, rows } = validated;
  reservation.add(neededBytes);
  const decoded = rows();
  freeBuffer(body);
  reservation.add(rowsBytes(decoded) - neededBytes);
  return decoded;
}

interface JobMemory {
  readonly reservation: Reservation;
  readonly reservedBytes: number;
  /** The reason why memory could not be reserved. */
  readonly refusal: unknown;
}

function readResult(
  answer: Exclude<DecodeAnswer, { neededBytes: number }>,
  { reservation, reservedBytes, refusal }: JobMemory,
): DecodedBody {
  if ("stopped" in answer) throw refusal;
  if (!("decoded" in answer)) throw toApiError(answer, "the document cannot be decoded; sending it again will not help");
  reservation.add(rowsBytes(answer.decoded) - reservedBytes);
  return answer.decoded;
}

function unavailable(message: string, cause?: unknown): ApiError {
  return new ApiError("unavailable", message, { cause, retryAfterS: RETRY_AFTER_S });
}
