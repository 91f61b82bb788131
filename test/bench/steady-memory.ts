// `npm run bench -- steady-memory [--minutes 60] [--rate 1000] [--agents 100] [--agent-share 0.1] [--sources] [--env NAME=VALUE] [--out
// FILE]`: sends small requests like those of agents, with 10, 20 or 50 logs, spans or samples, and heartbeats, at a constant rate that does
// not depend on the responses, to the whole backend with embedded engines as its image runs it (--sources: from the sources; --env,
// repeatable: with such a variable); a share of them through a host agent's proxy. Prints the memory of each process minute by minute
// (--out: also as CSV). Targets: the backend's own process at most 600 MB at the end (PSS); the backend and the agent at the end within 5 %
// of minute 5. In a run of less than an hour, its minutes are shares of the run: minute 5 is a twelfth, and still warming up. MAX_DISK_MB
// limits the disk space. The sender uses about 5 % of a core, which is not counted.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { backendPlace, bundledBackend, login, startBackend } from "../fixtures/backend-process.ts";
import { collectorPid, hostAgentPlace, startBundledAgent } from "../fixtures/host-agent-process.ts";
import { imageStart } from "../fixtures/image-start.ts";
import { cpuMs, peakResidentMb, report } from "../fixtures/measure.ts";
import { call, temporaryFolder } from "../fixtures/processes.ts";
import { fill, type FleetKey, PASSWORD } from "./steady-memory/fill.ts";
import { Connections } from "./steady-memory/idle-connections.ts";
import { AgentTraffic, CollectorTraffic, recordsSent, type Traffic } from "./steady-memory/traffic.ts";
import { MemoryWatch } from "./steady-memory/watch.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    rate: { type: "string", default: "1000" },
    agents: { type: "string", default: "100" },
    "agent-share": { type: "string", default: "0.1" },
    sources: { type: "boolean", default: false },
    env: { type: "string", multiple: true, default: [] },
    out: { type: "string" },
  },
});
const [minutes, rate, agents, agentShare] = [values.minutes, values.rate, values.agents, values["agent-share"]].map(Number) as [
  number,
  number,
  number,
  number,
];
const runMs = minutes * 60_000;
const ORGS = 10;
const TICK_MS = 5;
/** Limit of requests in flight; at the limit, the open loop fails with an error. */
const MAX_UNDER_WAY = 2000;
const MAX_DISK_MB = 20_000;
const DISK_EVERY_MS = Math.min(60_000, runMs / 10);
const REACH_MB = 600;
const FLAT_WITHIN = 0.05;

const answers = new Map<string, number>();
const load = { sent: 0, underWay: 0, heldMs: 0, diskMb: 0 };

interface Sender {
  readonly connections: Connections;
  readonly traffic: Traffic;
}

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const image = imageStart("Dockerfile.backend");
const env = { ...image.libraries, LOGS_RETENTION_DAYS: "1", TRACES_RETENTION_DAYS: "1" };
/** Variables of the backend only, for comparisons: NODE_OPTIONS, MALLOC_ARENA_MAX. */
const ownEnv = Object.fromEntries(values.env.map((text) => [text.slice(0, text.indexOf("=")), text.slice(text.indexOf("=") + 1)]));
const place = await backendPlace(folder.path, { ...env, ...ownEnv, MASTER_KEY: randomBytes(32).toString("base64") });
const keys = await fill(place, { keys: agents, orgs: ORGS });
const program = values.sources ? "backend/main.ts" : await bundledBackend(folder.path);
const backend = stack.use(await startBackend(place, [], program, image.flags));
const { proxy, agentPids } = agentShare > 0 ? await startedAgent(keys[0] as FleetKey) : { proxy: undefined, agentPids: () => ({}) };
const senders = sendersOf(proxy);
const pids = (): Record<string, number> => ({
  backend: backend.child.pid ?? 0,
  "victoria-metrics": enginePid("victoria-metrics"),
  vmalert: enginePid("vmalert"),
  ...agentPids(),
});
const watch = new MemoryWatch({ runMs, out: values.out, pids, more: figuresOfTheMoment });
const cpuBefore = process.cpuUsage();
await run();
print();

async function startedAgent({ admin }: FleetKey): Promise<{ proxy: string; agentPids: () => Record<string, number> }> {
  const install = await call("POST", `${place.apiUrl}/api/install-tokens`, {
    bearer: await login(place.apiUrl, admin, PASSWORD),
    body: {},
  });
  const at = await hostAgentPlace(folder.path, place.apiUrl, { INSTALL_TOKEN: install.json.token });
  const agent = stack.use(await startBundledAgent(at, folder.path));
  return { proxy: at.proxyUrl, agentPids: () => ({ agent: agent.child.pid ?? 0, collector: collectorPid(at) ?? 0 }) };
}

/** Senders in turn; those through the proxy are spread among the direct ones. */
function sendersOf(proxyUrl: string | undefined): Sender[] {
  const open = (url: string): Connections => stack.use(new Connections(url));
  const own = keys.map((key, number): Sender => ({
    connections: open(place.apiUrl),
    traffic: new AgentTraffic(new URL(place.apiUrl).host, key, number),
  }));
  if (proxyUrl === undefined) return own;
  const proxied: Sender = { connections: open(proxyUrl), traffic: new CollectorTraffic(new URL(proxyUrl).host) };
  return own.map((sender, number) => (Math.floor((number + 1) * agentShare) > Math.floor(number * agentShare) ? proxied : sender));
}

