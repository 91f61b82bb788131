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
const RETRY_INFO = Buffer.from("type.googleapis.com/google.rpc.RetryInfo");

/**
 * Reads the head of the message. Undefined if the call has no message. Throws `malformed_body` and `unavailable`. It consumes all available
 * bytes before it waits: a stream with buffered bytes is readable at once, so waiting for more would never yield to the event loop.
 */
export async function readHead(stream: ServerHttp2Stream): Promise<MessageHead | undefined> {
  const signal = AbortSignal.timeout(HEAD_MS);
  for (let head = Buffer.alloc(0); ;) {
    const chunk = stream.read() as Buffer | null;
    if (chunk) head = Buffer.concat([head, chunk]);
    if (head.length > HEAD_BYTES) stream.unshift(head.subarray(HEAD_BYTES));
    if (head.length >= HEAD_BYTES) return { isCompressed: head[0] !== 0, byteLength: head.readUInt32BE(1) };
    if (chunk) continue;
    if (stream.readableEnded && head.length === 0) return undefined;
    if (stream.readableEnded || stream.destroyed)
      throw new ApiError("malformed_body", "the call was cut off within the head of its message");
    await waitForData(stream, signal);
    if (signal.aborted) throw new ApiError("unavailable", "the message arrives too slowly", { retryAfterS: 1 });
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

/** The trailers of a failed call. */
export function failureTrailers({ status, message, retryAfterS }: ApiError): Record<string, string> {
  const code = status === 413 ? RESOURCE_EXHAUSTED : grpcCodeOf(status);
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
