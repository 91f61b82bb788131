// Reads the agent's settings as settings-table.ts defines them. All problems are reported in one message, and the process exits with 2.
// Nothing else in agent/ reads the environment.
import { join, matchesGlob } from "node:path";
import { isLoopback, joinHostPort } from "../common/ip-networks.ts";
import { cachedProgram } from "../common/settings-kinds.ts";
import { type SecretsOf, settingsHelp, SettingsReader } from "../common/settings-table.ts";
import { type EnrolmentToken, enrolmentToken } from "./enrolment-token.ts";
import { BOTH, CLUSTER, COLLECTOR_VERSION, HOST, type Identity, type Signal } from "./settings-table.ts";

export type { ListenAddress } from "../common/settings-kinds.ts";
export { SettingsError } from "../common/settings-table.ts";
export { COLLECTOR_VERSION, type Identity, LOG_LEVELS, type LogLevel, type Signal, SIGNALS } from "./settings-table.ts";

/** Configuration that may be logged. */
export type Settings = ReturnType<typeof readPlain> & {
  /** The folder of this agent's identity within stateDir; undefined: stateDir itself. Not read from the environment (state-dir.ts). */
  readonly stateFolder?: string;
};
export type HostSettings = ReturnType<typeof readHost>;
export type ClusterSettings = ReturnType<typeof readCluster>;
export type Compression = Settings["compression"];
/** Configuration that must never be logged; the outgoing proxy's URLs are here because they may contain passwords. */
export type Secrets = SecretsOf<typeof BOTH>;

/** Reads and validates all settings. Throws one SettingsError that lists all problems. */
export function readSettings(identity: Identity, env: NodeJS.ProcessEnv = process.env): { settings: Settings; secrets: Secrets } {
  const reader = new SettingsReader(env, identity);
  const settings = readPlain(reader, identity);
  const secrets = reader.readSecrets(BOTH);
  reader.finish();
  return { settings, secrets };
}

/** The settings of one of the two programs, for its `--help`. */
export function helpOfSettings(identity: Identity): string {
  return settingsHelp({ ...BOTH, ...(identity === "host" ? HOST : CLUSTER) }, identity);
}

/**
 * What an agent enrols with now: INSTALL_TOKEN_FILE can be a mounted Secret that changes while the agent runs, and the kubelet, or a program
 * of the host, replaces the token in IDENTITY_TOKEN_FILE. Undefined if there is none.
 */
export function readEnrolmentToken(env: NodeJS.ProcessEnv = process.env): EnrolmentToken | undefined {
  const reader = new SettingsReader(env);
  return enrolmentToken(reader.read(BOTH.installToken), reader.read(BOTH.identityToken));
}

function readPlain(reader: SettingsReader, identity: Identity) {
  const { dropMetrics, dropLogs, dropTraces, allowPlainHttp, otelcolPath, ...plain } = reader.readPlain(BOTH);
  const url = URL.parse(plain.backendUrl);
  if (url?.protocol === "http:" && !isLoopback(url.hostname) && !allowPlainHttp)
    reader.problem("BACKEND_URL: with plain http, telemetry is sent unencrypted: use https, or set ALLOW_PLAIN_HTTP=true");
  return {
    identity,
    ...plain,
    drop: { metrics: dropMetrics, logs: dropLogs, traces: dropTraces } satisfies Record<Signal, readonly string[]>,
    /** Candidates in order of preference; the first that exists is used. */
    otelcolPath: otelcolPath === undefined ? installedCollectors(reader, identity) : [otelcolPath],
    host: identity === "host" ? readHost(reader) : undefined,
    cluster: identity === "cluster" ? readCluster(reader) : undefined,
  };
}

/** On PATH, or in the cache of hack/fetch-tools.ts. The host's collector has fewer components. */
function installedCollectors(reader: SettingsReader, identity: Identity): readonly string[] {
  const folders = (reader.plain("PATH") ?? "").split(":").filter(Boolean);
  const names = identity === "host" ? ["otelcol-host", "otelcol-contrib"] : ["otelcol-contrib"];
  return [
    ...names.flatMap((name) => folders.map((folder) => join(folder, name))),
    ...names.map((name) => cachedProgram(reader, name, COLLECTOR_VERSION)),
  ];
}

function readHost(reader: SettingsReader) {
  const { journald, journaldUnits, journalctlPath, logPathsAllowed: limit, ...host } = reader.readPlain(HOST);
  for (const path of limit ? host.logPaths : [])
    if (!limit?.some((allowed) => matchesGlob(path, allowed)))
      reader.problem(`LOG_PATHS: "${path}" is outside of LOG_PATHS_ALLOWED: add it there, or remove it here`);
  const logPathsAllowed = limit ?? ["/var/log/**", ...host.logPaths];
  // If `journal` is undefined, the journal is not read; without units, all units are read.
  return { ...host, logPathsAllowed, journal: journald ? { program: journalctlPath, units: journaldUnits } : undefined };
}

function readCluster(reader: SettingsReader) {
  const { kubernetesServiceHost, kubernetesServicePort, valueNames: _, nodeIp, ...cluster } = reader.readPlain(CLUSTER);
  if (cluster.logPolicies && !cluster.podRelay)
    reader.problem(
      "LOG_POLICIES: without POD_RELAY no annotation would redact or turn off logs: set POD_RELAY=true, or LOG_POLICIES=false",
    );
  const kubernetesServer = `https://${joinHostPort(kubernetesServiceHost, kubernetesServicePort)}`;
  return { ...cluster, nodeIp: nodeIp ?? cluster.nodeName, kubernetesServer };
}

/** Replaces environment variables in a message with the names of chart values, if VALUE_NAMES is set. */
export function inValueNames(message: string, env: NodeJS.ProcessEnv = process.env): string {
  const names = valueNames(env["VALUE_NAMES"]);
  return message.replaceAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g, (name) => names.get(name) ?? names.get(name.replace(/_FILE$/, "")) ?? name);
}

/** Empty if the JSON is invalid, because the chart may have another version than the image. */
function valueNames(json: string | undefined): Map<string, string> {
  try {
    return new Map(Object.entries(JSON.parse(json || "{}") as Record<string, string>));
  } catch {
    return new Map();
  }
}
