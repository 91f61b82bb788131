// node:http, taken without an import statement, one GET to a child process, freeing a body's memory, and a limit for the connections of a
// listener. Invariant: neither program imports a value of node:http, only types: such an import reads every name of the module, WebSocket
// among them, and that loads Node's own copy of undici: 40 ms of CPU and 14 MB resident (http.engine.test.ts looks for it in a process that
// has loaded a whole program).
import { text } from "node:stream/consumers";
import type { Server } from "node:http";
import type { Socket } from "node:net";

export const { createServer, METHODS, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule("node:http");

export interface Asked {
  readonly status: number;
  /** 200 to 299. */
  readonly ok: boolean;
  readonly text: string;
}

/** Rejects with the signal's reason once it aborts, and with the error of a connection that fails. `url`: http, without a login. */
export async function ask(
  url: string,
  { signal, headers }: { signal: AbortSignal; headers?: Readonly<Record<string, string>> },
): Promise<Asked> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Asked>();
  const failed = (error: unknown): void => reject(signal.aborted ? signal.reason : error);
  const asked = request(url, { headers: { ...headers }, agent: false }, (answer) => {
    const status = answer.statusCode ?? 0;
    text(answer).then((all) => resolve({ status, ok: status >= 200 && status < 300, text: all }), failed);
  });
  asked.on("error", failed).end();
  // Not as an option of the request: a signal that aborts after the answer would make an error, and its trace, of each.
  const abort = (): void => void asked.destroy();
  signal.addEventListener("abort", abort);
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Frees bytes that nothing refers to any more; those that share their memory with others, or have been handed on, stay as they are. */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && !buffer.detached && buffer.byteLength === byteLength) buffer.transfer(0);
}

/**
 * Closes the oldest connection when there are more than `limit`, so that a client that keeps connections open cannot block probes or the
 * evaluator. For listeners that serve no tenants. Call it before the server listens.
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
