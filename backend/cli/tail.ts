// A live tail of logs over server-sent events. Invariants: a record is printed once, and gaps are reported, even if connections are lost:
// the client asks the backend to continue after the last event. The tail ends when the signal aborts, or with an error that a retry cannot
// fix.
import { once } from "node:events";
import { pause } from "../../common/loop.ts";
import { readServerEvents } from "../client/server-events.ts";
import { TemporaryProblem, Problem } from "./cli-error.ts";
import type { CallOptions, Client } from "./api-client.ts";
import type { Console } from "./output.ts";
import { escapeJson, type Row } from "./text-table.ts";

export interface TailOptions {
  readonly client: Pick<Client, "open">;
  readonly console: Console;
  readonly filters: CallOptions["query"];
  readonly line: (row: Row) => string;
  readonly times?: Partial<TailTimes>;
  /** Calls `expire` after `ms`, unless the returned function is called before. */
  readonly timer?: (expire: () => void, ms: number) => () => void;
}

export interface TailTimes {
  /** Wait before reconnecting: initial value and maximum. */
  readonly retryMs: number;
  readonly maxRetryMs: number;
  /** After this long without a byte, the connection counts as dead: the backend sends a comment every 15 s. */
  readonly silenceMs: number;
}

const TIMES: TailTimes = { retryMs: 1000, maxRetryMs: 30_000, silenceMs: 45_000 };
const PATH = "/query/logs/tail";

interface Progress {
  lastId: string | undefined;
  hasConnected: boolean;
  /** Connections that were lost or failed since the last event. */
  failures: number;
  /** True if the lost connection has been reported to the user. */
  isLossPrinted: boolean;
}

/** Runs until the signal aborts. Throws Problem for an error that a retry cannot fix, and if the first connection fails. */
export async function tail(options: TailOptions): Promise<void> {
  const { console } = options;
  const { signal } = console.world;
  const { retryMs, maxRetryMs } = { ...TIMES, ...options.times };
  const progress: Progress = { lastId: undefined, hasConnected: false, failures: 0, isLossPrinted: false };
  for (;;) {
    const lost = await readTail(options, progress).catch((error: unknown) => {
      if (signal?.aborted) return undefined;
      if (!progress.hasConnected || !(error instanceof TemporaryProblem)) throw error;
      return error;
    });
    if (signal?.aborted) return;
    if (progress.failures === 0) {
      console.note(`${lost?.message ?? "the connection was lost"}: reconnecting`);
      progress.isLossPrinted = true;
    }
    const backoffMs = Math.min(maxRetryMs, retryMs * 2 ** Math.min(progress.failures, 10));
    progress.failures += 1;
    await pause(Math.max(backoffMs * (0.5 + Math.random() / 2), (lost?.retryAfterS ?? 0) * 1000), signal);
    if (signal?.aborted) return;
  }
}

async function readTail(options: TailOptions, progress: Progress): Promise<undefined> {
  const { client, console, filters, line, timer = startTimer } = options;
  const { silenceMs } = { ...TIMES, ...options.times };
  const { signal } = console.world;
  const silent = new AbortController();
  let stop: (() => void) | undefined;
  const restartTimer = (): void => {
    stop?.();
    stop = timer(() => silent.abort(new TemporaryProblem("no data from the backend")), silenceMs);
  };
  const headers: Record<string, string> = progress.lastId === undefined ? {} : { "last-event-id": progress.lastId };
  restartTimer();
  try {
    const aborted = AbortSignal.any([silent.signal, ...(signal ? [signal] : [])]);
    const response = await client.open(PATH, { query: filters, headers, signal: aborted });
    if (progress.isLossPrinted)
      console.note(progress.lastId === undefined ? "reconnected; records that arrived in the meantime are not shown" : "reconnected");
    Object.assign(progress, { hasConnected: true, isLossPrinted: false });
    for await (const { name, id, data } of readServerEvents(response, restartTimer)) {
      progress.lastId = id ?? progress.lastId;
      if (name === "failed") throw failureOf(data);
      progress.failures = 0;
      if (name === "skipped") console.note("records were skipped: they arrive faster than they can be read, or a record exceeds 512 KiB");
      else if (name === "message") await print(console, data, line);
    }
  } catch (error) {
    throw silent.signal.aborted ? silent.signal.reason : toProblem(error);
  } finally {
    stop?.();
  }
  return undefined;
}

function startTimer(expire: () => void, ms: number): () => void {
  const timer = setTimeout(expire, ms);
  return () => clearTimeout(timer);
}

/** If the output is not read, this blocks the connection, and thereby the backend. */
async function print(console: Console, data: string, line: TailOptions["line"]): Promise<void> {
  const { stdout, signal } = console.world;
  const text = console.json ? escapeJson(data) : line(parseRow(data));
  if (!stdout.write(`${text}\n`)) await once(stdout, "drain", { signal });
}

function parseRow(data: string): Row {
  try {
    return JSON.parse(data) as Row;
  } catch (error) {
    throw new Problem("the backend sent something that is not a log record", { cause: error });
  }
}

/** The backend's reason for the end of the tail. If the session has ended, reconnecting may renew it. */
function failureOf(data: string): Problem {
  const { error, message } = parseRow(data) as { error: string; message: string };
  return error === "invalid_token" ? new TemporaryProblem("the session has ended") : new Problem(`${message} [${error}]`);
}

/** A broken connection is a temporary failure; an endless event is not from this backend. */
function toProblem(error: unknown): unknown {
  if (error instanceof RangeError) return new Problem(error.message);
  return error instanceof TypeError ? new TemporaryProblem("the connection was lost", { cause: error }) : error;
}
