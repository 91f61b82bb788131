// `npm run bench -- steady-memory [--requests 1000000 | --minutes 60] [--rate 1000] [--clients 64] [--agent-share 0.1]`: small signed
// requests of all three signals (10, 20 or 50 records) at a steady rate to the whole backend with embedded engines, a share of them
// through a host agent's proxy, and how much memory each process has over time. Reach: the median resident memory of the last minute
// within 5 % of minute 5's, for the backend's and the agent's own process. In a run of less than 10 minutes the minutes of an
// hour are shares of the run: minute 5 is a twelfth, and still warming up. Bounded: by requests or minutes, and by MAX_DISK_MB; disk
// used is printed.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { Pool } from "undici";
import { sign } from "../../agent/protocol/signature.ts";
import { cpuMs, report, residentMb, summary } from "../fixtures/measure.ts";
import { INGEST_PATHS, LoadBody, metricsBody } from "../fixtures/otlp-load.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { collectorPid, hostAgentPlace } from "../fixtures/host-agent-process.ts";
import { call, temporaryFolder, TestProcess } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "1000000" },
    minutes: { type: "string" },
    rate: { type: "string", default: "1000" },
    clients: { type: "string", default: "64" },
    "agent-share": { type: "string", default: "0.1" },
  },
});
const [rate, clients, agentShare] = [values.rate, values.clients, values["agent-share"]].map(Number) as [number, number, number];
const total = values.minutes === undefined ? Number(values.requests) : Math.ceil(Number(values.minutes) * 60 * rate);
const MAX_DISK_MB = 20_000;
const SAMPLE_MS = Math.min(2000, ((total / rate) * 1000) / 300);
const ROWS = 12;
const FLAT_WITHIN = 0.05;
/** From here on minute 5 is the fifth minute. */
const LONG_RUN_MS = 10 * 60_000;
const SIZES = [10, 20, 50];
/** A body's records are of the time when it was made. */
const RENEW_AFTER = 100;
const SIGNALS = ["logs", "spans", "metrics"] as const;
const PROXY_PATHS = { logs: "/v1/logs", spans: "/v1/traces", metrics: "/v1/metrics" } as const;

interface Sample {
  readonly ms: number;
  readonly requests: number;
  /** Millions of bytes, by process and kind. */
  readonly mb: Readonly<Record<string, number>>;
}
/** The backend's own account of its JavaScript. */
const HEAP = { "JS heap": "nodejs_heap_size_used_bytes", "JS external": "nodejs_external_memory_bytes" };
const samples: Sample[] = [];
const answers = new Map<string, number>();
const disk: { ms: number; mb: number }[] = [];
let sent = 0;
let records = 0;

using folder = temporaryFolder();
const place = await backendPlace(folder.path, { UV_THREADPOOL_SIZE: "16", LOGS_RETENTION_DAYS: "1", TRACES_RETENTION_DAYS: "1" });

async function measure(): Promise<Record<string, number>> {
  await using backend = await startBackend(place);
  const operator = await login(place.apiUrl, "admin@localhost", adminPassword(place));
  const tenant = await makeTenant(place.apiUrl, operator, "bench");
  const install = await call("POST", `${place.apiUrl}/api/install-tokens`, { bearer: tenant.token, body: {} });
  const at = await hostAgentPlace(folder.path, place.apiUrl, { INSTALL_TOKEN: install.json.token });
  // As TypeScript; the image and the unit file run the same compiled, with some 10 MB less.
  await using agent = new TestProcess(["--max-semi-space-size=1", "agent/bin/atherops-otel-agent.ts", "run"], at.env, at.logFile);
  await agent.ready(`${at.healthUrl}/readyz`);
  const pids = () => ({
    backend: backend.child.pid ?? 0,
    agent: agent.child.pid ?? 0,
    "victoria-metrics": enginePid("victoria-metrics"),
    vmalert: enginePid("vmalert"),
    collector: collectorPid(at) ?? 0,
  });
  const ofAgent = Math.round(clients * agentShare);
  const route = new Pool(place.apiUrl, { connections: clients });
  const proxy = new Pool(at.proxyUrl, { connections: Math.max(1, ofAgent) });
  const startedAt = performance.now();
  const ended = new AbortController();
  const load = Array.from({ length: clients }, (_, client) =>
    client < ofAgent ? throughTheAgent(proxy, client, startedAt) : throughTheRoute(route, tenant.apiKey, client, startedAt),
  );
  const over = Promise.all(load).finally(() => ended.abort());
  await Promise.all([over, watchMemory(pids, startedAt, ended.signal), watchDisk(startedAt, ended.signal)]);
  await Promise.all([route.close(), proxy.close()]);
  return Object.fromEntries(Object.entries(pids()).map(([name, pid]) => [name, cpuMs(pid)]));
}

