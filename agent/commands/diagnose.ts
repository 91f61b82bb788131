// `diagnose`: runs all checks, prints problems with advice, and writes a support bundle. Invariants: no secret is printed or written, not even
// the outgoing proxy's password without its URL; it changes nothing, apart from one heartbeat and, on a host, the mode of a credentials file
// that others may read; a check that throws counts as failed, and the other checks still run.
import { writeFileSync } from "node:fs";
import { unescape } from "node:querystring";
import { gzipSync } from "node:zlib";
import { BackendClock } from "../upstream/clock.ts";
import { maskSecrets } from "../../common/mask.ts";
import { createBackendApi } from "../upstream/backend-api.ts";
import { checkBackend, checkName } from "./diagnose/backend.ts";
import { type Check, type Finding, messageOf } from "./diagnose/check.ts";
import { checkAgent, checkCollector, checkDisk, checkLogs, healthUrl } from "./diagnose/node.ts";
import { createLog } from "../log.ts";
import type { Program } from "./running-parts.ts";
import { inValueNames, readEnrolmentToken, readSettings, type Secrets, type Settings, SettingsError } from "../settings.ts";
import { createUpstream } from "../upstream/pool.ts";

/** True if no check failed and the bundle, if requested, was written. */
export async function diagnoseCommand(program: Program, bundleFile?: string): Promise<boolean> {
  const findings: Finding[] = [];
  let redact = maskSecrets;
  const report = (finding: Finding): void => {
    findings.push(finding);
    console.log(inValueNames(redact(line(finding))));
  };
  const configuration = readConfiguration(program, report);
  if (configuration) {
    redact = createRedactor(configuration.secrets);
    await runChecks(program, configuration, report);
  }
  const failed = findings.filter(({ status }) => status === "fail").length;
  const warned = findings.filter(({ status }) => status === "warn").length;
  console.log(
    failed === 0 ? `\nnothing is wrong${warned > 0 ? `; ${warned} warnings` : ""}` : `\n${failed} of ${findings.length} checks failed`,
  );
  const isWritten =
    bundleFile === undefined || writeBundle(bundleFile, await buildBundle(program, configuration?.settings, findings, redact));
  return failed === 0 && isWritten;
}

function writeBundle(file: string, text: string): boolean {
  try {
    writeFileSync(file, gzipSync(text), { mode: 0o600 });
    console.log(`written without secrets to ${file}`);
    return true;
  } catch (error) {
    console.log(`cannot write the bundle: ${messageOf(error)}\n        choose a writable file, such as /tmp/bundle.json.gz`);
    return false;
  }
}

type Configuration = ReturnType<typeof readSettings>;

function readConfiguration({ identity }: Program, report: (finding: Finding) => void): Configuration | undefined {
  try {
    const configuration = readSettings(identity);
    report({ name: "settings", status: "ok", detail: `backend ${configuration.settings.backendUrl}` });
    return configuration;
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    report({ name: "settings", status: "fail", detail: error.message, advice: "fix these first; the other checks need them" });
    return undefined;
  }
}

async function runChecks({ identity }: Program, { settings, secrets }: Configuration, report: (finding: Finding) => void): Promise<void> {
  await using upstream = createUpstream({
    ...settings,
    caFile: settings.backendCaFile,
    httpsProxy: secrets.httpsProxy,
    httpProxy: secrets.httpProxy,
  });
  const clock = new BackendClock(createLog("error", "diagnose").log);
  const backend = createBackendApi({ upstream, clock });
  const identityChecks =
    identity === "cluster"
      ? (await import("./diagnose/cluster.ts")).clusterChecks(settings, readEnrolmentToken(), backend)
      : (await import("./diagnose/host.ts")).hostChecks(settings, readEnrolmentToken(), backend);
  const checks: Check[] = [
    () => checkName(settings, secrets),
    () => checkBackend(settings, upstream, clock),
    ...identityChecks,
    () => checkDisk(settings),
    () => checkCollector(settings),
    () => checkLogs(settings),
    () => checkAgent(settings),
  ];
  for (const check of checks) {
    for (const finding of await check().catch((error: unknown) => [failedCheck(error)])) report(finding);
  }
}

function failedCheck(error: unknown): Finding {
  const advice = "this check itself failed: send the bundle to the maintainers, and continue with the other checks";
  return { name: "diagnose", status: "fail", detail: messageOf(error), advice };
}

const MARKS = { ok: "ok  ", warn: "WARN", fail: "FAIL", skipped: "skip" } as const;

function line({ name, status, detail, advice }: Finding): string {
  const text = `${MARKS[status]}  ${name}: ${detail}`;
  return advice === undefined ? text : `${text}\n        ${advice}`;
}

/** Returns a function that masks this process's secrets, and all text that looks like a secret. */
function createRedactor({ installToken, httpsProxy, httpProxy }: Secrets): (text: string) => string {
  const passwords = [httpsProxy, httpProxy].flatMap((url) => {
    const { password = "" } = (url === undefined ? undefined : URL.parse(url)) ?? {};
    return [url, password, unescape(password)];
  });
  // Shorter secrets are masked only within URLs, because replacing them everywhere would garble the text.
  const known = [installToken, ...passwords].filter((secret) => secret !== undefined && secret.length >= 4) as string[];
  return (text) => maskSecrets(known.reduce((masked, secret) => masked.replaceAll(secret, "[redacted]"), text));
}

async function buildBundle(
  { program, version }: Program,
  settings: Settings | undefined,
  findings: Finding[],
  redact: (text: string) => string,
): Promise<string> {
  const ask = async (path: string): Promise<string> => {
    if (!settings) return "";
    const answer = await fetch(`${healthUrl(settings.health)}${path}`, { signal: AbortSignal.timeout(3000) }).catch(() => undefined);
    return answer ? await answer.text() : "the agent does not respond";
  };
  const content = {
    program,
    version,
    node: process.version,
    findings,
    settings,
    status: await ask("/status"),
    metrics: await ask("/metrics"),
  };
  // Each string is redacted separately, because JSON escapes could hide a secret.
  return JSON.stringify(content, (_, value: unknown) => (typeof value === "string" ? redact(value) : value), 2);
}
