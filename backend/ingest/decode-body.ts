// A body on the thread that it is on: judged, with what its rows will need, and then decoded; by the kernel where that takes it, else by the
// decoder that has words for every refusal. Invariant: nothing is made of a body before all of it is judged.
import { hash } from "node:crypto";
import { decodeLogs, LOG_SHAPE } from "../logs/decode.ts";
import { type BatchPlan, estimateRows, planBatch, tooLarge } from "../otlp/batch.ts";
import { type KernelLimits, threadKernel } from "../otlp/fast-decode.ts";
import { type DecodedBody, MOST_ROWS_BYTES, ROW_BYTES, type RowContext } from "../otlp/rows.ts";
import { decodeTraces, SPAN_SHAPE } from "../traces/decode.ts";
import { operationsOf } from "../traces/operations-of.ts";

export type OtlpSignal = "logs" | "traces";

export interface DecodeTask {
  readonly signal: OtlpSignal;
  readonly body: Uint8Array;
  /** The hash is made on the thread that decodes. */
  readonly context: Omit<RowContext, "bodyHash">;
}

/** Larger than what agents send. */
export const LARGE_BYTES = 5 * 1024 * 1024;
/** Of a thread's kernel, whose memory stays: 40 MiB at most. */
export const KERNEL_LIMITS: KernelLimits = { mostBodyBytes: LARGE_BYTES, mostRowsBytes: 24 * 1024 * 1024 };
/** An estimate may be too large by so much. */
const HOPELESS = 8 * MOST_ROWS_BYTES;

const DECODERS = { logs: { shape: LOG_SHAPE, decode: decodeLogs }, traces: { shape: SPAN_SHAPE, decode: decodeTraces } };

/** Judges a body, and tells what its rows will need. Throws malformed_body, invalid_payload, batch_too_large. */
function planNow({ signal, body, context }: DecodeTask): { plan: BatchPlan; neededBytes: number } {
  const plan = planBatch(body, DECODERS[signal].shape);
  const rowBytes = ROW_BYTES + context.orgId.length + context.hostId.length + context.node.length;
  const estimate = estimateRows(plan, rowBytes);
  if (estimate > HOPELESS) throw tooLarge(`some ${Math.round(estimate / 1024 / 1024)} MiB, of which each record takes its resource's part`);
  return { plan, neededBytes: Math.min(estimate, MOST_ROWS_BYTES) };
}

/** Decodes what was judged. Throws invalid_payload or batch_too_large. */
function decodePlanned({ signal, body, context }: DecodeTask, plan: BatchPlan): DecodedBody {
  return decodeRows(signal, plan, { ...context, bodyHash: hashOf(body) });
}

/** A judged body: what its rows need, and the rows. */
export interface Judged {
  readonly neededBytes: number;
  readonly rows: () => DecodedBody;
}

/** The fast way where it takes the body, else the way that has words for every refusal. Throws as `planNow` does, and `rows` as `decodePlanned`. */
export function judge(task: DecodeTask, limits = KERNEL_LIMITS): Judged {
  const fast = judgeFast(task, limits);
  if (fast) return fast;
  const { plan, neededBytes } = planNow(task);
  return { neededBytes, rows: () => decodePlanned(task, plan) };
}

/** Undefined where the kernel does not take the body. */
export function judgeFast({ signal, body, context }: DecodeTask, limits: KernelLimits): Judged | undefined {
  const fast = threadKernel()?.read(signal, body, context, limits);
  return fast && { neededBytes: fast.byteLength, rows: () => withOperations(signal, fast.take(hashOf(body))) };
}

/** Both at once, callable on any thread, with a hash that is given. */
export function decodeNow(task: DecodeTask & { readonly context: RowContext }): DecodedBody {
  const { signal, body, context } = task;
  const fast = threadKernel()?.read(signal, body, context, KERNEL_LIMITS);
  return fast ? withOperations(signal, fast.take(context.bodyHash)) : decodeInWords(task);
}

/** The same without the kernel, which must make the same of every body. */
export function decodeInWords(task: DecodeTask & { readonly context: RowContext }): DecodedBody {
  return decodeRows(task.signal, planNow(task).plan, task.context);
}

function decodeRows(signal: OtlpSignal, plan: BatchPlan, context: RowContext): DecodedBody {
  return withOperations(signal, DECODERS[signal].decode(plan, context));
}

function withOperations(signal: OtlpSignal, decoded: DecodedBody): DecodedBody {
  return signal === "traces" && !decoded.operations ? { ...decoded, operations: operationsOf(decoded.sections) } : decoded;
}

/** First 8 bytes of the SHA-256, as digits. */
function hashOf(body: Uint8Array): string {
  return hash("sha256", body, "buffer").readBigUInt64BE().toString();
}

export function rowsBytes({ sections }: DecodedBody): number {
  return sections.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}
