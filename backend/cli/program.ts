// The admin client `atherops`: its commands, help and exit codes (0 done, 1 failed, 2 wrong usage). Invariants: it uses only the backend's
// HTTP API; results go to stdout, everything else to stderr.
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Command, CommanderError, Option } from "commander";
import { formatDuration } from "../../common/duration.ts";
import packageFile from "./package.json" with { type: "json" };
import { addAccountCommands } from "./account-commands.ts";
import { addApplyCommands } from "./apply-commands.ts";
import { type Console, createConsole, type GlobalOptions, OUTPUTS } from "./output.ts";
import { screenOf } from "./console-links.ts";
import { addChangesCommand } from "./changes-command.ts";
import { addCompletion } from "./completion.ts";
import { addSavedCommands } from "./dashboards.ts";
import { addEnrolmentCommands } from "./enrolment-commands.ts";
import { addExportTelemetry } from "./export-telemetry.ts";
import { addFleetCommand } from "./fleet-command.ts";
import { addNotificationCommands } from "./notification-commands.ts";
import { checkSessionFile, readPassword, readSession, removeSession, type Session } from "./credentials.ts";
import { addOrganisationCommands } from "./organisation-commands.ts";
import { addIssuerCommands } from "./issuer-commands.ts";
import { addIngestTokenCommands, addReadTokenCommands } from "./token-commands.ts";
import { addRuleCommands } from "./rule-commands.ts";
import { withOptionName, Interrupted, Problem, RefusedValue, WrongUsage } from "./cli-error.ts";
import { addLogCommands } from "./log-commands.ts";
import { addMcpCommand } from "./mcp-command.ts";
import { addMetricsCommand } from "./metrics-command.ts";
import { addServiceCommands } from "./service-commands.ts";
import { addSloCommands } from "./slo-commands.ts";
import { addTraceCommands } from "./trace-commands.ts";
import { loginBySso } from "./sso-login.ts";
import type { World } from "./settings.ts";

const EXAMPLES = `
Examples:
  atherops login --url https://telemetry.example.com --email me@example.com
  atherops login --sso                            with your identity provider, in a browser
  atherops --profile staging login --url https://staging.example.com   a second session; --profile staging uses it
  atherops tokens create --ttl 1h                 an install token, for one cluster or host
  atherops clusters                               which clusters are online, with their nodes
  atherops fleet --problems                       agents with a problem, such as offline or outdated
  atherops changes                                what changed in the last hour
  atherops logs --level error --since 1h          newest errors
  atherops logs --histogram --since 24h           counts over time
  atherops tail --label k8s.namespace.name=shop   logs as they arrive
  atherops traces --service checkout --error --json | jq .TraceID
  atherops trace 5b8aa5a2d2c872e8321cf37308d69df2  its spans as a waterfall
  atherops metrics 'system_memory_usage_bytes{state="used"}' --since 1h
  atherops rules                                  alert rules with their current state
  atherops slos                                   error budgets and burn rates
  atherops alerts severity=critical               firing alerts and their channels
  atherops silences add alertname=Down --for 2h --comment 'being repaired'
  atherops apply -f alerting.yaml --dry-run       what would change
  atherops keys create ci-loader                  a key for sending telemetry without an agent
  atherops usage --days 7                         stored telemetry, by day and signal
  atherops audit --action login.failed            failed logins
  atherops mcp                                    for assistants: the Model Context Protocol
  atherops read-tokens create grafana             a token for Grafana, and its data source settings

The password is read from a prompt, a pipe, or the file in ATHEROPS_PASSWORD_FILE, never from an argument.
Other variables: ATHEROPS_URL, ATHEROPS_PROFILE, XDG_CONFIG_HOME, NODE_EXTRA_CA_CERTS (a private CA).

Exit codes: 0 success; 2 wrong usage, including a value that the backend rejects; 1 any other failure, such as an expired session,
an unknown name, a file or the network.`;

/** Runs one command and returns the exit code. */
export async function run(args: readonly string[], world: World): Promise<number> {
  const program = buildProgram(world);
  let command = program;
  program.hook("preAction", (_program, chosen) => void (command = chosen));
  try {
    await program.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (world.signal?.aborted && !(error instanceof Interrupted)) return 0;
    if (!(error instanceof Problem) && !isSystemError(error)) throw error;
    world.stderr.write(`atherops: ${error instanceof RefusedValue ? withOptionName(error, command) : error.message}\n`);
    return error instanceof WrongUsage ? 2 : 1;
  }
}

