// Runs in the sandbox process, one job at a time. Invariant: it has no engine, no file and no secret; rows come from the backend, which
// adds the organisation to each statement.
import { writeFileSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { getPriority, setPriority } from "node:os";
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { ApiError, TooLargeError } from "../../errors.ts";
import type { FromSandbox, SentError, ToSandbox } from "./protocol.ts";

export interface JobContext {
  /** Queries the engine through the backend. */
  readonly ask: Ask;
  /** Aborts when the client has disconnected. */
  readonly signal: AbortSignal;
}

/** The backend's own thread has priority. Added to the backend's niceness, because a process without privileges cannot lower its own. */
const NICENESS = 5;

export function serveJobs(run: (job: never, context: JobContext) => Promise<Uint8Array>): void {
  yieldToBackend();
  let rows: PromiseWithResolvers<Buffer> | undefined;
  let pieces: Uint8Array[] = [];
  let aborting = new AbortController();
  const ask = oneAfterAnother((statement, maxResultBytes, blockRows, groupLimit) => {
    rows = Promise.withResolvers();
    pieces = [];
    send({ type: "ask", statement: statement.text, maxResultBytes, blockRows, groupLimit });
    return rows.promise;
  });
  const work = async (job: never): Promise<void> => {
    aborting = new AbortController();
    try {
      const answer = await run(job, { ask, signal: aborting.signal });
      send({ type: "answer", answer });
    } catch (error) {
      send({ type: "error", error: toSent(error) });
    }
  };
  process.on("message", (message: ToSandbox) => {
    if (message.type === "run") void work(message.job as never);
    else if (message.type === "rows") {
      pieces.push(message.piece);
      if (message.isLast) rows?.resolve(Buffer.concat(pieces.splice(0)));
    } else if (message.type === "error") rows?.reject(fromSent(message.error));
    else aborting.abort(new Error("the client has left"));
  });
  send({ type: "ready" });
  // Node.js writes it when a process exits by itself, and this one is killed.
  flushCompileCache();
}

function yieldToBackend(): void {
  // Only the backend ends this process: Ctrl-C in a terminal reaches the whole process group, and running queries may finish.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => undefined);
  process.on("disconnect", () => process.exit());
  setPriority(Math.min(19, getPriority() + NICENESS));
  try {
    // If memory runs out, Linux ends this process before the backend.
    writeFileSync("/proc/self/oom_score_adj", "1000");
  } catch {
    // Safe to ignore without Linux or permission: the limits that the backend enforces still apply.
  }
}

/** Sends one statement at a time, so that at most one block of rows is being transferred. */
function oneAfterAnother(ask: Ask): Ask {
  let last: Promise<unknown> = Promise.resolve();
  return (...question) => {
    const next = last.then(() => ask(...question));
    last = next.catch(() => undefined);
    return next;
  };
}

function send(message: FromSandbox): void {
  process.send?.(message);
}

const originals = new WeakMap<object, number>();

function fromSent({ code, message, isTooLarge, cause, original }: SentError): ApiError {
  const error = isTooLarge ? new TooLargeError(cause) : new ApiError(code, message, { cause });
  if (original !== undefined) originals.set(error, original);
  return error;
}

function toSent(error: unknown): SentError {
  if (error instanceof ApiError) return { code: error.code, message: error.message, original: originals.get(error) };
  return { code: "internal", message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}
