// Counts, begins and streams tails, as server-sent events by default. A tail queries after records were stored, at most once per second;
// while no records arrive, it only checks the credential. Invariant: it ends with its client, credential or process, or without reading.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Wakeup } from "../../common/loop.ts";
import { ApiError } from "../errors.ts";
import { type Guards, readerOf } from "../http/request-identity.ts";
import { goneSignal } from "../http/http-client.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import type { RecordFilter } from "../storage/logs/filter.ts";
import type { LogStore } from "../storage/logs/log-store.ts";
import { type Arrived, TailCounts, type TailEvent } from "../storage/logs/tail.ts";

const TAIL_TIMES: TailTimes = { pollMs: 1000, idleMs: 5000, commentMs: 15_000, checkMs: 4000, stallMs: 30_000 };
const RETRIED = new Set([429, 502, 503]);
const RETRY_MS = 5000;

interface TailTimes {
  /** Minimum time between two queries. */
  readonly pollMs: number;
  /** Maximum time between two queries if other processes store records too. */
  readonly idleMs: number;
  /** Time between two comments while there are no events. */
  readonly commentMs: number;
  /** Time between two checks of the credential: a removed one ends the tail within 5 s. */
  readonly checkMs: number;
  /** A client that reads nothing for this long is disconnected. */
  readonly stallMs: number;
}

export interface TailRouteOptions {
  readonly store: Pick<LogStore, "tail">;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  readonly now?: () => Date;
  /** Replaces limits of tails, in tests. */
  readonly tails?: Partial<TailTimes> & { perOrg?: number; inAll?: number };
}

/** Counts the tails of a route, and ends them when the process stops. */
export class TailRoute {
  readonly counts: TailCounts;
  readonly stopping = new AbortController();
  readonly #app: FastifyInstance;
  readonly #options: TailRouteOptions;
  readonly #guard: ReturnType<Guards["reader"]>;

  constructor(app: FastifyInstance, options: TailRouteOptions) {
    this.counts = new TailCounts(options.tails);
    this.#app = app;
    this.#options = options;
    this.#guard = options.guards.reader();
    app.addHook("preClose", async () => this.stopping.abort());
  }

  /** Counts a tail until the response is closed. `signal` aborts when the client has disconnected or the process stops. Throws ApiError. */
  enter(request: FastifyRequest, reply: FastifyReply): { orgId: string; signal: AbortSignal } {
    const { orgId } = readerOf(request);
    this.counts.enter(orgId);
    if (reply.raw.closed) this.counts.leave(orgId);
    else reply.raw.once("close", () => this.counts.leave(orgId));
    // A tail has no end for which a client that closed its sending side could wait, and its slot is needed when it comes back.
    return { orgId, signal: AbortSignal.any([goneSignal(reply, 0), this.stopping.signal]) };
  }

  /** Reads the first records, and returns them with what tailStream needs to continue. */
  async begin(
    request: FastifyRequest,
    reply: FastifyReply,
    { filter, after, signal }: { filter: RecordFilter; after?: bigint | undefined; signal: AbortSignal },
  ): Promise<{ first: Arrived; rest: Omit<TailStreamOptions, "cutOff"> }> {
    const { store, answers, now = () => new Date(), tails } = this.#options;
    const { orgId } = readerOf(request);
    const tail = await store.tail(orgId, filter, after, now().getTime());
    // The limits of the last check: a change takes effect during the tail.
    const next = () =>
      tail.next({ labelLimits: readerOf(request).labelLimits, signal, admit: () => answers.admit(orgId) }, now().getTime());
    const check = async (): Promise<void> => void (await this.#guard.call(this.#app, request, reply));
    return { first: await next(), rest: { ...tail, next, check, signal, times: { ...TAIL_TIMES, ...tails } } };
  }
}

export interface TailFormat {
  readonly begin: (events: readonly TailEvent[]) => string | Promise<string>;
  readonly events: (events: readonly TailEvent[]) => string | Promise<string>;
  readonly comment: string;
  readonly failed: (error: ApiError) => string;
}

const SERVER_SENT: TailFormat = {
  // The first chunk makes the server send the head of the response.
  begin: (events) => `: atherops\n${textOf(events)}\n`,
  events: textOf,
  comment: ":\n\n",
  failed: ({ code, message }) => eventOf("failed", { error: code, message }),
};

export interface TailStreamOptions {
  readonly format?: TailFormat;
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
  const { signal, times, format = SERVER_SENT } = options;
  let stallTimer: NodeJS.Timeout | undefined;
  try {
    for await (const chunk of chunks(first, options)) {
      stallTimer = setTimeout(options.cutOff, times.stallMs);
      yield chunk;
      clearTimeout(stallTimer);
    }
  } catch (error) {
    if (!signal.aborted && error instanceof ApiError) yield format.failed(error);
    else if (!signal.aborted) throw error;
  } finally {
    clearTimeout(stallTimer);
  }
}

async function* chunks(first: Arrived, options: TailStreamOptions): AsyncGenerator<string> {
  const { next, check, isShared, signal, times, format = SERVER_SENT } = options;
  const wakeup = new Wakeup();
  let isDue = true;
  using _listening = options.listen(() => {
    if (!isDue) wakeup.wake();
    isDue = true;
  });
  yield await format.begin(first.events);
  let queryAtMs = performance.now() + times.pollMs;
  let checkAtMs = performance.now() + times.checkMs;
  let commentAtMs = performance.now() + times.commentMs;
  while (!signal.aborted) {
    if (performance.now() >= checkAtMs) {
      await check();
      checkAtMs = performance.now() + times.checkMs;
    }
    if (performance.now() >= queryAtMs && (isDue || isShared)) {
      isDue = false;
      const { events, isFull } = await queryOrPostpone(next, (retryMs) => (queryAtMs = performance.now() + retryMs));
      isDue ||= isFull;
      queryAtMs = Math.max(queryAtMs, performance.now() + times.pollMs);
      if (events.length > 0) {
        yield await format.events(events);
        commentAtMs = performance.now() + times.commentMs;
      }
    }
    if (performance.now() >= commentAtMs) {
      yield format.comment;
      commentAtMs = performance.now() + times.commentMs;
    }
    const idleMs = isDue ? 0 : isShared ? times.idleMs - times.pollMs : Number.POSITIVE_INFINITY;
    const wakeAtMs = Math.min(checkAtMs, commentAtMs, queryAtMs + idleMs);
    await wakeup.wait(Math.max(1, wakeAtMs - performance.now()), signal);
  }
}

/** After a temporary failure, calls `postpone` instead. */
async function queryOrPostpone(next: () => Promise<Arrived>, postpone: (ms: number) => void): Promise<Arrived> {
  try {
    return await next();
  } catch (error) {
    if (!(error instanceof ApiError) || !RETRIED.has(error.status)) throw error;
    postpone(RETRY_MS);
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
