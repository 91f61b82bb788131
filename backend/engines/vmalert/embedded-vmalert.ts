// Runs the embedded rule evaluator: a supervised vmalert whose rules are in a folder under DATA_DIR, one file per group. Invariants:
// vmalert is never started with a file that it would reject, because it would exit; it has no environment that a rule could read.
import { cannotListen } from "../../errors.ts";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { execa } from "execa";
import { joinHostPort } from "../../../common/ip-networks.ts";
import type { Log } from "../../log.ts";
import { type ChildTiming, type EngineChild, findProgram, superviseChild } from "../child.ts";
import { engineLogin, loginOf } from "../engine-http.ts";
import { listItem, literal, replaceFile, RuleFolder } from "./rule-files.ts";

export interface EvaluatorOptions {
  /** Program paths or names, as `settings.vmalertPath`. */
  readonly candidates: readonly string[];
  /** The backend's data directory; the evaluator uses its folder `vmalert`. */
  readonly dataDir: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly intervalMs: number;
  readonly delayMs: number;
  /** File of the password that the port requires, created at the first start; undefined: the port requires none. */
  readonly passwordFile: string | undefined;
  /** Where expressions are evaluated, e.g. the embedded VictoriaMetrics. May contain user:password. */
  readonly metricsQueryUrl: string;
  /** Where the state of alerts is written, so that it is restored after a restart. May contain user:password. */
  readonly metricsWriteUrl: string;
  /** Base URLs, as of an Alertmanager, to which alerts are sent. Each may contain user:password; if there are none, alerts are not sent. */
  readonly notifierUrls?: readonly string[];
  readonly log: Log;
  readonly stopping?: AbortSignal;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface EmbeddedEvaluator extends AsyncDisposable {
  /** Base URL for VmalertClient; contains the login. */
  readonly url: string;
  readonly child: EngineChild;
  /** Writes the text of each group, for all groups; vmalert reads changed groups at its next reload or start. */
  writeRules(groups: ReadonlyMap<string, string>): Promise<void>;
}

/** A rule with more instances fails, unless its group has its own limit. */
const RESULTS_LIMIT = 10_000;

/** Starts with the rules of the last run, so that the state of their alerts is restored. Resolves once vmalert responds. */
export async function startEvaluator(options: EvaluatorOptions): Promise<EmbeddedEvaluator> {
  const folder = join(options.dataDir, "vmalert");
  const program = findProgram("vmalert", options.candidates);
  const rules = await RuleFolder.open(join(folder, "rules"));
  await keepUsableRules(program, rules, options.log);
  const notifier = await notifierFlags(folder, options.notifierUrls ?? []);
  const { host, port } = options.listen;
  const address = `http://${joinHostPort(host === "0.0.0.0" ? "127.0.0.1" : host, port)}`;
  const login = engineLogin(options.passwordFile);
  const metrics = await metricsFlags(folder, options);
  const starting = superviseChild({
    name: "vmalert",
    candidates: [program],
    args: [...flags(options, rules), ...metrics, `-httpListenAddr=${joinHostPort(host, port)}`, ...login.flags, ...notifier],
    env: {},
    pidFile: join(options.dataDir, "vmalert.pid"),
    readyUrl: `${address}/health`,
    loginUrl: `${login.in(address)}/metrics`,
    log: options.log,
    stopping: options.stopping,
    onRestart: options.onRestart,
    timing: options.timing,
  });
  const child = await starting.catch((error: Error) => {
    if (!String(error).includes("address already in use")) throw error;
    throw cannotListen("EVALUATOR_LISTEN", options.listen, Object.assign(error, { code: "EADDRINUSE" }));
  });
  return {
    url: login.in(address),
    child,
    writeRules: async (groups) => void (await rules.write(groups)),
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

function flags(options: EvaluatorOptions, rules: RuleFolder): string[] {
  return [
    `-rule=${listItem(rules.pattern)}`,
    `-evaluationInterval=${options.intervalMs}ms`,
    `-rule.evalDelay=${options.delayMs}ms`,
    // 0 makes vmalert 1.150.0 panic; with the default, a new group would wait for up to an interval.
    "-group.maxStartDelay=1ms",
    "-remoteWrite.flushInterval=1s",
    // Each entry stores the whole expression, for a page that is never opened.
    "-rule.updateEntriesLimit=1",
    `-rule.resultsLimit=${RESULTS_LIMIT}`,
    // Each rule was validated by a dry run before it was stored. Without validating all again, a reload of thousands of rules takes a
    // fraction of the time, and a rule with an invalid expression fails alone.
    "-rule.validateExpressions=false",
    "-rule.validateTemplates=false",
    "-loggerLevel=WARN",
  ];
}

/** Passwords are passed in files, because every user of the machine can see arguments. */
async function metricsFlags(folder: string, { metricsQueryUrl, metricsWriteUrl }: EvaluatorOptions): Promise<string[]> {
  const flagged = { datasource: metricsQueryUrl, remoteRead: metricsQueryUrl, remoteWrite: metricsWriteUrl };
  const flags: string[] = [];
  for (const [name, urlWithLogin] of Object.entries(flagged)) {
    const { url, user, password } = loginOf(urlWithLogin);
    flags.push(`-${name}.url=${url}`);
    if (!user && !password) continue;
    const file = resolve(folder, `${name}-password`);
    await replaceFile(file, password);
    flags.push(`-${name}.basicAuth.username=${user}`, `-${name}.basicAuth.passwordFile=${file}`);
  }
  return flags;
}

/** The URLs are passed in a file, because they may contain passwords and every user of the machine can see arguments. */
async function notifierFlags(folder: string, urls: readonly string[]): Promise<string[]> {
  const file = join(folder, "notifier.yml");
  if (urls.length === 0) {
    await rm(file, { force: true });
    return ["-notifier.blackhole"];
  }
  await replaceFile(file, JSON.stringify({ static_configs: urls.map(notifierTarget) }));
  return [`-notifier.config=${file}`];
}

/** vmalert uses a target with scheme and path unchanged. */
function notifierTarget(urlWithLogin: string): object {
  const { protocol, host, pathname, username, password } = new URL(urlWithLogin);
  return {
    targets: [`${protocol}//${host}${pathname.replace(/\/+$/, "")}/api/v2/alerts`],
    ...(username && { basic_auth: { username: decodeURIComponent(username), password: decodeURIComponent(password) } }),
  };
}

/** Keeps the files of the last run that vmalert accepts, and quarantines the others. */
async function keepUsableRules(program: string, rules: RuleFolder, log: Log): Promise<void> {
  if (rules.files.length === 0 || (await refusal(program, rules.pattern)) === undefined) return;
  for (const file of rules.files) {
    const output = await refusal(program, literal(file));
    if (output === undefined) continue;
    log.error(
      { event: "evaluator.rule_file_quarantined", engine: "vmalert", file, output },
      "vmalert rejects a rule file of the previous process, quarantined it",
    );
    await rules.quarantine(file);
  }
}

/** vmalert's last output about the files of a pattern; undefined if it accepts them. */
async function refusal(program: string, pattern: string): Promise<string | undefined> {
  const dryRun = await execa(program, ["-dryRun", `-rule=${listItem(pattern)}`], {
    env: {},
    extendEnv: false,
    stdin: "ignore",
    all: true,
    reject: false,
  });
  return dryRun.exitCode === 0 ? undefined : dryRun.all?.slice(-500);
}
