// Requests to a Service of the cluster at a steady rate: log records and samples that are signed or have an ingest token, queries of logs
// and metrics, each on kept and on new connections. Counts what a client without retries sees as errors. Bodies are repeated until they
// are acknowledged, so that lost and doubled data can be counted.
import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { sign } from "../../common/protocol/signature.ts";

/** Rows or samples of a body. */
const RECORDS = 5;
/** Of each kind of request. A slow machine gets fewer requests, instead of more at once. */
const MAX_AT_ONCE = 32;
/** The engine of this test is slower than ClickHouse, and the backend refuses the queries of an organisation that waits for too many. */
const MAX_LOG_QUERIES = 2;
const RETRY_MS = 100;
const ANSWER_MS = 30_000;

export interface Credentials {
  readonly apiKey: string;
  readonly ingestToken: string;
  readonly session: string;
}

export interface Seen {
  readonly requests: number;
  readonly perSecond: number;
  /** Failed attempts by kind of request and result, such as `log query, new connection: ECONNREFUSED`. */
  readonly errors: Readonly<Record<string, number>>;
  /** Acknowledged. */
  readonly rows: number;
  readonly samples: number;
}

interface Kind {
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: () => Record<string, string>;
  /** `number` is different for every body. */
  readonly body?: (number: number) => string;
  readonly stores?: "rows" | "samples";
  readonly maxAtOnce?: number;
}

export class PacedLoad {
  readonly #url: URL;
  readonly #kinds: readonly Kind[];
  /** Uses its connections in turn: one that is idle for longer than the drain of a replica may be closed while a request is on its way. */
  readonly #kept = new Agent({ keepAlive: true, scheduling: "fifo" });
  readonly #fresh = new Agent({ keepAlive: false });
  readonly #errors: Record<string, number> = {};
  readonly #stored = { rows: 0, samples: 0 };
  readonly #running = new Map<Promise<void>, Kind>();
  readonly #startedMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #due = 0;
  #sent = 0;

  constructor(url: string, credentials: Credentials, perSecond: number) {
    this.#url = new URL(url);
    this.#kinds = kindsOf(credentials);
    this.#timer = setInterval(() => {
      const due = ((performance.now() - this.#startedMs) / 1000) * perSecond;
      for (; this.#due < due; this.#due += 1) this.#start(this.#due);
    }, 5);
  }

  get seen(): Seen {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    return { requests: this.#sent, perSecond: Math.round(this.#sent / seconds), errors: { ...this.#errors }, ...this.#stored };
  }

  /** Resolves when every body is acknowledged. */
  async stop(): Promise<Seen> {
    clearInterval(this.#timer);
    const { seen } = this;
    await Promise.all(this.#running.keys());
    this.#kept.destroy();
    return { ...seen, errors: { ...this.#errors }, ...this.#stored };
  }

  /** Leaves out a request if too many of its kind wait. */
  #start(number: number): void {
    const kind = this.#kinds[number % this.#kinds.length];
    if (!kind || [...this.#running.values()].filter((other) => other === kind).length >= (kind.maxAtOnce ?? MAX_AT_ONCE)) return;
    this.#sent += 1;
    const running = this.#send(kind, number).finally(() => this.#running.delete(running));
    this.#running.set(running, kind);
  }

  async #send(kind: Kind, number: number): Promise<void> {
    const isKept = Math.floor(number / this.#kinds.length) % 2 === 0;
    const body = kind.body?.(number);
    for (;;) {
      const result = await this.#attempt(kind, body, isKept ? this.#kept : this.#fresh);
      if (result === "") break;
      const error = `${kind.name}, ${isKept ? "kept" : "new"} connection: ${result}`;
      this.#errors[error] = (this.#errors[error] ?? 0) + 1;
      if (!kind.stores) return;
      // Paces the retries, as senders do.
      await sleep(RETRY_MS);
    }
    if (kind.stores) this.#stored[kind.stores] += RECORDS;
  }

  /** Returns the status or the code of the failure; empty if it succeeded. */
  async #attempt({ method, path, headers }: Kind, body: string | undefined, agent: Agent): Promise<string> {
    return await new Promise((resolve) => {
      const { hostname, port } = this.#url;
      const sent = request({ hostname, port, path, method, headers: headers(), agent, timeout: ANSWER_MS }, (response) => {
        const isGood = Math.floor((response.statusCode ?? 0) / 100) === 2;
        text(response).then(
          (received) => resolve(isGood ? "" : `${response.statusCode} ${/"error":"(\w+)"/.exec(received)?.[1]}`),
          (error: NodeJS.ErrnoException) => resolve(`cut off (${error.code})`),
        );
      });
      sent.once("timeout", () => sent.destroy(Object.assign(new Error(), { code: "no response" })));
      sent.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      sent.end(body);
    });
  }
}

function kindsOf({ apiKey, ingestToken, session }: Credentials): readonly Kind[] {
  const signed = (path: string) => () => sign(apiKey, "POST", path, Date.now() / 1000);
  const json = { "content-type": "application/json" };
  const withToken = () => ({ ...json, "x-api-key": ingestToken });
  const withSession = () => ({ authorization: `Bearer ${session}` });
  const ingest = { method: "POST" } as const;
  const query = { method: "GET", headers: withSession } as const;
  const logs = "/ingest/logs/otlp";
  const signedLogs: Kind = { ...ingest, name: "signed logs", path: logs, headers: signed(logs), body: logBody, stores: "rows" };
  const tokenLogs: Kind = { ...ingest, name: "logs with a token", path: "/v1/logs", headers: withToken, body: logBody, stores: "rows" };
  const metrics: Kind = {
    ...ingest,
    name: "signed metrics",
    path: "/ingest",
    headers: signed("/ingest"),
    body: sampleLines,
    stores: "samples",
  };
  const list: Kind = { ...query, name: "list", path: "/api/clusters" };
  const metricQuery: Kind = { ...query, name: "metric query", path: "/query/prometheus/api/v1/query?query=up" };
  const logQuery: Kind = { ...query, name: "log query", path: "/query/logs?limit=5", maxAtOnce: MAX_LOG_QUERIES };
  const first = [signedLogs, list, metrics, metricQuery, tokenLogs, list];
  return [...first, ...first.slice(0, -1), logQuery];
}

function logBody(number: number): string {
  const now = Date.now();
  const logRecords = Array.from({ length: RECORDS }, (_, index) => ({
    timeUnixNano: `${now}${String(index).padStart(6, "0")}`,
    body: { stringValue: `paced ${number} ${index}` },
  }));
  return JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
}

/** Each body has a series of its own, so that no two samples have the same series and time. */
function sampleLines(number: number): string {
  return Array.from({ length: RECORDS }, (_, index) => `paced{number="${number}",index="${index}"} 1 ${Date.now()}\n`).join("");
}
