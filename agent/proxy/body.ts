// Request bodies of the collector, held whole because a body may have to be sent twice. Invariant: the bytes held by all requests
// together never exceed the budget, except that one body alone always gets in. Used by server.ts.
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip, gzip, zstdCompress, zstdDecompress } from "node:zlib";
import type { Compression } from "../settings.ts";

/** Why a request is answered without a word from the backend. */
export class BodyError extends Error {
  override readonly name = "BodyError";
  readonly kind: "too_large" | "no_room" | "malformed" | "unsupported_encoding";
  constructor(kind: BodyError["kind"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

export class MemoryBudget {
  readonly maxBytes: number;
  #usedBytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** False when there is no room now. An empty budget takes a body of any size. */
  take(bytes: number, alone: boolean): boolean {
    if (this.#usedBytes + bytes > this.maxBytes && !alone) return false;
    this.#usedBytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

/** Part of the budget, held by one request until it is answered. */
export class Reservation implements Disposable {
  readonly #budget: MemoryBudget;
  #bytes = 0;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Makes the reservation at least `bytes` large. Throws BodyError "no_room". */
  growTo(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more <= 0) return;
    if (!this.#budget.take(more, this.#budget.usedBytes === this.#bytes)) {
      throw new BodyError("no_room", `more than ${this.#budget.maxBytes} bytes of telemetry are already waiting for the backend`);
    }
    this.#bytes = bytes;
  }

  [Symbol.dispose](): void {
    this.#budget.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}

/** The whole body as it was sent. Throws BodyError, or whatever breaks the connection. */
export async function readBody(request: IncomingMessage, maxBytes: number, reservation: Reservation): Promise<Buffer> {
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > maxBytes) throw new BodyError("too_large", `a body of ${announced} bytes; the backend takes ${maxBytes}`);
  reservation.growTo(announced);
  const chunks: Buffer[] = [];
  let bytes = 0;
  // A body given up half-way must not take the connection with it: its answer is still to be sent.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new BodyError("too_large", `a body of more than ${maxBytes} bytes, which is all the backend takes`);
    reservation.growTo(bytes);
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, bytes);
}

export type Encoding = "identity" | "gzip" | "zstd";

export function contentEncoding(request: IncomingMessage): Encoding {
  const encoding = (request.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  if (encoding === "identity" || encoding === "gzip" || encoding === "zstd") return encoding;
  throw new BodyError("unsupported_encoding", `Content-Encoding ${encoding.slice(0, 40)}: set the exporter's compression to none or gzip`);
}

const decompressors = { gzip: promisify(gunzip), zstd: promisify(zstdDecompress) };
const compressors = { gzip: promisify(gzip), zstd: promisify(zstdCompress) };

/** Throws BodyError "malformed" or "too_large". */
export async function decompress(body: Buffer, encoding: Encoding, maxBytes: number): Promise<Buffer> {
  if (encoding === "identity") return body;
  try {
    return await decompressors[encoding](body, { maxOutputLength: maxBytes });
  } catch (cause) {
    if ((cause as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") {
      throw new BodyError("too_large", `a body of more than ${maxBytes} bytes once decompressed`, { cause });
    }
    throw new BodyError("malformed", `a body that is not ${encoding}`, { cause });
  }
}

/** Level 1 of gzip: telemetry shrinks tenfold already there, and the node's CPU is not ours. */
export async function compress(body: Uint8Array, compression: Exclude<Compression, "none">): Promise<Uint8Array> {
  return compression === "gzip" ? compressors.gzip(body, { level: 1 }) : compressors.zstd(body);
}