/** An error of the operating system, such as for reading a directory as standard input: its message says what failed and where. */
function isSystemError(error: unknown): error is Error {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";
}

/** Options that only the program has: subcommands of `traces` declare the options of `traces` themselves. */
function visibleGlobalOptions(command: Command): Option[] {
  const { parent } = command;
  if (!parent) return [];
  return parent.parent ? visibleGlobalOptions(parent) : [...parent.options];
}

export function buildProgram(world: World): Command {
  const program = new Command("atherops")
    .description("Administers an AtherOps backend over its HTTP API, and reads metrics, logs and traces.")
    .version(packageFile.version)
    .option("--url <address>", "URL of the backend; default: ATHEROPS_URL, then the URL of the last login, then http://127.0.0.1:8080")
    .addOption(new Option("-o, --output <format>", "format of the result").choices(OUTPUTS).conflicts(["json"]))
    .option("--json", "the same as --output json: an array, or one object per line for logs, spans and traces")
    .option("--profile <name>", "use the session with this name; default: ATHEROPS_PROFILE")
    .option(
      "--link",
      "also print the URL of the console's screen with the same range and query, on stderr; default for tables on a terminal",
    )
    .option("--no-link", "do not print it")
    .option("--allow-plain-http", "allow sending the session to another machine over plain HTTP")
    .addHelpText("after", EXAMPLES)
    .showHelpAfterError("(add --help for the list)")
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions })
    .configureOutput({ writeOut: (text) => world.stdout.write(text), writeErr: (text) => world.stderr.write(text) })
    .exitOverride();
  const console = createConsole(world, () => program.opts<GlobalOptions>());
  const { profile: defaultProfile, sessionFile } = world.settings;
  program.hook("preAction", () => {
    const profile = program.opts<GlobalOptions>().profile ?? defaultProfile;
    world.settings = { ...world.settings, sessionFile: profileSessionFile(sessionFile, profile) };
  });
  program.hook("postAction", (_program, command) => {
    const { link = (world.stderr as { isTTY?: boolean }).isTTY === true && !console.json } = program.opts<GlobalOptions>();
    const screen = link ? screenOf(command) : undefined;
    if (screen !== undefined) console.note(`console: ${console.client().consoleLink(screen)}`);
  });
  addLogin(program, console);
  addProfiles(program, console, sessionFile);
  addCompletion(program, console);
  addAccountCommands(program, console);
  addEnrolmentCommands(program, console);
  addFleetCommand(program, console);
  addIngestTokenCommands(program, console);
  addIssuerCommands(program, console);
  addReadTokenCommands(program, console);
  addOrganisationCommands(program, console);
  addLogCommands(program, console);
  addMetricsCommand(program, console);
  addTraceCommands(program, console);
  addServiceCommands(program, console);
  addChangesCommand(program, console);
  addMcpCommand(program, console);
  addRuleCommands(program, console);
  addSloCommands(program, console);
  addNotificationCommands(program, console);
  addSavedCommands(program, console);
  addApplyCommands(program, console);
  addExportTelemetry(program, console);
  for (const command of descendants(program)) {
    command.exitOverride().copyInheritedSettings(program).hook("preSubcommand", refuseUnknown);
    if (command.commands.length > 0) command.allowExcessArguments().hook("preAction", refuseExcess);
  }
  return program;
}

/** Otherwise, an unknown command would be reported as an excess argument of the default command. */
function refuseUnknown(group: Command, chosen: Command): void {
  const [word] = group.args;
  if (word === undefined || word.startsWith("-") || word === chosen.name() || chosen.registeredArguments.length > 0) return;
  unknownCommand(group);
}

/** The same for a group that is a command itself, such as `traces`. */
function refuseExcess(group: Command, chosen: Command): void {
  if (group === chosen && group.args.length > 0) unknownCommand(group);
}

/** Reports an unknown command: commander's method for this suggests similar commands, but is missing in its types. */
function unknownCommand(group: Command): never {
  return (group as Command & { unknownCommand(): never }).unknownCommand();
}

