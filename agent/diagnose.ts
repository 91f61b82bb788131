// `diagnose`: runs every check, prints what is wrong and what to do, and writes a bundle for support. Invariant: no secret is printed or
// written; nothing is changed on the machine or in the cluster but one heartbeat. Called by main.ts; the checks are in diagnose/.
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { BackendClock } from "./clock.ts";
import { maskSecrets } from "./collector/child-log.ts";
import { createBackendApi } from "./enrolment/backend-api.ts";
import { checkBackend, checkName } from "./diagnose/backend.ts";
import type { Check, Finding } from "./diagnose/check.ts";
import { checkAgent, checkCollector, checkDisk, checkLogs } from "./diagnose/node.ts";
import { createLog } from "./log.ts";
import type { Program } from "./run.ts";
import { readSettings, type Secrets, type Settings, SettingsError } from "./settings.ts";
import { createUpstream } from "./upstream.ts";

/** True when nothing failed. */
export async function diagnoseCommand(program: Program, bundleFile?: string): Promise<boolean> {
  const findings: Finding[] = [];
  const report = (finding: Finding): void => {
    findings.push(finding);
    console.log(line(finding));
  };
  const read = settingsOf(program, report);
  if (read) await runChecks(program, read, report);
  if (bundleFile !== undefined) {
    writeFileSync(bundleFile, gzipSync(await bundle(program, read, findings)), { mode: 0o600 });
    console.log(`\nwritten without secrets to ${bundleFile}`);
  }
  const failed = findings.filter(({ verdict }) => verdict === "fail").length;
  console.log(failed === 0 ? "\nnothing is wrong" : `\n${failed} of ${findings.length} checks failed`);
  return failed === 0;
}

type Read = { settings: Settings; secrets: Secrets };

function settingsOf({ identity }: Program, report: (finding: Finding) => void): Read | undefined {
  try {
    const read = readSettings(identity);
    report({ name: "settings", verdict: "ok", detail: `backend ${read.settings.backendUrl}` });
    return read;
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    report({ name: "settings", verdict: "fail", detail: error.message, advice: "mend these first; the other checks need them" });
    return undefined;
  }
}

async function runChecks({ identity }: Program, { settings, secrets }: Read, report: (finding: Finding) => void): Promise<void> {
  await using upstream = createUpstream({
    ...settings,
    caFile: settings.backendCaFile,
    httpsProxy: secrets.httpsProxy,
    httpProxy: secrets.httpProxy,
  });
  const clock = new BackendClock(createLog("error", "diagnose").log);
  const backend = createBackendApi({ upstream, clock });
  const ofIdentity =
    identity === "cluster"
      ? (await import("./diagnose/cluster.ts")).clusterChecks(settings, secrets, backend)
      : (await import("./diagnose/host.ts")).hostChecks(settings, secrets, backend);
  const checks: Check[] = [
    () => checkName(settings, secrets),
    () => checkBackend(settings, upstream, clock),
    ...ofIdentity,
    () => checkDisk(settings),
    () => checkCollector(settings),
    ...(settings.host ? [() => checkLogs(settings)] : []),
    () => checkAgent(settings),
  ];
  for (const check of checks) {
    for (const finding of await check()) report(finding);
  }
}

const MARKS = { ok: "ok  ", warn: "WARN", fail: "FAIL", skipped: "skip" } as const;

function line({ name, verdict, detail, advice }: Finding): string {
  const text = `${MARKS[verdict]}  ${name}: ${detail}`;
  return maskSecrets(advice === undefined ? text : `${text}\n        ${advice}`);
}

async function bundle(program: Program, read: Read | undefined, findings: Finding[]): Promise<string> {
  const ask = async (path: string): Promise<string> => {
    if (!read) return "";
    const { port } = read.settings.health;
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(3000) }).catch(() => undefined);
    return answer ? await answer.text() : "the agent does not answer";
  };
  const text = JSON.stringify(
    {
      program: program.program,
      version: program.version,
      node: process.version,
      findings,
      settings: read?.settings,
      status: await ask("/status"),
      metrics: await ask("/metrics"),
    },
    undefined,
    2,
  );
  const known = Object.values(read?.secrets ?? {}).filter((secret): secret is string => secret !== undefined);
  return maskSecrets(known.reduce((masked, secret) => masked.replaceAll(secret, "[redacted]"), text));
}
