// The rows of the logs screen: pages of a range, newest first, or a live tail. Invariant: a tail keeps at most MAX_TAILED rows, so an hour of
// it takes no more memory than ten minutes.
import type { ApiResponses } from "../../client/api.ts";
import { readServerEvents } from "../../client/server-events.ts";
import { batch, signal } from "@preact/signals";
import { waitForLogin, loginCount } from "../state/expired-session.ts";
import { PagedRows } from "../state/paged-rows.ts";
import { type Query, sendRequest, readFailure, wait, errorMessage } from "../state/api.ts";

export type LogRow = ApiResponses["GET /query/logs"][number];

export function queryParameters(line: string): Query {
  return { query: line || undefined };
}

/** Why the backend rejected the query line. Shown only at the line, although three requests contain the query. */
export function queryProblem(message: string | undefined): string | undefined {
  return message?.startsWith("query: ") ? message.slice("query: ".length) : undefined;
}

const MAX_TAILED = 5000;
/** Browsers cannot draw a longer list (parts/list.tsx). */
const MAX_ROWS = 600_000;
const REPAINT_MS = 200;
const RECONNECT_MS = 2000;

export class LogRows extends PagedRows<LogRow> {
  /** Number of rows of a live tail that arrived while it was paused. */
  readonly waitingCount = signal(0);
  readonly paused = signal(false);
  #arrived: LogRow[] = [];

  constructor() {
    super("/query/logs", MAX_ROWS);
  }

  /** Receives records live until `stop`; after a broken connection, continues where it was. */
  async tail(query: Query): Promise<void> {
    this.stop();
    const { signal: abort } = this.abort;
    batch(() => {
      this.rows.value = [];
      this.isStale.value = false;
      this.key = "";
      this.error.value = undefined;
      this.shownSince.value = undefined;
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
        this.error.value = errorMessage(failure);
      }
      await wait(RECONNECT_MS, abort).catch(() => undefined);
    }
  }

  pause(isPaused: boolean): void {
    this.paused.value = isPaused;
    this.#paint();
  }

  override stop(): void {
    super.stop();
    this.#arrived = [];
    this.waitingCount.value = 0;
  }

  async #follow(query: Query, abort: AbortSignal, after: string | undefined): Promise<string | undefined> {
    const headers: Record<string, string> = after === undefined ? {} : { "last-event-id": after };
    const logins = loginCount();
    const response = await sendRequest("/query/logs/tail", { query, headers, signal: abort });
    if (response.status === 401) {
      await waitForLogin(logins, abort);
      return after;
    }
    if (!response.ok || !response.body) throw await readFailure(response);
    this.error.value = undefined;
    let last = after;
    for await (const { id, name, data } of readServerEvents(response.body)) {
      last = id ?? last;
      if (name === "failed") throw new Error((JSON.parse(data) as { message: string }).message);
      if (name === "message") this.#receive(JSON.parse(data) as LogRow);
    }
    return last;
  }

  #receive(row: LogRow): void {
    this.#arrived.push(row);
    if (this.#arrived.length > MAX_TAILED) this.#arrived = this.#arrived.slice(-MAX_TAILED);
  }

  /** Newest first; a few times per second, however many records arrive. */
  #paint(): void {
    if (this.paused.peek()) this.waitingCount.value = this.#arrived.length;
    else if (this.#arrived.length > 0) {
      this.rows.value = [...this.#arrived.toReversed(), ...this.rows.peek()].slice(0, MAX_TAILED);
      this.#arrived = [];
      this.waitingCount.value = 0;
    }
  }
}
