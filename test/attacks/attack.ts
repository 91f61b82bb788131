// Defines what an attack is, and the helpers that attacks share: requests that are counted by status, and sockets that stay open without
// sending. Invariant: each wave is limited in count and time, and nothing is sent to an address other than the target's.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { sign } from "../../common/protocol/signature.ts";

/** The attacker's organisation, and the address of the backend. */
export interface Target {
  readonly apiUrl: string;
  /** URL of the health port. */
  readonly healthUrl: string;
  /** URL of OTLP over gRPC. */
  readonly grpcUrl: string;
  readonly adminToken: string;
  readonly viewerToken: string;
  /** A key for direct ingest. */
  readonly apiKey: string;
  /** An ingest token for every signal. */
  readonly ingestToken: string;
  /** The key of a cluster. */
  readonly clusterKey: string;
}

export interface Attack {
  /** "first": one of each kind, run together by default. "logql": hostile LogQL queries. "more": variants of both. */
  readonly group: "first" | "more" | "logql";
  /** Description of what is sent. */
  readonly what: string;
  /** Time between the starts of two waves; after a longer wave, the next one starts immediately. */
  readonly everyMs: number;
  /** Stores what the waves need, before the measurement. */
  prepare?(attacker: Attacker): Promise<void>;
  wave(attacker: Attacker, turn: number): Promise<void>;
}

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path with query string. */
  readonly path: string;
  readonly bearer?: string;
  /** Signs with it. */
  readonly key?: string;
  readonly body?: Buffer | object;
  readonly headers?: Record<string, string>;
  /** Number of the source address. */
  readonly from?: number;
  /** Disconnects after this time without waiting for a response. */
  readonly leaveAfterMs?: number;
}

const PATIENCE_MS = 90_000;
const AFTER_NO_ANSWER_MS = 200;
const CONNECT_MS = 10_000;
const ERROR_BYTES = 2000;

export class Attacker implements AsyncDisposable {
  readonly target: Target;
  /** How often each answer came: "204", "413 body_too_large", "no answer ECONNRESET", "left". */
  readonly answers = new Map<string, number>();
  readonly #over = new AbortController();
  /** Agents by source address. */
  readonly #agents = new Map<string, Agent>();
  readonly #sockets = new Set<Socket>();
  #serial = 0;
  #waiting = 0;

  constructor(target: Target) {
    this.target = target;
  }

  get over(): boolean {
    return this.#over.signal.aborted;
  }

  /** A different value at each call, for bodies that must be new to the backend. */
  serial(): string {
    this.#serial += 1;
    return `${process.pid}-${Date.now()}-${this.#serial}`;
  }

  /** Number of unanswered calls. */
  get waiting(): number {
    return this.#waiting;
  }

  count(answer: string): void {
    this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
  }

  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#over.signal }).catch(() => undefined);
  }

  /** Runs waves until the attack ends. */
  async run(attack: Attack): Promise<void> {
    for (let turn = 0; !this.over; turn += 1) {
      const startedAt = performance.now();
      await attack.wave(this, turn);
      await this.pause(Math.max(0, attack.everyMs - (performance.now() - startedAt)));
    }
  }

  /** Sends a request, counts the response and reads it to its end. Returns the status, undefined without a response. Never throws. */
  async call(call: Call): Promise<number | undefined> {
    const { method, path, bearer, key, body, leaveAfterMs } = call;
    const leave = AbortSignal.timeout(leaveAfterMs ?? PATIENCE_MS);
    const isJson = body !== undefined && !(body instanceof Buffer);
    this.#waiting += 1;
    try {
      const answer = await request(`${this.target.apiUrl}${path}`, {
        method,
        headers: {
          ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
          ...(key !== undefined && { ...sign(key, method, path.split("?")[0] ?? "", Date.now() / 1000) }),
          ...(isJson && { "content-type": "application/json" }),
          ...call.headers,
        },
        body: body === undefined ? null : isJson ? JSON.stringify(body) : body,
        signal: AbortSignal.any([leave, this.#over.signal]),
        dispatcher: this.#agentOf(addressOf(call.from)),
      });
      const start = await startOf(answer.body);
      this.count(nameOf(answer.statusCode, start));
      return answer.statusCode;
    } catch (error) {
      if (this.over) return undefined;
      this.count(leave.aborted ? (leaveAfterMs === undefined ? "nothing for 90 s" : "left") : `no answer ${codeOf(error)}`);
      if (!leave.aborted) await this.pause(AFTER_NO_ANSWER_MS);
      return undefined;
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Calls `work` `count` times, `atOnce` at a time. */
  async many(count: number, atOnce: number, work: (index: number) => Promise<unknown>): Promise<void> {
    let next = 0;
    const one = async (): Promise<void> => {
      while (next < count && !this.over) await work(next++);
    };
    await Promise.all(Array.from({ length: Math.min(count, atOnce) }, one));
  }

  /**
   * Opens a connection that writes `parts` and then nothing, and counts the status of the response. Resolves when it is closed, or after
   * `ms`.
   */
  async hold(parts: readonly (string | Buffer)[], ms: number, options: { read?: boolean; url?: string } = {}): Promise<void> {
    const { hostname, port } = new URL(options.url ?? this.target.apiUrl);
    const socket = connect({ port: Number(port), host: hostname, localAddress: addressOf() });
    this.#sockets.add(socket);
    let status = "";
    socket.on("error", (error) => (status ||= `no answer ${codeOf(error)}`));
    if (options.read === false) socket.pause();
    else socket.on("data", (chunk: Buffer) => (status ||= statusOf(chunk)));
    const closed = once(socket, "close").catch(() => undefined);
    socket.once("connect", () => parts.forEach((part) => socket.write(part)));
    await Promise.race([closed, this.pause(ms)]);
    this.count(status || (socket.destroyed ? "cut off without an answer" : "held to the end"));
    socket.destroy();
    this.#sockets.delete(socket);
    if (status.startsWith("no answer")) await this.pause(AFTER_NO_ANSWER_MS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
  }

  #agentOf(localAddress: string): Agent {
    const agent =
      this.#agents.get(localAddress) ??
      new Agent({ connections: 1000, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connectTimeout: CONNECT_MS, localAddress });
    this.#agents.set(localAddress, agent);
    return agent;
  }
}

/** Never the good tenant's address: limits per address must not look as if they affected another tenant. */
function addressOf(from = 0): string {
  return `127.0.${1 + Math.floor(from / 250)}.${1 + (from % 250)}`;
}

/** Reads a body to its end and returns its beginning. */
async function startOf(body: AsyncIterable<Buffer>): Promise<string> {
  let start = "";
  for await (const chunk of body) if (start.length < ERROR_BYTES) start += chunk.toString("latin1");
  return start;
}

function nameOf(status: number, start: string): string {
  const code = status < 400 ? undefined : /"error":\s*"(\w+)"/.exec(start)?.[1];
  return code === undefined ? String(status) : `${status} ${code}`;
}

function statusOf(chunk: Buffer): string {
  const text = chunk.toString("latin1");
  return nameOf(Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]), text);
}

function codeOf(error: unknown): string {
  const { code, name } = error as { code?: string; name: string };
  return code ?? name;
}
