// The embedded rule evaluator: a supervised vmalert whose rules are one file under DATA_DIR. Invariant: the file is replaced as a
// whole, and vmalert is never started on a file that it would refuse, because it would exit. It has no environment, so that no rule
// can read one. Called by serve.ts when the metrics engine is embedded too.
import { existsSync, mkdirSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { Log } from "../../log.ts";
import { findProgram, superviseChild, type ChildTiming, type EngineChild } from "../child.ts";
import { renderRuleFile } from "./rule-file.ts";

export interface EvaluatorOptions {
  /** Program paths or names, as `settings.vmalertPath`. */
  readonly candidates: readonly string[];
  /** The backend's data directory; the evaluator takes `vmalert` in it. */
  readonly dataDir: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly intervalMs: number;
  readonly delayMs: number;
  /** Where expressions are asked, e.g. the embedded VictoriaMetrics. */
  readonly metricsQueryUrl: string;
  /** Where the state of alerts is written, so that a restart finds it again. */
  readonly metricsWriteUrl: string;
  /** May hold user:password; unset: alerts are sent nowhere. */
  readonly alertmanagerUrl?: string | undefined;
  readonly log: Log;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface EmbeddedEvaluator extends AsyncDisposable {
  /** Base URL for VmalertClient. */
  readonly url: string;
  readonly child: EngineChild;
  /** Replaces the rule file; vmalert reads it at its next reload or start. */
  writeRules(text: string): Promise<void>;
}

/** Instances above which one rule fails; a group's own limit goes before it. */
const RESULTS_LIMIT = 10_000;

/** Starts on the rules of the last run, so that the state of their alerts is restored. Resolves once vmalert answers. */
export async function startEvaluator(options: EvaluatorOptions): Promise<EmbeddedEvaluator> {
  const folder = join(options.dataDir, "vmalert");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const ruleFile = join(folder, "rules.yml");
  const program = findProgram("vmalert", options.candidates);
  await keepUsableRules(program, ruleFile, options.log);
  const notifier = await notifierFlags(folder, options.alertmanagerUrl);
  const host = options.listen.host.includes(":") ? `[${options.listen.host}]` : options.listen.host;
  const url = `http://${host === "0.0.0.0" ? "127.0.0.1" : host}:${options.listen.port}`;
  const child = await superviseChild({
    name: "vmalert",
    candidates: [program],
    args: [...flags(options, ruleFile), `-httpListenAddr=${host}:${options.listen.port}`, ...notifier],
    env: {},
    pidFile: join(options.dataDir, "vmalert.pid"),
    readyUrl: `${url}/health`,
    log: options.log,
    onRestart: options.onRestart,
    timing: options.timing,
  });
  return {
    url,
    child,
    writeRules: (text) => replaceFile(ruleFile, text),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

function flags(options: EvaluatorOptions, ruleFile: string): string[] {
  return [
    `-rule=${ruleFile}`,
    `-evaluationInterval=${options.intervalMs}ms`,
    `-rule.evalDelay=${options.delayMs}ms`,
    // 0 makes vmalert 1.150.0 panic; the default lets a new group wait for up to an interval.
    "-group.maxStartDelay=1ms",
    `-datasource.url=${options.metricsQueryUrl}`,
    `-remoteRead.url=${options.metricsQueryUrl}`,
    `-remoteWrite.url=${options.metricsWriteUrl}`,
    "-remoteWrite.flushInterval=1s",
    // Each entry keeps the whole expression, for a page that nobody opens.
    "-rule.updateEntriesLimit=1",
    `-rule.resultsLimit=${RESULTS_LIMIT}`,
    // Each rule was validated by a dry run before it was stored. Without doing it again for all at every reload, a reload of thousands
    // takes a fraction of the time, and a rule with a bad expression fails alone.
    "-rule.validateExpressions=false",
    "-rule.validateTemplates=false",
    "-loggerLevel=WARN",
  ];
}

/** The address goes into a file, because it may hold a password and arguments are visible to every user of the machine. */
async function notifierFlags(folder: string, alertmanagerUrl: string | undefined): Promise<string[]> {
  const file = join(folder, "notifier.yml");
  if (alertmanagerUrl === undefined) {
    await rm(file, { force: true });
    return ["-notifier.blackhole"];
  }
  const { protocol, host, pathname, username, password } = new URL(alertmanagerUrl);
  const target = {
    targets: [host],
    ...(username && { basic_auth: { username: decodeURIComponent(username), password: decodeURIComponent(password) } }),
  };
  const config = { scheme: protocol.replace(":", ""), path_prefix: pathname === "/" ? "" : pathname, static_configs: [target] };
  await replaceFile(file, JSON.stringify(config));
  return [`-notifier.config=${file}`];
}

/** Leaves the file of the last run when vmalert takes it; else sets it aside and starts from none. */
async function keepUsableRules(program: string, ruleFile: string, log: Log): Promise<void> {
  const none = renderRuleFile([]);
  if (!existsSync(ruleFile)) return await replaceFile(ruleFile, none);
  if ((await readFile(ruleFile, "utf8")) === none) return;
  const dryRun = await execa(program, ["-dryRun", `-rule=${ruleFile}`], {
    env: {},
    extendEnv: false,
    stdin: "ignore",
    all: true,
    reject: false,
  });
  if (dryRun.exitCode === 0) return;
  log.error(
    { engine: "vmalert", output: dryRun.all?.slice(-500) },
    "the rule file of the last run is refused: set aside, to be written anew",
  );
  await rename(ruleFile, `${ruleFile}.refused`);
  await replaceFile(ruleFile, none);
}

/** A reader sees the old or the new text, never a part. */
async function replaceFile(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
