// Checks this machine: the disk, the collector, the log files, and the running agent.
import { accessSync, constants } from "node:fs";
import { statfs } from "node:fs/promises";
import { execa } from "execa";
import { ALLOCATOR_VARIABLE } from "../../collector/config/collector-config.ts";
import { configFromSettings, logPathRules } from "../../collector/config/config-from-settings.ts";
import { validateInFolder } from "../../collector/supervision/config-files.ts";
import { collectorProgram } from "../../collector/supervision/process.ts";
import type { LostFiles } from "../../collector/files/log-files-status.ts";
import { PROBLEMS } from "../../collector/files/log-files.ts";
import { logFileRules } from "../../collector/files/log-paths.ts";
import { surveyLogFiles } from "../../collector/files/log-tree.ts";
import { nearestExisting } from "../../../common/files.ts";
import { joinHostPort } from "../../../common/ip-networks.ts";
import { findPodLogProblem, POD_LOGS } from "../../collector/files/pod-log-links.ts";
import { QUEUE_DISK_SHARE } from "../../agent-limits.ts";
import { COLLECTOR_VERSION, type HostSettings, type Settings } from "../../settings.ts";
import type { StateStatus } from "../../state/state-dir.ts";
import type { AgentStatus } from "../../status/agent-status.ts";
import { codeOf, type Finding, messageOf } from "./check.ts";

const MIB = 1024 * 1024;
/** With less free space than this, the collector cannot queue data. */
const FULL_MIB = 16;

export async function checkDisk({
  stateDir,
  queueMib,
  signals,
  cluster,
}: Pick<Settings, "stateDir" | "queueMib" | "signals" | "cluster">): Promise<Finding[]> {
  const name = "disk";
  const folder = nearestExisting(stateDir);
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    const advice =
      "set STATE_DIR (chart: stateHostPath), run as another user, or mount the folder writable: it stores the disk queues and file offsets";
    return [{ name, status: "fail", detail: `${folder} cannot be written: ${codeOf(error)}`, advice }];
  }
  const { bavail, bsize } = await statfs(folder);
  const freeMib = Math.floor((bavail * bsize) / MIB);
  const [hasLogs, hasMetrics] = [signals.includes("logs"), signals.includes("metrics")];
  // Logs from files have a disk queue of their own, separate from logs that applications send over OTLP; so has each signal of the collector
  // for the whole cluster, which can run on any node.
  const ofCluster = [hasMetrics && cluster?.clusterState, hasLogs && cluster?.kubernetesEvents].filter((isOn) => isOn === true);
  const wantedMib = queueMib * (signals.length + Number(hasLogs) + ofCluster.length);
  const detail = `${freeMib} MiB free at ${stateDir}; the disk queues may use ${wantedMib} MiB, but at most half of the free space`;
  if (freeMib < FULL_MIB) {
    const advice = "free space on this disk now: the collector can neither queue data nor store which lines it has sent";
    return [{ name, status: "fail", detail: `full: ${detail}`, advice }];
  }
  if (freeMib * QUEUE_DISK_SHARE >= wantedMib) return [{ name, status: "ok", detail }];
  const advice =
    "free space, or set QUEUE_MIB (chart: collector.queueMib) to a lower value: the disk cannot hold QUEUE_MIB during an outage";
  return [{ name, status: "warn", detail, advice }];
}

