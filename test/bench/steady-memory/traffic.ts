// Generates the requests of agents: bodies of 10, 20 or 50 logs, spans or samples in turn, and every agent's heartbeat when it is due.
// Invariant: no two bodies of a run are equal. Signatures and records, which cost the sender most, are prepared in advance and used again.
import { CLUSTER_HEARTBEAT_PATH, HOST_HEARTBEAT_PATH } from "../../../common/protocol/enrolment.ts";
import { sign } from "../../../common/protocol/signature.ts";
import { INGEST_PATHS, LoadBody, metricsBody } from "../../fixtures/otlp-load.ts";
import type { FleetKey } from "./fill.ts";

const SIZES = [10, 20, 50];
const SIGNALS = ["logs", "spans", "metrics"] as const;
const PROXY_PATHS = { logs: "/v1/logs", spans: "/v1/traces", metrics: "/v1/metrics" } as const;
/** A body is used this often with other numbers and times before its ids and texts are replaced. */
const USES = 12;
/** Signatures are renewed at this interval; they are valid for 300 s. */
const SIGNED_ANEW_MS = 60_000;
const HEARTBEAT_MS = 30_000;
const HEARTBEAT = Buffer.from(
  JSON.stringify({ node: "node", agent_version: "1", interval_s: 30, collector: { state: "running", restarts: 0 } }),
);
/** Series that the agent of one node scrapes. */
const SERIES = 500;

type Signal = (typeof SIGNALS)[number];

export interface Traffic {
  /** Returns the next complete request. */
  next: () => Buffer;
}

let records = 0;
/** Logs, spans and samples of all bodies so far. */
export function recordsSent(): number {
  return records;
}

const made = new Map<string, { body: LoadBody; uses: number }>();

/** Builds the next body of OTLP/JSON; the caller copies it before the next call. */
function load(signal: "logs" | "spans", size: number): Buffer {
  const kind = `${signal} ${size}`;
  let one = made.get(kind);
  if (one === undefined || one.uses >= USES) made.set(kind, (one = { body: new LoadBody(signal, size), uses: 0 }));
  one.uses += 1;
  return one.body.next();
}

/** Chooses signal and size of the next body, which change from one body to the next. */
class Turns {
  #turn: number;

  constructor(first: number) {
    this.#turn = first;
  }

  next(): { signal: Signal; size: number } {
    const turn = this.#turn;
    this.#turn += 1;
    const size = SIZES[Math.floor(turn / SIGNALS.length) % SIZES.length] ?? 10;
    records += size;
    return { signal: SIGNALS[turn % SIGNALS.length] ?? "logs", size };
  }
}

/** What an agent sends to the backend, signed with its own key. */
export class AgentTraffic implements Traffic {
  readonly #host: string;
  readonly #key: FleetKey;
  readonly #turns: Turns;
  readonly #series: readonly string[];
  #slice = 0;
  readonly #heads = new Map<string, string>();
  #signedAt = 0;
  #beatAt: number;

  constructor(host: string, key: FleetKey, number: number) {
    this.#host = host;
    this.#key = key;
    this.#turns = new Turns(number);
    this.#beatAt = Date.now() + Math.random() * HEARTBEAT_MS;
    this.#series = Array.from(
      { length: SERIES },
      (_, index) => `http_requests_total{method="GET",handler="/api/items/${index}",pod="checkout-${number}",namespace="shop"}`,
    );
  }

  next(): Buffer {
    const now = Date.now();
    if (now >= this.#beatAt) {
      this.#beatAt += HEARTBEAT_MS;
      return this.#request(this.#key.kind === "host" ? HOST_HEARTBEAT_PATH : CLUSTER_HEARTBEAT_PATH, "application/json", HEARTBEAT);
    }
    const { signal, size } = this.#turns.next();
    if (signal === "metrics") return this.#request("/ingest", "text/plain", this.#samples(size, now));
    return this.#request(INGEST_PATHS[signal], "application/json", load(signal, size));
  }

  /** The series are the same for the whole run, and are sent in turn. */
  #samples(size: number, now: number): Buffer {
    let text = "";
    for (let index = 0; index < size; index += 1) {
      text += `${this.#series[this.#slice]} ${now % 1e6} ${now}\n`;
      this.#slice = (this.#slice + 1) % SERIES;
    }
    return Buffer.from(text, "latin1");
  }

  #request(path: string, type: string, body: Buffer): Buffer {
    const now = Date.now();
    if (now - this.#signedAt > SIGNED_ANEW_MS) {
      this.#heads.clear();
      this.#signedAt = now;
    }
    let head = this.#heads.get(path);
    if (head === undefined) {
      head = headOf(this.#host, path, { ...sign(this.#key.apiKey, "POST", path, now / 1000), "content-type": type });
      this.#heads.set(path, head);
    }
    return whole(head, body);
  }
}

/** What a collector sends to its agent's proxy. */
export class CollectorTraffic implements Traffic {
  readonly #host: string;
  readonly #turns = new Turns(0);

  constructor(host: string) {
    this.#host = host;
  }

  next(): Buffer {
    const { signal, size } = this.#turns.next();
    const body = signal === "metrics" ? metricsBody(size) : load(signal, size);
    return whole(headOf(this.#host, PROXY_PATHS[signal], { "content-type": "application/json" }), body);
  }
}

function headOf(host: string, path: string, headers: Record<string, string>): string {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${fields.join("")}content-length: `;
}

function whole(head: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${head}${body.length}\r\n\r\n`, "latin1"), body]);
}
