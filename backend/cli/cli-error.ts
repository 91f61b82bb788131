// Errors of the command line: each is printed as one sentence, without a stack trace. If the API rejects a field, the message names the
// option or argument that sets it. Invariant: if the command has no such option, the API's message is printed unchanged.
import type { Command } from "commander";

export class Problem extends Error {
  override readonly name: string = "Problem";
}

/** The arguments are wrong, and repeating the command does not help: exit code 2. */
export class WrongUsage extends Problem {
  override readonly name: string = "WrongUsage";
}

/** The backend rejects a value. The message names the field of the API. */
export class RefusedValue extends WrongUsage {
  override readonly name = "RefusedValue";
  /** The field in the API, such as `logs.window`. */
  readonly field: string;
  readonly reason: string;

  constructor(field: string, reason: string) {
    super(`${field}: ${reason}`);
    this.field = field;
    this.reason = reason;
  }
}

/** The backend does not have the resource. */
export class Missing extends Problem {
  override readonly name = "Missing";
}

/** The user interrupted the command before it was done. */
export class Interrupted extends Problem {
  override readonly name = "Interrupted";
}

/** A retry may succeed: the backend is unavailable or busy. */
export class TemporaryProblem extends Problem {
  override readonly name = "TemporaryProblem";
  readonly retryAfterS: number;

  constructor(message: string, { retryAfterS = 0, cause }: { retryAfterS?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.retryAfterS = retryAfterS;
  }
}

/** Field of the API → the options or arguments that set it, if their names differ. A message names the one that was used. */
const OPTION_NAMES: Readonly<Record<string, readonly string[]>> = {
  query: ["<expression>"],
  expr: ["--expr", "<expression>"],
  words: ["--word"],
  q: ["--grep"],
  not_q: ["--not-grep"],
  min_duration_ms: ["--min", "--min-ms"],
  max_duration_ms: ["--max", "--max-ms"],
  labels: ["--label"],
  annotations: ["--annotation"],
  "logs.filter": ["--where"],
  "logs.by": ["--by"],
  matchers: ["--match", "<matchers>"],
  group_wait: ["--wait"],
  group_interval: ["--interval"],
  repeat_interval: ["--repeat"],
  "settings.url": ["--endpoint", "--url-file"],
  "settings.routing_key": ["--routing-key-file"],
  "settings.region": ["--region"],
  "settings.to": ["--to"],
  "settings.title": ["--title"],
  "settings.text": ["--text-file"],
  admin_email: ["--admin-email"],
};

/** The message with the name of the option or argument, and the part of it that is wrong, such as `--label team`. */
export function withOptionName({ field, reason, message }: RefusedValue, command: Command): string {
  const parts = field.split(".");
  for (let length = parts.length; length > 0; length--) {
    const name = findOptionName(parts.slice(0, length).join("."), command);
    if (name === undefined) continue;
    // The index in a list was not typed by the user.
    const rest = parts.slice(length).filter((part) => !/^\d+$/.test(part));
    return `${[name, rest.join(".")].filter(Boolean).join(" ")}: ${reason}`;
  }
  return message;
}

function findOptionName(field: string, command: Command): string | undefined {
  const names = OPTION_NAMES[field] ?? [`--${field.replaceAll("_", "-")}`, `<${field}>`];
  // An option of a group may be written before or after its subcommand; options of the program belong to all commands.
  const group = command.parent?.parent ? command.parent.options : [];
  const options = [...command.options, ...group].filter(({ long }) => long !== undefined && names.includes(long));
  const used = options.find((option) => command.optsWithGlobals<Record<string, unknown>>()[option.attributeName()] !== undefined);
  return (
    used?.long ?? options[0]?.long ?? names.find((name) => command.registeredArguments.some((argument) => `<${argument.name()}>` === name))
  );
}