function enginePid(name: string): number {
  return (JSON.parse(readFileSync(join(place.dataDir, `${name}.pid`), "utf8")) as { pid: number }).pid;
}

/** One client's requests, each at its time; late ones follow at once, so the rate holds in the mean. */
async function paced(client: number, startedAt: number, post: (turn: number) => Promise<number>): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    const slot = turn * clients + client;
    if (slot >= total) return;
    const early = startedAt + (slot / rate) * 1000 - performance.now();
    if (early > 1) await sleep(early);
    const status = String(await post(turn));
    answers.set(status, (answers.get(status) ?? 0) + 1);
    sent += 1;
  }
}

async function throughTheRoute(pool: Pool, apiKey: string, client: number, startedAt: number): Promise<void> {
  const bodies = new Bodies(client, expositionBody);
  await paced(client, startedAt, async (turn) => {
    const { signal, body } = bodies.next(turn);
    const path = signal === "metrics" ? "/ingest" : INGEST_PATHS[signal];
    const type = signal === "metrics" ? "text/plain" : "application/json";
    const headers = { ...sign(apiKey, "POST", path, Date.now() / 1000), "content-type": type };
    return answered(pool, path, headers, body);
  });
}

async function throughTheAgent(pool: Pool, client: number, startedAt: number): Promise<void> {
  const bodies = new Bodies(client, (_, size) => metricsBody(size));
  await paced(client, startedAt, async (turn) => {
    const { signal, body } = bodies.next(turn);
    return answered(pool, PROXY_PATHS[signal], { "content-type": "application/json" }, body);
  });
}

async function answered(pool: Pool, path: string, headers: Record<string, string>, body: Buffer): Promise<number> {
  const answer = await pool.request({ method: "POST", path, headers, body });
  await answer.body.dump();
  return answer.statusCode;
}

/** A client's bodies in turn: signal and size change from one to the next. */
class Bodies {
  readonly #client: number;
  readonly #metrics: (client: number, size: number) => Buffer;
  readonly #made = new Map<string, LoadBody>();

  constructor(client: number, metrics: (client: number, size: number) => Buffer) {
    this.#client = client;
    this.#metrics = metrics;
  }