export async function checkCollector(settings: Settings): Promise<Finding[]> {
  const name = "collector";
  let version: string | undefined;
  try {
    const program = collectorProgram(settings);
    const { stdout } = await execa(program, ["--version"], { reject: false, extendEnv: false, env: {}, timeout: 20_000 });
    version = /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? "unknown";
    // Validation needs a URL but sends no requests.
    const env = { [ALLOCATOR_VARIABLE]: "http://127.0.0.1:1" };
    await validateInFolder(settings, (folder) => configFromSettings({ ...settings, stateDir: folder }), env);
    if (version === COLLECTOR_VERSION) return [{ name, status: "ok", detail: `${program} ${version} accepts the configuration` }];
    const advice = `install ${COLLECTOR_VERSION}, for which this agent is built`;
    return [{ name, status: "warn", detail: `${program} is version ${version}`, advice }];
  } catch (error) {
    const isOther = version !== undefined && version !== COLLECTOR_VERSION;
    const advice = isOther
      ? `OTELCOL_PATH is version ${version}: install ${COLLECTOR_VERSION}, for which this agent is built`
      : "run `render` to print the configuration; if COLLECTOR_CONFIG_FILE is set, check that file first";
    return [{ name, status: "fail", detail: messageOf(error), advice }];
  }
}

export async function checkLogs(settings: Settings): Promise<Finding[]> {
  const { host, cluster } = settings;
  if (!settings.signals.includes("logs") || cluster?.hostAccess === "none") return [];
  return host ? checkFiles(settings, host) : checkPodLogs(cluster?.podUid ?? "");
}

async function checkPodLogs(ownPodUid: string): Promise<Finding[]> {
  const name = "log files";
  const problem = await findPodLogProblem(ownPodUid);
  if (problem) return [{ name, status: "warn", detail: `pod logs cannot be read: ${problem.what}`, advice: problem.advice }];
  return [{ name, status: "ok", detail: `${POD_LOGS} has the logs of pods, and no link without a target` }];
}

async function checkFiles(settings: Settings, host: HostSettings): Promise<Finding[]> {
  const name = "log files";
  const rules = logFileRules(logPathRules(settings, host));
  const { count, notRead } = await surveyLogFiles(host.logPaths, rules);
  const findings: Finding[] = [];
  const warn = (detail: string, advice = ""): void => void findings.push({ name, status: "warn", detail, advice });
  for (const [why, paths] of notRead) {
    const [what, advice] = why === "gone" ? [] : PROBLEMS[why].split("; ");
    if (what !== undefined) warn(`${what}: ${paths.length}, for example ${paths[0]}`, advice);
  }
  if (count === 0) warn(`no file matches ${host.logPaths.join(", ")}`, "set LOG_PATHS");
  return findings.length > 0 ? findings : [{ name, status: "ok", detail: `${count} files match ${host.logPaths.join(", ")}` }];
}

/** The body of /readyz. */
interface Readyz {
  readonly reasons?: string[];
  readonly warnings?: string[];
  readonly waits_for?: string;
  readonly failing?: { signal: string; since: string; error?: string }[];
}

const UNDELIVERED_ADVICE = "the collector keeps the data in its disk queue; see the backend checks above";
const WARNING_ADVICE = "the agent still signs and sends telemetry; see its log for details";

/** Checks the agent that runs on this machine, if there is one. */
export async function checkAgent({ health, cluster }: Pick<Settings, "health" | "cluster">): Promise<Finding[]> {
  const name = "running agent";
  const url = `${healthUrl(health)}/readyz`;
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(3000) });
    const { reasons = [], warnings = [], failing = [], waits_for: waitsFor } = (await answer.json()) as Readyz;
    const state: Finding[] = answer.ok
      ? [{ name, status: "ok", detail: "ready; the collector is running" }]
      : reasons.map((reason) => ({ name, status: "fail", detail: reason, advice: adviceFor(reason) }));
    const undelivered = failing.map(({ signal, since, error }): Finding => {
      const detail = `requests have failed since ${since}: ${error ?? "the reason is unknown"}`;
      return { name: `delivery of ${signal}`, status: "fail", detail, advice: UNDELIVERED_ADVICE };
    });
    const warned = warnings.map((detail): Finding => ({ name, status: "warn", detail, advice: WARNING_ADVICE }));
    return [...state, ...waiting(waitsFor), ...undelivered, ...warned, ...(await checkStatus(health))];
  } catch {
    const detail = `no agent responds at ${url}`;
    // In a pod, the agent is the container's main process.
    if (cluster)
      return [{ name, status: "fail", detail, advice: "see `kubectl logs` for this pod; add --previous if the container restarts" }];
    return [{ name, status: "warn", detail, advice: "start the agent with the command `run`, or start its service" }];
  }
}

