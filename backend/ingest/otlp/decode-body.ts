// Validates an OTLP request body and decodes it into rows, on the calling thread: with the kernel if it accepts the body, otherwise on the slow
// path, which reads JSON and has a message for every error. Invariant: no row is built before the whole body is validated.
import { MAX_ROWS_BYTES } from "../ingest-limits.ts";
import { decodeLogs, LOG_SHAPE } from "./decode-logs.ts";
import { type BatchPlan, estimateRows, planBatch, tooLarge } from "./batch.ts";
import { type KernelLimits, OTLP_KERNEL } from "./fast-decode.ts";
import { bodyHashOf, type DecodedBody, type OtlpSignal, ROW_BYTES, type RowContext } from "./decoded-rows.ts";
import { decodeTraces, SPAN_SHAPE } from "./decode-spans.ts";
import { type LokiEncoding, lokiToJson } from "../loki/push-to-json.ts";
import { protobufToJson } from "./protobuf/to-json.ts";
import { operationsOf } from "../../storage/traces/operations-of.ts";
import { noFaults, withFaults } from "../record-faults.ts";
import { snappyLength } from "../snappy.ts";

/** The same task with its body as JSON. It keeps the hash of the protobuf body, which the kernel may accept when it is sent again. */
export function asJson({ encoding, body, ...task }: DecodeTask): DecodeTask {
  if (encoding === undefined) return { ...task, body };
  if (encoding === "protobuf")
    return { ...task, body: protobufToJson(task.signal, body, task.context.readsLines), bodyHash: bodyHashOf(body), isConverted: true };
  return { ...task, body: lokiToJson(encoding, body, task.context.faults ?? noFaults()), isConverted: true };
}

/** The size of the body when decompressed. Throws malformed_body and body_too_large. */
export function decompressedBytes({ encoding, body }: Pick<DecodeTask, "encoding" | "body">): number {
  return encoding === "loki_protobuf" ? snappyLength(body) : body.byteLength;
}

export type OtlpBodyEncoding = "protobuf" | LokiEncoding;

export interface DecodeTask {
  readonly signal: OtlpSignal;
  readonly body: Uint8Array;
  /** Default: JSON. */
  readonly encoding?: OtlpBodyEncoding;
  /** Default: computed from `body`. */
  readonly bodyHash?: string;
  /** The JSON was made from another encoding, in which the last of several fields counts. */
  readonly isConverted?: true;
  /** Without the hash, which is computed on the thread that decodes. */
  readonly context: Omit<RowContext, "bodyHash">;
}

/** Larger than the request bodies that agents send. */
export const LARGE_BYTES = 5 * 1024 * 1024;
/** Limits of the kernel of a thread; its memory is kept, at most 50 MiB. */
export const KERNEL_LIMITS: KernelLimits = { maxBodyBytes: LARGE_BYTES, maxRowsBytes: 24 * 1024 * 1024 };
/** The estimate may be up to eight times too high, so only a larger one is refused without decoding. */
const MAX_ESTIMATED_ROWS_BYTES = 8 * MAX_ROWS_BYTES;

const DECODERS = { logs: { shape: LOG_SHAPE, decode: decodeLogs }, traces: { shape: SPAN_SHAPE, decode: decodeTraces } };

/** Validates a body and estimates the memory of its rows. Throws malformed_body, invalid_payload, batch_too_large. */
function planNow({ signal, body, context, isConverted }: DecodeTask): { plan: BatchPlan; neededBytes: number } {
  const plan = { ...planBatch(body, DECODERS[signal].shape, context.faults !== undefined), mayRepeat: isConverted === true };
  const rowBytes = ROW_BYTES + context.orgId.length + context.hostId.length + context.node.length;
  const estimate = estimateRows(plan, rowBytes);
  if (estimate > MAX_ESTIMATED_ROWS_BYTES)
    throw tooLarge(`about ${Math.round(estimate / 1024 / 1024)} MiB, because each record repeats the attributes of its resource`);
  return { plan, neededBytes: Math.min(estimate, MAX_ROWS_BYTES) };
}

/** A validated body: the memory that its rows need, and a function that builds them. */
export interface ValidatedBody {
  readonly neededBytes: number;
  readonly rows: () => DecodedBody;
}

/**
 * Uses the kernel if it accepts the body, otherwise the slow path, which must return the same rows. Throws as `planNow`; `rows` throws
 * invalid_payload or batch_too_large.
 */
export function validateBody(task: DecodeTask, limits = KERNEL_LIMITS): ValidatedBody {
  const fast = validateFast(task, limits);
  if (fast) return fast;
  const { plan, neededBytes } = planNow(task);
  const { signal, body, context, bodyHash } = task;
  const rows = () => complete(task, DECODERS[signal].decode(plan, { ...context, bodyHash: bodyHash ?? bodyHashOf(body) }));
  return { neededBytes, rows };
}

/** Undefined if the kernel does not accept the body, or finds no record: the slow path knows whether the sender made a mistake. */
export function validateFast(task: DecodeTask, limits: KernelLimits): ValidatedBody | undefined {
  const { signal, body, context, encoding, bodyHash } = task;
  if (encoding !== undefined && encoding !== "protobuf") return undefined;
  const fast = OTLP_KERNEL.get()?.read(signal, { encoding, bytes: body }, context, limits);
  if (!fast || fast.records === 0) return undefined;
  return { neededBytes: fast.byteLength, rows: () => complete(task, fast.take(bodyHash ?? bodyHashOf(body))) };
}

function complete({ signal, context: { faults } }: DecodeTask, decoded: DecodedBody): DecodedBody {
  const operations = signal === "traces" ? { operations: decoded.operations ?? operationsOf(decoded.sections) } : {};
  return { ...decoded, ...operations, ...withFaults(decoded.dropped, faults) };
}

export function rowsBytes({ sections }: DecodedBody): number {
  return sections.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}
