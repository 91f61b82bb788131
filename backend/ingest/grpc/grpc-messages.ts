// Implements what unary calls need of gRPC: one framed message in each direction, and the status that ends a call. Source: gRPC over HTTP/2
// (the page PROTOCOL-HTTP2 of its repository), google.rpc.Status and RetryInfo. Invariant: a status has a message for users; it has
// RetryInfo if and only if the same call may be retried.
import type { ServerHttp2Stream } from "node:http2";
import { ApiError } from "../../errors.ts";
import { bytesField, grpcCodeOf, varintField } from "../otlp/answers.ts";

export interface MessageHead {
  readonly isCompressed: boolean;
  readonly byteLength: number;
}

export const HEAD_BYTES = 5;
/** Once a call has begun, the client has this long to send the head of its message. */
const HEAD_MS = 10_000;
const RESOURCE_EXHAUSTED = 8;
const UNIMPLEMENTED = 12;
const INTERNAL = 13;
const RETRY_INFO = Buffer.from("type.googleapis.com/google.rpc.RetryInfo");

/** A call that breaks gRPC's rules, with the status that gRPC defines for it. */
class GrpcError extends ApiError {
  readonly grpcCode: number;
  constructor(grpcCode: number, message: string) {
    super("malformed_body", message);
    this.grpcCode = grpcCode;
  }
}

const noMessage = (): ApiError => new GrpcError(UNIMPLEMENTED, "the call has no message, but its method takes one");
export const secondMessage = (): ApiError => new GrpcError(UNIMPLEMENTED, "the call has more than the one message that its method takes");
export const notCompressed = (): ApiError => new GrpcError(INTERNAL, "the message is compressed, but grpc-encoding does not say how");

/**
 * Reads the head of the message. Throws `malformed_body` and `unavailable`. It consumes all available
 * bytes before it waits: a stream with buffered bytes is readable at once, so waiting for more would never yield to the event loop.
 */
export async function readHead(stream: ServerHttp2Stream): Promise<MessageHead> {
  const signal = AbortSignal.timeout(HEAD_MS);
  for (let head = Buffer.alloc(0); ;) {
    const chunk = stream.read() as Buffer | null;
    if (chunk) head = Buffer.concat([head, chunk]);
    if (head.length > HEAD_BYTES) stream.unshift(head.subarray(HEAD_BYTES));
    if (head.length >= HEAD_BYTES) {
      if ((head[0] ?? 0) > 1) throw new GrpcError(INTERNAL, `a message begins with 0 or 1, not with ${head[0]}`);
      return { isCompressed: head[0] === 1, byteLength: head.readUInt32BE(1) };
    }
    if (chunk) continue;
    if (stream.readableEnded && head.length === 0) throw noMessage();
    if (stream.readableEnded || stream.destroyed)
      throw new ApiError("malformed_body", "the call was cut off within the head of its message");
    await waitForData(stream, signal);
    if (signal.aborted) throw new ApiError("unavailable", "the message arrives too slowly", { retryAfterS: 1 });
  }
}

/** Resolves when the client has ended its side of the call. Throws if anything follows the message, and `unavailable` without an end. */
export async function readEnd(stream: ServerHttp2Stream): Promise<void> {
  if (stream.readableEnded) return;
  const signal = AbortSignal.timeout(HEAD_MS);
  while (!stream.readableEnded && !stream.destroyed) {
    if (stream.read() !== null) throw secondMessage();
    await waitForData(stream, signal);
    if (signal.aborted) throw new ApiError("unavailable", "the call does not end after its message", { retryAfterS: 1 });
  }
}

/** Resolves when there is more to read, at the end of the stream, and when `signal` aborts. */
async function waitForData(stream: ServerHttp2Stream, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["readable", "end", "close"] as const;
  for (const event of events) stream.once(event, resolve);
  signal.addEventListener("abort", () => resolve(), { once: true });
  await promise;
  for (const event of events) stream.off(event, resolve);
}

export function frameMessage(message: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Statuses that differ from those in responses over HTTP: a message that is too large, and an unknown compression. */
const OTHER_CODES: Readonly<Record<number, number>> = { 413: RESOURCE_EXHAUSTED, 415: UNIMPLEMENTED };

/** The trailers of a failed call. */
export function failureTrailers(error: ApiError): Record<string, string> {
  const { status, message, retryAfterS } = error;
  const code = error instanceof GrpcError ? error.grpcCode : (OTHER_CODES[status] ?? grpcCodeOf(status));
  const retry = retryAfterS === undefined ? [] : [bytesField(3, retryInfo(retryAfterS))];
  const details = Buffer.concat([varintField(1, code), bytesField(2, Buffer.from(message)), ...retry]);
  return {
    "grpc-status": String(code),
    "grpc-message": percentEncode(message),
    "grpc-status-details-bin": details.toString("base64").replaceAll("=", ""),
  };
}

function retryInfo(seconds: number): Buffer {
  const delay = bytesField(1, varintField(1, Math.ceil(seconds)));
  return Buffer.concat([bytesField(1, RETRY_INFO), bytesField(2, delay)]);
}

/** Header values are ASCII, so any other byte, and the percent sign, is percent-encoded. */
function percentEncode(text: string): string {
  return Array.from(Buffer.from(text), (byte) => {
    if (byte >= 0x20 && byte <= 0x7e && byte !== 0x25) return String.fromCharCode(byte);
    return `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}
