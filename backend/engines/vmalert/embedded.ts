// The embedded rule evaluator: a supervised vmalert whose rules are a folder under DATA_DIR, one file for each group. Invariant:
// vmalert is never started on a file that it would refuse, because it would exit. It has no environment, so that no rule can read one.
import { cannotListen } from "../../errors.ts";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { execa } from "execa";
import type { Log } from "../../operations/log.ts";
import { type ChildTiming, type EngineChild, findProgram, superviseChild } from "../child.ts";
import { engineLogin, loginOf } from "../engine-http.ts";
import { listItem, literal, replaceFile, RuleFolder } from "./rule-files.ts";

export interface EvaluatorOptions {
  /** Program paths or names, as `settings.vmalertPath`. */
  readonly candidates: readonly string[];
  /** The backend's data directory; the evaluator takes `vmalert` in it. */
  readonly dataDir: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly intervalMs: number;
  readonly delayMs: number;
  /** Holds the password that the port asks for, made at the first start; undefined: it asks for none. */
  readonly passwordFile: string | undefined;
  /** Where expressions are asked, e.g. the embedded VictoriaMetrics. May hold user:password. */
  readonly metricsQueryUrl: string;
  /** Where the state of alerts is written, so that a restart finds it again. May hold user:password. */
  readonly metricsWriteUrl: string;
  /** Where alerts are sent: base addresses as of an Alertmanager. Each may hold user:password; none: nowhere. */
  readonly notifierUrls?: readonly string[];
  readonly log: Log;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface EmbeddedEvaluator extends AsyncDisposable {
  /** Base URL for VmalertClient; holds the login. */
  readonly url: string;
  readonly child: EngineChild;
  /** Group → its text, of all groups; vmalert reads those that changed at its next reload or start. */
  writeRules(groups: ReadonlyMap<string, string>): Promise<void>;
}

/** A rule with more instances fails; the limit of its group takes precedence. */
const RESULTS_LIMIT = 10_000;

/** Starts on the rules of the last run, so that the state of their alerts is restored. Resolves once vmalert answers. */
export async function startEvaluator(options: EvaluatorOptions): Promise<EmbeddedEvaluator> {
  const folder = join(options.dataDir, "vmalert");
  const program = findProgram("vmalert", options.candidates);
  const rules = await RuleFolder.open(join(folder, "rules"), join(folder, "rules.yml"));
  await keepUsableRules(program, rules, options.log);
  const notifier = await notifierFlags(folder, options.notifierUrls ?? []);
  const host = options.listen.host.includes(":") ? `[${options.listen.host}]` : options.listen.host;
  const address = `http://${host === "0.0.0.0" ? "127.0.0.1" : host}:${options.listen.port}`;
  const login = engineLogin(options.passwordFile);
  const metrics = await metricsFlags(folder, options);
  const starting = superviseChild({
    name: "vmalert",
    candidates: [program],
    args: [...flags(options, rules), ...metrics, `-httpListenAddr=${host}:${options.listen.port}`, ...login.flags, ...notifier],
    env: {},
    pidFile: join(options.dataDir, "vmalert.pid"),
    readyUrl: `${address}/health`,
    loginUrl: `${login.in(address)}/metrics`,
    log: options.log,
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
    // 0 makes vmalert 1.150.0 panic; the default lets a new group wait for up to an interval.
    "-group.maxStartDelay=1ms",
    "-remoteWrite.flushInterval=1s",
    // Each entry keeps the whole expression, for a page that is never opened.
    "-rule.updateEntriesLimit=1",
    `-rule.resultsLimit=${RESULTS_LIMIT}`,
    // Each rule was validated by a dry run before it was stored. Without doing it again for all at every reload, a reload of thousands
    // takes a fraction of the time, and a rule with a bad expression fails alone.
    "-rule.validateExpressions=false",
    "-rule.validateTemplates=false",
    "-loggerLevel=WARN",
  ];
}

/** Passwords go into files, because arguments are visible to every user of the machine. */
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

/** The addresses go into a file, because they may hold passwords and arguments are visible to every user of the machine. */
async function notifierFlags(folder: string, urls: readonly string[]): Promise<string[]> {
  const file = join(folder, "notifier.yml");
  if (urls.length === 0) {
    await rm(file, { force: true });
    return ["-notifier.blackhole"];
  }
  await replaceFile(file, JSON.stringify({ static_configs: urls.map(notifierTarget) }));
  return [`-notifier.config=${file}`];
}

/** A target with scheme and path is used unchanged. */
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
      "vmalert refuses a rule file of the last run; quarantined",
    );
    await rules.quarantine(file);
  }
}

/** vmalert's last words on the files of a pattern; undefined when it takes them. */
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