function descendants(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...descendants(child)]);
}

function addLogin(program: Command, console: Console): void {
  const { world } = console;
  program
    .command("login")
    .description("log in and store the session (15 minutes by default) in a file that only you can read")
    .option("--email <address>", "your e-mail address; default: that of the last login, then admin@localhost")
    .option("--sso", "log in with the identity provider, in a browser")
    .addHelpText(
      "after",
      `
Examples:
  atherops login --url https://telemetry.example.com --email me@example.com
  atherops login < DATA_DIR/secrets/admin-password          the first login to an embedded backend
  ATHEROPS_PASSWORD_FILE=/run/secrets/pw atherops login     later commands with this variable renew the session
  atherops login --sso --url https://telemetry.example.com  prints a URL to open in a browser, and waits

A session from --sso is not renewed: when it expires, log in again. For unattended programs, \`atherops read-tokens create\` creates a
token that can read. The browser returns to this machine. Over SSH it cannot: paste the URL at which it stopped.
The browser shows a code: continue only if this command printed the same one.
Never log in at a URL that another person sent you, and never give anyone the URL at which your browser stopped.`,
    )
    .action(async ({ email, sso }: { email?: string; sso?: boolean }) => {
      if (sso && email !== undefined) throw new WrongUsage("--sso cannot be used with --email: the identity provider identifies you");
      checkSessionFile(world.settings.sessionFile);
      if (sso) {
        const session = await loginBySso(world, console.client());
        console.note(loggedIn(session));
        return console.note(
          `the session lasts ${sessionLifetime(session) ?? "as long as JWT_TTL"}; after that, run \`atherops login --sso\` again`,
        );
      }
      const password = await readPassword("Password: ", world, world.settings.passwordFile);
      const session = await console.client().login(email, password);
      return console.note(loggedIn(session));
    });
  program
    .command("logout")
    .description("remove the stored session")
    .action(() => {
      removeSession(world.settings.sessionFile);
      console.note("logged out");
    });
}

/** For example 15m; undefined if the token has no lifetime. */
function sessionLifetime({ token }: Session): string | undefined {
  try {
    const { iat, exp } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as { iat?: unknown; exp?: unknown };
    return typeof iat === "number" && typeof exp === "number" ? formatDuration((exp - iat) * 1000) : undefined;
  } catch {
    return undefined;
  }
}

function loggedIn({ url, email }: Session): string {
  return `logged in to ${url} as ${email}`;
}

// Profiles: several sessions at once, for several backends or users. Invariant: a name is a plain file name, so it stays in the folder.

const PROFILE_NAME = /^[A-Za-z0-9_][\w.-]{0,49}$/;
const SESSION_FILE = /^session-(.+)\.json$/;

/** The session file of a profile; without a profile, `sessionFile` itself. Throws WrongUsage. */
function profileSessionFile(sessionFile: string, profile: string | undefined): string {
  if (profile === undefined) return sessionFile;
  if (!PROFILE_NAME.test(profile))
    throw new WrongUsage(
      `--profile ${profile}: must be at most 50 letters, digits, dots, dashes and _, and begin with a letter, digit or _`,
    );
  return join(dirname(sessionFile), `session-${profile}.json`);
}

function addProfiles(program: Command, console: Console, sessionFile: string): void {
  program
    .command("profiles")
    .description("your stored sessions, with the backend and user of each")
    .addHelpText(
      "after",
      "\nExamples:\n  atherops --profile staging login --url https://staging.example.com\n  atherops --profile staging logs\n  ATHEROPS_PROFILE=staging atherops logs",
    )
    .action(() => {
      const named = profileNames(dirname(sessionFile)).map((name) => [name, profileSessionFile(sessionFile, name)] as const);
      const rows = [["", sessionFile] as const, ...named].flatMap(([profile, file]) => {
        const session = readSession(file);
        return session ? [{ profile, url: session.url, email: session.email }] : [];
      });
      console.print(rows, ["profile", "url", "email"]);
    });
}

function profileNames(folder: string): string[] {
  try {
    return readdirSync(folder)
      .flatMap((file) => SESSION_FILE.exec(basename(file))?.[1] ?? [])
      .filter((name) => PROFILE_NAME.test(name))
      .toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
