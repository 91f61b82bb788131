// One GET of a program that this one has started: is it ready, what does it count. Invariant: a connection of its own, which ends with
// the answer; the whole of the answer is read, or the call rejects. Not `fetch`, which loads Node's own copy of undici (node-http.ts).
import { text } from "node:stream/consumers";
import { request } from "./node-http.ts";

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