  next(turn: number): { signal: (typeof SIGNALS)[number]; body: Buffer } {
    const signal = SIGNALS[(turn + this.#client) % SIGNALS.length] ?? "logs";
    const size = SIZES[Math.floor(turn / SIGNALS.length) % SIZES.length] ?? 10;
    records += size;
    if (signal === "metrics") return { signal, body: this.#metrics(this.#client, size) };
    if (turn % RENEW_AFTER === 0) this.#made.clear();
    const kind = `${signal} ${size}`;
    const made = this.#made.get(kind) ?? new LoadBody(signal, size);
    this.#made.set(kind, made);
    return { signal, body: made.next() };
  }
}

/** Series that stay the same for the whole run. */
function expositionBody(client: number, size: number): Buffer {
  const now = Date.now();
  const line = (index: number): string =>
    `http_requests_total{method="GET",handler="/api/items/${index}",pod="checkout-${client}",namespace="shop"} ${now % 1e6} ${now}\n`;
  return Buffer.from(Array.from({ length: size }, (_, index) => line(index)).join(""));
}

async function watchMemory(pids: () => Record<string, number>, startedAt: number, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const mb: Record<string, number> = {};
    for (const [name, pid] of Object.entries(pids())) mb[name] = residentMb(pid);
    const own = await (await fetch(`${place.healthUrl}/metrics`)).text();
    for (const [name, metric] of Object.entries(HEAP)) mb[name] = Number(new RegExp(`^${metric} (\\S+)$`, "m").exec(own)?.[1]) / 1e6;
    samples.push({ ms: performance.now() - startedAt, requests: sent, mb });
    await pause(SAMPLE_MS, ended);
  }
}

/** Ends the run when it takes more than it may. */
async function watchDisk(startedAt: number, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await pause((total / rate / ROWS) * 1000, ended);
    const { stdout } = await promisify(execFile)("du", ["-sm", place.dataDir]).catch((error: { stdout: string }) => error);
    disk.push({ ms: performance.now() - startedAt, mb: Number.parseInt(stdout, 10) });
    if ((disk.at(-1)?.mb ?? 0) > MAX_DISK_MB) throw new Error(`more than ${MAX_DISK_MB} MB of disk used after ${sent} requests`);
  }
}

async function pause(ms: number, ended: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal: ended }).catch(() => {});
}

/** Median of a process's samples between two moments. */
function median(name: string, fromMs: number, toMs: number): number {
  const within = samples.filter(({ ms }) => ms >= fromMs && ms < toMs);
  return summary(within.map(({ mb }) => mb[name] ?? Number.NaN)).median;
}

function print(): void {
  const lastMs = samples.at(-1)?.ms ?? 0;
  const minuteMs = lastMs >= LONG_RUN_MS ? 60_000 : lastMs / 60;
  const names = Object.keys(samples[0]?.mb ?? {});
  const row = (fromMs: number, toMs: number): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, median(name, fromMs, toMs).toFixed(0)]));
  const table: Record<string, Record<string, string>> = {};
  for (let at = 0; at < ROWS; at += 1) {
    const [fromMs, toMs] = [(at * lastMs) / ROWS, ((at + 1) * lastMs) / ROWS];
    const within = samples.filter(({ ms }) => ms >= fromMs && ms < toMs);
    const [first, last] = [within[0], within.at(-1)];
    const perSecond = first && last && ((last.requests - first.requests) * 1000) / (last.ms - first.ms);
    const used = disk.findLast(({ ms }) => ms <= toMs + 2 * SAMPLE_MS)?.mb ?? 0;
    table[`to minute ${(toMs / 60_000).toFixed(1)}`] = {
      "requests/s": perSecond?.toFixed(0) ?? "",
      ...row(fromMs, toMs),
      disk: String(used),
    };
  }
  // Two minutes around minute 5; the last two.
  const [early, late] = [[4 * minuteMs, 6 * minuteMs] as const, [lastMs - 2 * minuteMs, lastMs + 1] as const];
  table["minute 5"] = row(...early);
  table["the last"] = row(...late);
  const ratio = (name: string): number => median(name, ...late) / median(name, ...early);
  table["last ÷ minute 5"] = Object.fromEntries(names.map((name) => [name, ratio(name).toFixed(3)]));
  const isFlat = (name: string): string => (ratio(name) <= 1 + FLAT_WITHIN ? "flat" : "NOT FLAT");
  table["within 5 %"] = { backend: isFlat("backend"), agent: isFlat("agent") };
  const seconds = lastMs / 1000;
  console.log(`MB resident; ${sent} requests, ${records} records, ${(sent / seconds).toFixed(0)} requests/s, ${seconds.toFixed(0)} s`);
  console.log(`answers: ${[...answers].map(([status, count]) => `${status}: ${count}`).join(", ")}`);
  console.log(
    `CPU, ms a request: ${Object.entries(cpu)
      .map(([name, ms]) => `${name} ${(ms / sent).toFixed(3)}`)
      .join(", ")}`,
  );
  report("steady-memory", { ...values, total }, table);
  if ([...answers.keys()].some((status) => !status.startsWith("2"))) process.exitCode = 1;
}

const cpu = await measure();
print();