function enginePid(name: string): number {
  return (JSON.parse(readFileSync(join(place.dataDir, `${name}.pid`), "utf8")) as { pid: number }).pid;
}

async function run(): Promise<void> {
  const ended = new AbortController();
  const over = offered().finally(() => ended.abort());
  await Promise.all([over, watch.untilAborted(ended.signal), watchDisk(ended.signal)]);
}

/** Runs an open loop: each request is sent at its time, whatever the response times. */
async function offered(): Promise<void> {
  const startedAt = performance.now();
  for (let elapsed = 0; elapsed < runMs; elapsed = performance.now() - startedAt) {
    if (backend.ended) throw new Error(`the backend has ended:\n${backend.log.slice(-4000)}`);
    if (load.diskMb > MAX_DISK_MB) throw new Error(`more than ${MAX_DISK_MB} MB of disk used after ${load.sent} requests`);
    const due = ((elapsed - load.heldMs) * rate) / 1000;
    for (; load.sent < due && load.underWay < MAX_UNDER_WAY; load.sent += 1) void post(senders[load.sent % senders.length] as Sender);
    const pausedAt = performance.now();
    await sleep(TICK_MS);
    if (load.sent < due) load.heldMs += performance.now() - pausedAt;
  }
  while (load.underWay > 0) await sleep(TICK_MS);
}

async function post({ connections, traffic }: Sender): Promise<void> {
  load.underWay += 1;
  const status = await connections.send(traffic.next());
  load.underWay -= 1;
  answers.set(status, (answers.get(status) ?? 0) + 1);
}

/** The backend's own figures of its JavaScript memory, and the current load. */
async function figuresOfTheMoment(): Promise<Record<string, number>> {
  const own = await (await fetch(`${place.healthUrl}/metrics`)).text();
  const megabytes = (metric: string): number => Number(new RegExp(`^${metric} (\\S+)$`, "m").exec(own)?.[1]) / 1e6;
  return {
    "JS heap": megabytes("nodejs_heap_size_used_bytes"),
    "JS external": megabytes("nodejs_external_memory_bytes"),
    "requests/s": (load.sent * 1000) / watch.ranMs,
    "under way": load.underWay,
    disk: load.diskMb,
  };
}

async function watchDisk(ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await sleep(DISK_EVERY_MS, undefined, { signal: ended }).catch(() => {});
    // `du` fails if a merge removes a folder while it runs; its output is still usable.
    const { stdout } = await promisify(execFile)("du", ["-sm", place.dataDir]).catch((error: { stdout: string }) => error);
    load.diskMb = Number.parseInt(stdout, 10) || load.diskMb;
  }
}

function print(): void {
  const ranMs = watch.ranMs;
  const around = (share: number): Record<string, number> => watch.medians((share - 1 / 60) * ranMs, (share + 1 / 60) * ranMs);
  const [early, middle, late, peak] = [around(1 / 12), around(1 / 2), around(1), watch.peaks()];
  const each = (of: (name: string) => string | number): Record<string, string | number> =>
    Object.fromEntries(Object.keys(late).map((name) => [name, of(name)]));
  const ratio = (from: Record<string, number>) => (name: string) => ((late[name] ?? Number.NaN) / (from[name] ?? Number.NaN)).toFixed(3);
  const processes = Object.entries(pids());
  const isFlat = (name: string): string => (Number(ratio(early)(name)) <= 1 + FLAT_WITHIN ? "flat" : "NOT FLAT");
  const isReached = (late["backend"] ?? Number.NaN) <= REACH_MB;
  const { user, system } = process.cpuUsage(cpuBefore);
  console.log(`MB, PSS; ${load.sent} requests, ${recordsSent()} records, ${((load.sent * 1000) / ranMs).toFixed(0)} requests/s`);
  console.log(`answers: ${[...answers].map(([status, count]) => `${status}: ${count}`).join(", ")}; held ${load.heldMs.toFixed(0)} ms`);
  const taken = [...processes.map(([name, pid]) => [name, cpuMs(pid)] as const), ["sender", (user + system) / 1000] as const];
  console.log(`CPU, ms a request: ${taken.map(([name, ms]) => `${name} ${(ms / load.sent).toFixed(3)}`).join(", ")}`);
  report("steady-memory", values, {
    "minute 5": early,
    "minute 30": middle,
    "the last": late,
    "last ÷ minute 5": each(ratio(early)),
    "last ÷ minute 30": each(ratio(middle)),
    "largest sample": peak,
    "most resident": Object.fromEntries(processes.map(([name, pid]) => [name, peakResidentMb(pid).toFixed(0)])),
    [`within 5 %, backend ≤ ${REACH_MB}`]: {
      backend: `${isFlat("backend")}, ${isReached ? "reached" : "NOT REACHED"}`,
      ...(proxy !== undefined && { agent: isFlat("agent") }),
    },
  });
  if ([...answers.keys()].some((status) => !status.startsWith("2"))) process.exitCode = 1;
}
