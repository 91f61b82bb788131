// The rows of the logs screen: pages of a range, newest first, loaded when the end is near; or a live tail. Invariant: at most MOST_ROWS
// are kept, so an hour of tail takes no more memory than ten minutes.
import type { ApiResponses } from "../../client/api.ts";
import { batch, signal } from "@preact/signals";
import { loggedInAgain, loginsSoFar } from "../state/ended.ts";
import { whileLoading } from "../state/loaded.ts";
import { answerOf, failureOf, page, wait, wordsOf } from "../state/api.ts";

export type LogRow = ApiResponses["GET /query/logs"][number];

/** Parameters of a request for log records. */
export type Question = readonly (readonly [string, string])[];

/** The parameters of a query line. */
export function questionOf(line: string): Question {
  return line === "" ? [] : [["query", line]];
}

/** Why the backend refused the query line. Shown once, at the line, although three requests contain the query. */
export function queryProblem(message: string | undefined): string | undefined {
  return message?.startsWith("query: ") ? message.slice("query: ".length) : undefined;
}

const PAGE = "500";
const MOST_TAILED = 5000;
/** Browsers cannot draw a longer list (parts/list.tsx). */
const MOST_ROWS = 600_000;
const REPAINT_MS = 200;
const AGAIN_MS = 2000;

export class LogRows {
  readonly rows = signal<readonly LogRow[]>([]);
  readonly busy = signal(false);
  /** True if the rows belong to an earlier query. */
  readonly isStale = signal(false);
  readonly error = signal<string | undefined>(undefined);
  /** Whether there are more pages. */
  readonly hasMore = signal(false);
  /** Rows of a live tail that arrived while it was paused. */
  readonly held = signal(0);
  readonly paused = signal(false);
  #next: string | undefined;
  #abort = new AbortController();
  #arrived: LogRow[] = [];
  #key = "";

  /** Starts with the first page. `key` identifies the query; a refresh has the same one. */
  async show(key: string, query: Question, range: readonly [string, string][]): Promise<void> {
    this.stop();
    this.isStale.value ||= key !== this.#key;
    this.#key = key;
    const { signal: abort } = (this.#abort = new AbortController());
    await this.#load(
      abort,
      async () => await page<LogRow[]>("/query/logs", { query: [...query, ...range, ["limit", PAGE]], signal: abort }),
      [],
    );
  }

  /** Loads the next page, if there is one and no request is running. */
  async more(): Promise<void> {
    const next = this.#next;
    if (!next || this.busy.peek() || this.rows.peek().length >= MOST_ROWS) return;
    const { signal: abort } = this.#abort;
    await this.#load(abort, async () => await page<LogRow[]>(next, { signal: abort }), this.rows.peek());
  }

  /** Receives records live until `stop`; after a broken connection, continues where it was. */
  async tail(query: Question): Promise<void> {
    this.stop();
    const { signal: abort } = (this.#abort = new AbortController());
    batch(() => {
      this.rows.value = [];
      this.isStale.value = false;
      this.#key = "";
      this.hasMore.value = false;
      this.error.value = undefined;
      this.paused.value = false;
    });
    const painter = setInterval(() => this.#paint(), REPAINT_MS);
    abort.addEventListener("abort", () => clearInterval(painter));
    let last: string | undefined;
    while (!abort.aborted) {
      try {
        last = await this.#follow(query, abort, last);
      } catch (failure) {
        if (abort.aborted) return;
        this.error.value = wordsOf(failure);
      }
      await wait(AGAIN_MS, abort).catch(() => undefined);
    }
  }

  pause(isPaused: boolean): void {
    this.paused.value = isPaused;
    this.#paint();
  }

  stop(): void {
    this.#abort.abort();
    this.#next = undefined;
    this.#arrived = [];
    this.held.value = 0;
    this.busy.value = false;
  }

  async #follow(query: Question, abort: AbortSignal, after: string | undefined): Promise<string | undefined> {
    const headers: Record<string, string> = after === undefined ? {} : { "last-event-id": after };
    const logins = loginsSoFar();
    const answer = await answerOf("/query/logs/tail", { query, headers, signal: abort });
    if (answer.status === 401) {
      await loggedInAgain(logins, abort);
      return after;
    }
    if (!answer.ok || !answer.body) throw await failureOf(answer);
    this.error.value = undefined;
    let last = after;
    for await (const { id, event, data } of eventsOf(answer.body)) {
      last = id ?? last;
      if (event === "failed") throw new Error((JSON.parse(data) as { message: string }).message);
      if (event === "message") this.#take(JSON.parse(data) as LogRow);
    }
    return last;
  }

  #take(row: LogRow): void {
    this.#arrived.push(row);
    if (this.#arrived.length > MOST_TAILED) this.#arrived = this.#arrived.slice(-MOST_TAILED);
  }

  /** Newest first; a few times per second, however many records arrive. */
  #paint(): void {
    if (this.paused.peek()) this.held.value = this.#arrived.length;
    else if (this.#arrived.length > 0) {
      this.rows.value = [...this.#arrived.toReversed(), ...this.rows.peek()].slice(0, MOST_TAILED);
      this.#arrived = [];
      this.held.value = 0;
    }
  }

  async #load(
    abort: AbortSignal,
    ask: () => Promise<{ body: LogRow[]; next: string | undefined }>,
    before: readonly LogRow[],
  ): Promise<void> {
    this.busy.value = true;
    try {
      const { body, next } = await whileLoading(ask());
      if (abort.aborted) return;
      this.#next = next;
      batch(() => {
        this.rows.value = [...before, ...body];
        this.isStale.value = false;
        this.hasMore.value = next !== undefined;
        this.error.value = undefined;
      });
    } catch (failure) {
      if (abort.aborted) return;
      this.#next = undefined;
      // The rows of an earlier query would look like the result.
      this.rows.value = before;
      this.isStale.value = false;
      this.error.value = wordsOf(failure);
    } finally {
      if (!abort.aborted) this.busy.value = false;
    }
  }
}

interface StreamEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

/**
 * Reads `text/event-stream`: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. EventSource cannot send
 * the header that a session needs.
 */
async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<StreamEvent> {
  let rest = "";
  let fields: Record<string, string> = {};
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split(/\r\n|\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (fields["data"] !== undefined) yield { id: fields["id"], event: fields["event"] ?? "message", data: fields["data"] };
        fields = {};
      } else if (!line.startsWith(":")) {
        const [name = "", value = ""] = line.split(/: ?(.*)/s);
        fields[name] = name === "data" && fields["data"] !== undefined ? `${fields["data"]}\n${value}` : value;
      }
    }
  }
}
