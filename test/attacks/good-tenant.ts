// A tenant that behaves normally, and a record of how it fares: it sends, queries and changes things at fixed times, and records how long
// each request took and how it was answered. Invariant: it never waits for one request before it begins the next.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { sign } from "../../common/protocol/signature.ts";
import { quantile } from "../fixtures/measure.ts";
import { LoadBody } from "../fixtures/otlp-load.ts";

export interface GoodTenantOptions {
  readonly apiUrl: string;
  /** Where /healthz is served. */
  readonly healthUrl: string;
  readonly token: string;
  readonly apiKey: string;
  readonly email: string;
  readonly password: string;
  /** Id of a rule whose status is requested. */
  readonly ruleId: string;
}

export interface Fared {
  readonly sent: number;
  /** Median time of requests that were answered or abandoned. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** How often each answer came that is not success. */
  readonly errors: Record<string, number>;
}

const PATIENCE_MS = 30_000;
const RECORDS = 10;
const LOGQL = `/query/loki/loki/api/v1/query_range?${new URLSearchParams({ query: 'sum(count_over_time({service_name=~".+"}[5m]))', step: "60" }).toString()}`;

interface Doing {
  readonly everyMs: number;
  /** Returns the status and the body. */
  run(): Promise<readonly [number, string]>;
  readonly success: readonly number[];
}

export class GoodTenant implements AsyncDisposable {
  readonly #options: GoodTenantOptions;
  readonly #agent = new Agent({ connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connectTimeout: PATIENCE_MS });
  readonly #over = new AbortController();
  readonly #sent = new Map<string, number>();
  readonly #took = new Map<string, number[]>();
  readonly #errors = new Map<string, Map<string, number>>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #loops: Promise<void>[];
  #since = 0;
  /** Number of responses with the rule's status that reported a failed evaluation. */
  failedEvaluations = 0;

  /** Starts sending immediately. */
  constructor(options: GoodTenantOptions) {
    this.#options = options;
    this.#loops = Object.entries(this.#doings()).map(([name, doing]) => this.#repeat(name, doing));
  }

  /** Forgets what has been so far. */
  measureFromNow(): void {
    this.#since = performance.now();
    this.failedEvaluations = 0;
    this.#sent.clear();
    this.#took.clear();
    this.#errors.clear();
  }