/** Reports the state of other identities on this node, and log policies, from the running agent's /status. */
async function checkStatus(health: Settings["health"]): Promise<Finding[]> {
  const answer = await fetch(`${healthUrl(health)}/status`, { signal: AbortSignal.timeout(3000) });
  const { state, logFiles, logPolicies: policies } = (await answer.json()) as Pick<AgentStatus, "state" | "logFiles" | "logPolicies">;
  const name = "log policies";
  return [
    ...otherStates(state),
    ...unreadFiles(logFiles?.notRead ?? {}),
    ...lostFiles(logFiles?.lost),
    ...Object.entries(policies?.effective ?? {}).map(([target, policy]): Finding => ({
      name,
      status: "droppedBytes" in policy ? "warn" : "ok",
      detail: `${target}: ${JSON.stringify(policy)}`,
      ...("droppedBytes" in policy && { advice: "lines are dropped by a rate limit; raise the limit, or make the pod log less" }),
    })),
    ...Object.entries(policies?.refused ?? {}).map(([annotation, why]): Finding => ({
      name,
      status: "warn",
      detail: `${annotation} ${why}`,
      advice: "correct this setting",
    })),
    ...(policies?.dropped ? [droppedNamespaces(name, policies.dropped)] : []),
  ];
}

function droppedNamespaces(name: string, dropped: number): Finding {
  const detail = `${dropped} namespaces or LogPolicy objects are ignored, because all of them are too large in total`;
  return { name, status: "warn", detail, advice: "remove annotations atherops.io/logs… from namespaces, or delete LogPolicy objects" };
}

/** Files that the agent opened, but the collector does not read; `checkLogs` reports the others. */
function unreadFiles({ unread = 0, alike = 0 }: Readonly<Record<string, number>>): Finding[] {
  if (unread + alike === 0) return [];
  const detail = `${unread} log files grow and are not read, and ${alike} begin with the same 4 KiB as another one`;
  return [{ name: "log files", status: "fail", detail, advice: "the agent's log names them (log_files.unread, log_files.alike)" }];
}

function lostFiles(lost: LostFiles | undefined): Finding[] {
  if (!lost || lost.files === 0) return [];
  const detail = `${lost.files} log files were removed, or too old, before the collector had read them, with ${lost.bytes} unread bytes`;
  return [{ name: "log files", status: "fail", detail, advice: "the agent's log names them (log_files.lost)" }];
}

function otherStates(state: StateStatus | undefined): Finding[] {
  return (state?.others ?? []).map(({ folder, id, installation, bytes }) => ({
    name: "state of other agents",
    status: "warn",
    detail: `${folder} contains the state of ${id ?? "an unknown identity"} (${installation ?? "from an earlier agent version"}) with ${bytes} queued bytes, which this agent neither sends nor removes`,
    advice: "that installation sends the data when it runs on this node again; if it will not, delete the folder",
  }));
}

function waiting(waitsFor: string | undefined): Finding[] {
  if (waitsFor === undefined) return [];
  return [{ name: "pod logs", status: "fail", detail: waitsFor, advice: "the lines stay in their files; see the permission check above" }];
}

function adviceFor(reason: string): string {
  if (!reason.startsWith("the collector")) return "follow the message; the checks above and the agent's log have details";
  return "the agent restarts it with increasing backoff; its last output shows the cause (a port in use, COLLECTOR_CONFIG_FILE, memory, disk)";
}

/** Returns the URL of the local agent's health endpoint, for any listen address. */
export function healthUrl({ host, port }: Settings["health"]): string {
  const localHost = { "": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  return `http://${joinHostPort(localHost, port)}`;
}
