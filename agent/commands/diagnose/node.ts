// Checks of this machine: disk, collector, log files, and the running agent.
import { accessSync, constants, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { tmpdir } from "node:os";
import { execa } from "execa";
import { ALLOCATOR_VARIABLE } from "../../collector/config/collector-config.ts";
import { configFromSettings, logPathRules } from "../../collector/config/config-from-settings.ts";
import { collectorProgram, collectorVariables } from "../../collector/supervision/process.ts";
import { logFileRules } from "../../collector/files/log-paths.ts";
import { surveyLogFiles } from "../../collector/files/log-tree.ts";
import { adviceForLink, linkToNowhere, POD_LOGS } from "../../collector/files/pod-log-links.ts";
import { validateCollectorConfig } from "../../collector/supervision/config-files.ts";
import { QUEUE_DISK_SHARE } from "../../limits.ts";
import { COLLECTOR_VERSION, type HostSettings, type Settings } from "../../settings.ts";
import type { StateStatus } from "../../state/state-dir.ts";
import type { LogPolicyStatus } from "../../policies/log-policies.ts";
import { codeOf, type Finding, messageOf } from "./check.ts";

const MIB = 1024 * 1024;
/** With less free space, nothing can be queued. */
const FULL_MIB = 16;

export async function checkDisk({ stateDir, queueMib, signals }: Pick<Settings, "stateDir" | "queueMib" | "signals">): Promise<Finding[]> {
  const name = "disk";
  let folder = stateDir;
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    const advice =
      "set STATE_DIR (chart: stateHostPath), run as another user, or mount it writable: the queue and the file offsets are stored there";
    return [{ name, status: "fail", detail: `${folder} cannot be written: ${codeOf(error)}`, advice }];
  }
  const { bavail, bsize } = await statfs(folder);
  const freeMib = Math.floor((bavail * bsize) / MIB);
  // Log files have their own queue, separate from the applications' logs.
  const wantedMib = queueMib * (signals.length + Number(signals.includes("logs")));
  const detail = `${freeMib} MiB free at ${stateDir}, its queues may take ${wantedMib} MiB, but at most half of the free space`;
  if (freeMib < FULL_MIB) {
    const advice = "free space on this disk now: nothing can be queued, and the collector cannot note which lines it has sent";
    return [{ name, status: "fail", detail: `full: ${detail}`, advice }];
  }
  if (freeMib * QUEUE_DISK_SHARE >= wantedMib) return [{ name, status: "ok", detail }];
  const advice = "free space, or set QUEUE_MIB (chart: collector.queueMib) lower: less than it says can be queued in an outage";
  return [{ name, status: "warn", detail, advice }];
}

export async function checkCollector(settings: Settings): Promise<Finding[]> {
  const name = "collector";
  const folder = mkdtempSync(join(tmpdir(), "atherops-diagnose-"));
  try {
    const program = collectorProgram(settings);
    const { stdout } = await execa(program, ["--version"], { reject: false, extendEnv: false, env: {}, timeout: 20_000 });
    const found = /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "unknown";
    const file = join(folder, "config.yaml");
    writeFileSync(file, configFromSettings({ ...settings, stateDir: folder }), { mode: 0o600 });
    await validateCollectorConfig(program, file, {
      // Validation needs a URL but sends no requests.
      env: { ...collectorVariables(settings), [ALLOCATOR_VARIABLE]: "http://127.0.0.1:1" },
      memoryMib: settings.collectorMemoryMib,
    });
    if (found === COLLECTOR_VERSION) return [{ name, status: "ok", detail: `${program} ${found} accepts the configuration` }];
    return [{ name, status: "warn", detail: `${program} is version ${found}`, advice: `this agent is made for ${COLLECTOR_VERSION}` }];
  } catch (error) {
    const advice = "`render` prints the configuration; if COLLECTOR_CONFIG_FILE is set, look there first";
    return [{ name, status: "fail", detail: messageOf(error), advice }];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function checkLogs(settings: Settings): Promise<Finding[]> {
  const { host } = settings;
  if (!settings.signals.includes("logs") || settings.cluster?.hostAccess === "none") return [];
  return host ? checkFiles(settings, host) : checkPodLogs();
}

async function checkPodLogs(): Promise<Finding[]> {
  const name = "log files";
  const link = await linkToNowhere();
  if (link) return [{ name, status: "fail", detail: "logs of pods are links that lead nowhere", advice: adviceForLink(link) }];
  return [{ name, status: "ok", detail: `none below ${POD_LOGS} is a link that leads nowhere` }];
}

async function checkFiles(settings: Settings, host: HostSettings): Promise<Finding[]> {
  const name = "log files";
  const rules = logFileRules(logPathRules(settings, host), host.logPaths);
  const { count, notRead } = await surveyLogFiles(host.logPaths, rules);
  const [unreadable, strays] = [notRead.get("unreadable") ?? [], notRead.get("outside") ?? []];
  const findings: Finding[] = [];
  if (unreadable.length > 0) {
    const advice = "run the agent as root or with CAP_DAC_READ_SEARCH, or narrow LOG_PATHS";
    findings.push({
      name,
      status: "warn",
      detail: `${unreadable.length} of ${count} cannot be read, such as ${unreadable[0]}`,
      advice,
    });
  }
  if (strays.length > 0) {
    findings.push({
      name,
      status: "warn",
      detail: `links that lead outside of LOG_PATHS_ALLOWED are not read: ${strays[0]}`,
      advice: "widen LOG_PATHS_ALLOWED if they shall be",
    });
  }
  if (count === 0) findings.push({ name, status: "warn", detail: `nothing matches ${host.logPaths.join(", ")}`, advice: "set LOG_PATHS" });
  return findings.length > 0 ? findings : [{ name, status: "ok", detail: `${count} match ${host.logPaths.join(", ")}` }];
}

const SIGNS = "telemetry is signed and sent all the same; the agent's log has more";

/** Checks the agent that runs here, if there is one. */
export async function checkAgent({ health, cluster }: Pick<Settings, "health" | "cluster">): Promise<Finding[]> {
  const name = "running agent";
  const url = `${healthUrl(health)}/readyz`;
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(3000) });
    const {
      reasons = [],
      warnings = [],
      failing = [],
      waits_for: waitsFor,
    } = (await answer.json()) as {
      reasons?: string[];
      warnings?: string[];
      waits_for?: string;
      failing?: { signal: string; since: string; error?: string }[];
    };
    const through: Finding[] = failing.map(({ signal, since, error }) => ({
      name: `${signal} on their way`,
      status: "fail",
      detail: `nothing gets through since ${since}: ${error ?? "no reason known"}`,
      advice: "the collector keeps them in its disk queue; see the checks of the backend above",
    }));
    const others = [...warnings.map((detail): Finding => ({ name, status: "warn", detail, advice: SIGNS })), ...(await fromStatus(health))];
    if (answer.ok) return [{ name, status: "ok", detail: "ready, its collector runs" }, ...waiting(waitsFor), ...through, ...others];
    const failed = reasons.map((reason): Finding => ({ name, status: "fail", detail: reason, advice: adviceFor(reason) }));
    return [...failed, ...waiting(waitsFor), ...through, ...others];
  } catch {
    const detail = `no agent answers at ${url}`;
    // In a pod, the agent is the container's main process.
    if (cluster) return [{ name, status: "fail", detail, advice: "read `kubectl logs` of this pod, with --previous if it restarts" }];
    return [{ name, status: "warn", detail, advice: "start it: the command `run`, or its service" }];
  }
}

