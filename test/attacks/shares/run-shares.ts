// Measures an idle organisation while others are as busy as they may be with one shared resource: how long its queries, bodies and pages
// take, and how they are answered. Invariant: everything that is started here is ended here.
import { setTimeout as sleep } from "node:timers/promises";
import { readFileSync, readdirSync } from "node:fs";
import { request } from "undici";
import { sign } from "../../../common/protocol/signature.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend, type Tenant } from "../../fixtures/backend-process.ts";
import { quantile } from "../../fixtures/measure.ts";
import { temporaryFolder } from "../../fixtures/processes.ts";
import { attribute } from "../queries.ts";
import { type Answers, BusyThread } from "./busy-thread.ts";
import { prepare, type PressureName, SETTINGS } from "./pressure.ts";

export interface Fared {
  readonly sent: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** How often each answer came that is not success. */
  readonly errors: Record<string, number>;
}

export interface SharesResult {
  readonly kind: PressureName;
  readonly others: number;
  readonly fared: Record<string, Fared>;
  readonly answers: Answers;
  readonly peakMib: number;
}

const PATIENCE_MS = 60_000;
const EVERY_MS = 1000;
const SETTLING_MS = 1000;
const LOKI = "/query/loki/loki/api/v1/query_range";
const LOGQL = new URLSearchParams({ query: 'sum(count_over_time({service_name="large"}[5m]))', step: "60" }).toString();
const LOGS = "/ingest/logs/otlp";

interface Backend {
  readonly apiUrl: string;
  readonly healthUrl: string;
  readonly pid: number;
  /** The operator's session. */
  readonly operator: string;
}

/** A backend that was started by hand, with `others` organisations that can be busy. */
export class Shares implements AsyncDisposable {
  readonly #stack: AsyncDisposableStack;
  readonly #apiUrl: string;
  readonly #healthUrl: string;
  readonly #pid: number;
  readonly #operator: string;
  readonly #others: readonly Tenant[];
  readonly #busy: BusyThread;
  #measured = 0;

  private constructor(stack: AsyncDisposableStack, { apiUrl, healthUrl, pid, operator }: Backend, others: readonly Tenant[]) {
    this.#stack = stack;
    this.#apiUrl = apiUrl;
    this.#healthUrl = healthUrl;
    this.#pid = pid;
    this.#operator = operator;
    this.#others = others;
    this.#busy = this.#stack.use(new BusyThread());
  }

  static async start(others: number, { program, env = {} }: { program?: string; env?: Record<string, string> } = {}): Promise<Shares> {
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(temporaryFolder());
    const place = await backendPlace(folder.path, { ...SETTINGS, ...env });
    const backend = stack.use(await startBackend(place, [], program));
    const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
    const tenants: Tenant[] = [];
    for (let index = 0; index < others; index += 1) {
      const tenant = await makeTenant(place.apiUrl, operator, `busy${index}`);
      await prepare(place.apiUrl, tenant);
      tenants.push(tenant);
    }
    return new Shares(stack.move(), { apiUrl: place.apiUrl, healthUrl: place.healthUrl, pid: backend.child.pid ?? 0, operator }, tenants);
  }

  /** Threads of libuv's pool. */
  get poolThreads(): number {
    const folder = `/proc/${this.#pid}/task`;
    return readdirSync(folder).filter((id) => readFileSync(`${folder}/${id}/comm`, "utf8").startsWith("libuv-worker")).length;
  }

  async measure(kind: PressureName, others: number, seconds: number): Promise<SharesResult> {
    this.#measured += 1;
    // One that has used nothing in the last minute.
    const probed = this.#probes(await makeTenant(this.#apiUrl, this.#operator, `idle${this.#measured}`));
    await probed["body of 1 kB"]?.();
    await this.#busy.begin({ apiUrl: this.#apiUrl, kind, tenants: this.#others.slice(0, others) });
    await sleep(SETTLING_MS);
    const probes = Object.entries(probed).map(async ([name, probe]) => [name, await repeat(probe, seconds * 1000)] as const);
    const fared = Object.fromEntries(await Promise.all(probes));
    const peakMib = Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${this.#pid}/status`, "utf8"))?.[1]) / 1024);
    const answers = await this.#busy.end();
    // Statements whose clients have left end.
    await sleep(SETTLING_MS);
    return { kind, others, fared, answers, peakMib };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #probes({ token, apiKey }: Tenant): Record<string, () => Promise<string>> {
    const get = (path: string) => ask(this.#apiUrl + path, { headers: { authorization: `Bearer ${token}` } });
    const post = (bytes: number) => {
      const text = `{"resourceLogs":[{"resource":{"attributes":[${attribute("service.name", "large")}]},"scopeLogs":[{"logRecords":[{"timeUnixNano":"${Date.now()}000000","body":{"stringValue":"${"i".repeat(bytes)}"}}]}]}]}`;
      return ask(this.#apiUrl + LOGS, { method: "POST", headers: { ...sign(apiKey, "POST", LOGS, Date.now() / 1000) }, body: text });
    };
    return {
      "newest records": () => get("/query/logs?limit=10"),
      LogQL: () => get(`${LOKI}?${LOGQL}`),
      "records by LogQL": () => get(`/query/logs?limit=10&query=${encodeURIComponent('{service_name="large"} |= "y"')}`),
      PromQL: () => get("/query/prometheus/api/v1/query?query=up"),
      "body of 1 kB": () => post(1000),
      "body of 300 kB": () => post(300_000),
      "saved views": () => get("/api/views"),
      health: () => ask(`${this.#healthUrl}/healthz`, {}),
    };
  }
}

async function ask(url: string, options: Parameters<typeof request>[1]): Promise<string> {
  const answer = await request(url, { ...options, signal: AbortSignal.timeout(PATIENCE_MS) });
  const text = await answer.body.text();
  return answer.statusCode < 300 ? "" : `${answer.statusCode} ${/"error":\s*"(\w+)"/.exec(text)?.[1] ?? ""}`;
}

async function repeat(probe: () => Promise<string>, ms: number): Promise<Fared> {
  const took: number[] = [];
  const errors: Record<string, number> = {};
  const endMs = performance.now() + ms;
  while (performance.now() < endMs) {
    const beganMs = performance.now();
    const error = await probe().catch((cause: Error) => cause.name);
    took.push(performance.now() - beganMs);
    if (error !== "") errors[error] = (errors[error] ?? 0) + 1;
    await sleep(Math.max(0, beganMs + EVERY_MS - performance.now()));
  }
  const sorted = took.toSorted((a, b) => a - b);
  const at = (share: number): number => Math.round(quantile(sorted, share));
  return { sent: took.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1), errors };
}

/** One line for each kind of request of the idle organisation. */
export function shownShares({ kind, others, fared, answers, peakMib }: SharesResult): string {
  const rows = Object.entries(fared).map(
    ([name, { p50Ms, p99Ms, maxMs, sent, errors }]) =>
      `  ${name.padEnd(18)} ${[p50Ms, p99Ms, maxMs].map((ms) => String(ms).padStart(6)).join(" ")}  ${sent} sent ${JSON.stringify(errors)}`,
  );
  return [`${kind}, ${others} busy (${JSON.stringify(answers)}), peak ${peakMib} MiB: p50, p99, max in ms`, ...rows].join("\n");
}
