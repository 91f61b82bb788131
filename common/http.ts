// Loads node:http without an import statement; also sends a GET to a child process, frees a body's memory, and limits the connections of a
// listener. Invariant: neither program imports a value of node:http, only types: such an import reads every name of the module, including
// WebSocket, which loads Node's own copy of undici: 40 ms of CPU and 14 MB of memory (http.engine.test.ts checks this in a process that has
// loaded a whole program).
import { text } from "node:stream/consumers";
import type { Server } from "node:http";
import type { Socket } from "node:net";

export const { createServer, IncomingMessage, METHODS, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule("node:http");

export interface TextResponse {
  readonly status: number;
  /** 200 to 299. */
  readonly ok: boolean;
  readonly text: string;
}

/**
 * Sends a GET request. Rejects with the signal's reason if it aborts, and with the error of a failed connection. `url`: http, without
 * credentials.
 */
export async function ask(
  url: string,
  { signal, headers }: { signal: AbortSignal; headers?: Readonly<Record<string, string>> },
): Promise<TextResponse> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<TextResponse>();
  const failed = (error: unknown): void => reject(signal.aborted ? signal.reason : error);
  const outgoing = request(url, { headers: { ...headers }, agent: false }, (answer) => {
    const status = answer.statusCode ?? 0;
    text(answer).then((all) => resolve({ status, ok: status >= 200 && status < 300, text: all }), failed);
  });
  outgoing.on("error", failed).end();
  // Not passed as an option of the request: a signal that aborts after the response would create an error with a stack trace each time.
  const abort = (): void => void outgoing.destroy();
  signal.addEventListener("abort", abort);
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Smaller buffers are collected while they are young, which costs less than freeing each of them. */
const WORTH_FREEING_BYTES = 16 * 1024;

/** Frees bytes that nothing refers to any more; those that share their memory with others, or have been handed on, stay as they are. */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < WORTH_FREEING_BYTES) return;
  if (buffer instanceof ArrayBuffer && !buffer.detached && buffer.byteLength === byteLength) buffer.transfer(0);
}

/**
 * Closes the oldest connection if there are more than `limit`, so that a client that keeps connections open cannot block probes or the
 * evaluator. For listeners that serve no tenants. Call before the server listens.
 */
export function keepNewestConnections(server: Server, limit: number): void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    const [oldest] = open;
    if (open.size >= limit && oldest) {
      open.delete(oldest);
      oldest.destroy();
    }
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
}