/** Findings from /status of the running agent: state that another identity left on this node, and changes by annotations. */
async function fromStatus(health: Settings["health"]): Promise<Finding[]> {
  const answer = await fetch(`${healthUrl(health)}/status`, { signal: AbortSignal.timeout(3000) });
  const { state, logPolicies: policies } = (await answer.json()) as { state?: StateStatus; logPolicies?: LogPolicyStatus };
  const name = "log policies";
  return [
    ...stateOfOthers(state),
    ...Object.entries(policies?.effective ?? {}).map(([of, policy]): Finding => ({
      name,
      status: "droppedBytes" in policy ? "warn" : "ok",
      detail: `${of}: ${JSON.stringify(policy)}`,
      ...("droppedBytes" in policy && { advice: "its lines are dropped by a rate limit; raise it, or make the pod log less" }),
    })),
    ...Object.entries(policies?.refused ?? {}).map(([annotation, why]): Finding => ({
      name,
      status: "warn",
      detail: `${annotation} ${why}`,
      advice: "correct it",
    })),
    ...(policies?.dropped ? [droppedNamespaces(name, policies.dropped)] : []),
  ];
}

function droppedNamespaces(name: string, dropped: number): Finding {
  const detail = `${dropped} namespaces or LogPolicy objects are not known, because all of them are too large together`;
  return { name, status: "warn", detail, advice: "remove annotations atherops.io/logs… from namespaces, or LogPolicy objects" };
}

function stateOfOthers(state: StateStatus | undefined): Finding[] {
  return (state?.others ?? []).map(({ folder, id, installation, bytes }) => ({
    name: "state of others",
    status: "warn",
    detail: `${folder} has the state of ${id ?? "an unknown identity"} (${installation ?? "an agent of an earlier version"}), ${bytes} bytes of queue: neither sent nor removed`,
    advice: "its own installation sends it when it runs here again; if none will, delete it",
  }));
}

function waiting(waitsFor: string | undefined): Finding[] {
  if (waitsFor === undefined) return [];
  return [
    { name: "logs of pods", status: "fail", detail: waitsFor, advice: "they stay in their files; see the check of permissions above" },
  ];
}

function adviceFor(reason: string): string {
  if (!reason.startsWith("the collector")) return "do what it says; the checks above and the agent's log have more";
  return "the agent starts it again, after ever longer pauses; what it said last names the cause (a port in use, COLLECTOR_CONFIG_FILE, memory, disk)";
}

/** URL of the local agent's health endpoint, whatever address it listens on. */
export function healthUrl({ host, port }: Settings["health"]): string {
  const here = { "": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  return `http://${here.includes(":") ? `[${here}]` : here}:${port}`;
}