  /** No new requests; waits for those under way. */
  async finish(): Promise<Record<string, Fared>> {
    this.#over.abort();
    await Promise.all(this.#loops);
    await Promise.all(this.#underWay);
    return Object.fromEntries(Object.keys(this.#doings()).map((name) => [name, this.#fared(name)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await this.#agent.destroy();
  }

  #doings(): Record<string, Doing> {
    const { token, email, password, ruleId } = this.#options;
    const logs = new LoadBody("logs", RECORDS);
    const spans = new LoadBody("spans", RECORDS);
    const stored = { success: [204] };
    const read = { success: [200] };
    const get = (path: string) => this.#ask("GET", path, { bearer: token });
    return {
      "liveness probe": { everyMs: 100, ...read, run: () => this.#probe() },
      "send metrics": { everyMs: 150, ...stored, run: () => this.#send("/ingest", samples()) },
      "send logs": { everyMs: 150, ...stored, run: () => this.#send("/ingest/logs/otlp", Buffer.from(logs.next())) },
      "send traces": { everyMs: 150, ...stored, run: () => this.#send("/ingest/traces", Buffer.from(spans.next())) },
      "query logs": { everyMs: 1000, ...read, run: () => get("/query/logs?limit=20") },
      "query traces": { everyMs: 1000, ...read, run: () => get("/query/traces?limit=20") },
      "query LogQL": { everyMs: 1000, ...read, run: () => get(LOGQL) },
      "query metrics": { everyMs: 1000, ...read, run: () => get("/query/prometheus/api/v1/query?query=good_metric") },
      "rule status": { everyMs: 1000, ...read, run: async () => this.#watched(await get(`/alerting/rules/${ruleId}/status`)) },
      "log in": { everyMs: 10_000, ...read, run: () => this.#ask("POST", "/api/auth/login", { body: { email, password } }) },
      "create a rule": { everyMs: 10_000, success: [201], run: () => this.#createRule() },
    };
  }

  #watched(answer: readonly [number, string]): readonly [number, string] {
    if (answer[0] === 200 && answer[1].includes('"error"')) this.failedEvaluations += 1;
    return answer;
  }

  async #createRule(): Promise<readonly [number, string]> {
    const body = { name: `now and then ${randomUUID()}`, severity: "info", expr: "good_metric < 0" };
    const answer = await this.#ask("POST", "/alerting/rules", { bearer: this.#options.token, body });
    const { id } = (answer[0] === 201 ? JSON.parse(answer[1]) : {}) as { id?: string };
    if (id !== undefined) this.#ask("DELETE", `/alerting/rules/${id}`, { bearer: this.#options.token }).catch(() => undefined);
    return answer;
  }

  async #repeat(name: string, doing: Doing): Promise<void> {
    const startedAt = performance.now();
    for (let turn = 0; !this.#over.signal.aborted; turn += 1) {
      const early = startedAt + turn * doing.everyMs - performance.now();
      if (early > 1) await sleep(early, undefined, { signal: this.#over.signal }).catch(() => undefined);
      if (this.#over.signal.aborted) return;
      const done: Promise<void> = this.#once(name, doing).finally(() => this.#underWay.delete(done));
      this.#underWay.add(done);
    }
  }

  async #once(name: string, doing: Doing): Promise<void> {
    const startedAt = performance.now();
    const failure = await this.#failureOf(doing);
    if (startedAt < this.#since) return;
    this.#sent.set(name, (this.#sent.get(name) ?? 0) + 1);
    const took = this.#took.get(name) ?? [];
    this.#took.set(name, took);
    // A connection that is refused at once says nothing of how long an answer takes.
    if (failure?.startsWith("no answer") !== true) took.push(performance.now() - startedAt);
    if (failure === undefined) return;
    const errors = this.#errors.get(name) ?? new Map<string, number>();
    this.#errors.set(name, errors.set(failure, (errors.get(failure) ?? 0) + 1));
  }

  async #failureOf(doing: Doing): Promise<string | undefined> {
    try {
      const [status, text] = await doing.run();
      return doing.success.includes(status) ? undefined : `${status} ${/"error":\s*"(\w+)"/.exec(text)?.[1] ?? ""}`.trim();
    } catch (error) {
      const { name: kind, code } = error as { name: string; code?: string };
      return kind === "TimeoutError" ? `nothing for ${PATIENCE_MS / 1000} s` : `no answer ${code ?? kind}`;
    }
  }

  async #probe(): Promise<readonly [number, string]> {
    const answer = await request(`${this.#options.healthUrl}/healthz`, {
      signal: AbortSignal.timeout(PATIENCE_MS),
      dispatcher: this.#agent,
    });
    return [answer.statusCode, await answer.body.text()];
  }

  async #send(path: string, body: Buffer): Promise<readonly [number, string]> {
    return await this.#ask("POST", path, { headers: sign(this.#options.apiKey, "POST", path, Date.now() / 1000), raw: body });
  }

  async #ask(
    method: "GET" | "POST" | "DELETE",
    path: string,
    { bearer, body, raw, headers }: { bearer?: string; body?: object; raw?: Buffer; headers?: object },
  ): Promise<readonly [number, string]> {
    const answer = await request(this.#options.apiUrl + path, {
      method,
      headers: {
        ...headers,
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(body && { "content-type": "application/json" }),
      },
      body: raw ?? (body ? JSON.stringify(body) : null),
      signal: AbortSignal.timeout(PATIENCE_MS),
      dispatcher: this.#agent,
    });
    return [answer.statusCode, await answer.body.text()];
  }

  #fared(name: string): Fared {
    const took = (this.#took.get(name) ?? []).toSorted((a, b) => a - b);
    const at = (share: number): number => Math.round(quantile(took, share));
    return {
      sent: this.#sent.get(name) ?? 0,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      maxMs: at(1),
      errors: Object.fromEntries(this.#errors.get(name) ?? []),
    };
  }
}

/** Ten series that stay the same. */
function samples(): Buffer {
  const now = Date.now();
  const lines = Array.from({ length: RECORDS }, (_, index) => `good_metric{item="${index}"} ${1 + index} ${now}\n`);
  return Buffer.from(lines.join(""));
}
