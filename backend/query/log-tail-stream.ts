// Streams a tail, as server-sent events by default. It queries after records were stored, at most once per second; while no records arrive,
// it only checks the credential. Invariant: the stream ends with its client, its credential or the process, or if the reader stops reading.
import { Wakeup } from "../../common/loop.ts";
import { ApiError } from "../errors.ts";
import type { Arrived, TailEvent } from "../storage/logs/tail.ts";
import type { TailTimes } from "./route-parts.ts";

export const TAIL_TIMES: TailTimes = { pollMs: 1000, idleMs: 5000, commentMs: 15_000, checkMs: 4000, stallMs: 30_000 };
const RETRIED = new Set([429, 502, 503]);
const RETRY_MS = 5000;

/** The format of a tail. */
export interface TailForm {
  /** The first chunk. */
  readonly begin: (events: readonly TailEvent[]) => string | Promise<string>;
  readonly events: (events: readonly TailEvent[]) => string | Promise<string>;
  readonly comment: string;
  readonly failed: (error: ApiError) => string;
}

const SERVER_SENT: TailForm = {
  // The first chunk makes the server send the head of the response.
  begin: (events) => `: atherops\n${textOf(events)}\n`,
  events: textOf,
  comment: ":\n\n",
  failed: ({ code, message }) => eventOf("failed", { error: code, message }),
};

export interface TailStreamOptions {
  readonly form?: TailForm;
  /** Returns the records that have arrived since the last call. */
  readonly next: () => Promise<Arrived>;
  /** Calls `notify` after this process has stored records. */
  readonly listen: (notify: () => void) => Disposable;
  /** Other processes may store records without a notification here. */
  readonly isShared: boolean;
  /** Throws ApiError if the credential is no longer valid. */
  readonly check: () => Promise<void>;
  /** Called if the reader has stopped reading. */
  readonly cutOff: () => void;
  readonly signal: AbortSignal;
  readonly times: TailTimes;
}

/** Chunks of text/event-stream; the first one contains `first`. Never throws. */
export async function* tailStream(first: Arrived, options: TailStreamOptions): AsyncGenerator<string> {
  const { signal, times, form = SERVER_SENT } = options;
  let stalled: NodeJS.Timeout | undefined;
  try {
    for await (const piece of pieces(first, options)) {
      stalled = setTimeout(options.cutOff, times.stallMs);
      yield piece;
      clearTimeout(stalled);
    }
  } catch (error) {
    if (!signal.aborted && error instanceof ApiError) yield form.failed(error);
    else if (!signal.aborted) throw error;
  } finally {
    clearTimeout(stalled);
  }
}

async function* pieces(first: Arrived, options: TailStreamOptions): AsyncGenerator<string> {
  const { next, check, isShared, signal, times, form = SERVER_SENT } = options;
  const wakeup = new Wakeup();
  let isDue = true;
  using _listening = options.listen(() => {
    if (!isDue) wakeup.wake();
    isDue = true;
  });
  yield await form.begin(first.events);
  let askAtMs = performance.now() + times.pollMs;
  let checkAtMs = performance.now() + times.checkMs;
  let commentAtMs = performance.now() + times.commentMs;
  while (!signal.aborted) {
    if (performance.now() >= checkAtMs) {
      await check();
      checkAtMs = performance.now() + times.checkMs;
    }
    if (performance.now() >= askAtMs && (isDue || isShared)) {
      isDue = false;
      const { events, isFull } = await again(next, (retryMs) => (askAtMs = performance.now() + retryMs));
      isDue ||= isFull;
      askAtMs = Math.max(askAtMs, performance.now() + times.pollMs);
      if (events.length > 0) {
        yield await form.events(events);
        commentAtMs = performance.now() + times.commentMs;
      }
    }
    if (performance.now() >= commentAtMs) {
      yield form.comment;
      commentAtMs = performance.now() + times.commentMs;
    }
    const idleMs = isDue ? 0 : isShared ? times.idleMs - times.pollMs : Number.POSITIVE_INFINITY;
    const wakeAtMs = Math.min(checkAtMs, commentAtMs, askAtMs + idleMs);
    await wakeup.wait(Math.max(1, wakeAtMs - performance.now()), signal);
  }
}

/** Retries temporary failures later. */
async function again(next: () => Promise<Arrived>, retry: (ms: number) => void): Promise<Arrived> {
  try {
    return await next();
  } catch (error) {
    if (!(error instanceof ApiError) || !RETRIED.has(error.status)) throw error;
    retry(RETRY_MS);
    // `isFull` keeps a query due: announced records are still unread, so the retry must not wait for another notification.
    return { events: [], isFull: true };
  }
}

function textOf(events: readonly TailEvent[]): string {
  return events
    .map(({ id, row }) => (row === undefined ? `event: skipped\nid: ${id}\ndata: {}\n\n` : `id: ${id}\ndata: ${row}\n\n`))
    .join("");
}

function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
