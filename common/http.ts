// node:http, taken without an import statement, one GET to a child process, and freeing a body's memory. Invariant: neither program imports
// a value of node:http, only types: such an import reads every name of the module, WebSocket among them, and that loads Node's own copy of
// undici: 40 ms of CPU and 14 MB resident (http.engine.test.ts looks for it in a process that has loaded a whole program).
import { text } from "node:stream/consumers";

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
