// Errors of the admin client: each is printed as one sentence with advice, without a stack trace. A field that the API refuses is named as
// on the command line. Invariant: an option is named only if the command has it; if the refused value was not typed, such as a field of a
// file, the API's message is kept.
import type { Command } from "commander";

export class Problem extends Error {
  override readonly name: string = "Problem";
}

/** The arguments are wrong, and repeating the command does not help: exit code 2. */
export class WrongUsage extends Problem {
  override readonly name: string = "WrongUsage";
}

/** The backend refuses a value. The message names the field as the API does. */
export class RefusedValue extends WrongUsage {
  override readonly name = "RefusedValue";
  /** The field in the API, such as `logs.window`. */
  readonly field: string;
  /** The reason. */
  readonly words: string;

  constructor(field: string, words: string) {
    super(`${field}: ${words}`);
    this.field = field;
    this.words = words;
  }
}

/** Thrown if the backend does not have this resource. */
export class Missing extends Problem {
  override readonly name = "Missing";
}

/** The user interrupted the command before it was done. */
export class Interrupted extends Problem {
  override readonly name = "Interrupted";
}

/** A retry may succeed: the backend is unavailable or busy. */
export class PassingProblem extends Problem {
  override readonly name = "PassingProblem";
  readonly retryAfterS: number;

  constructor(message: string, { retryAfterS = 0, cause }: { retryAfterS?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.retryAfterS = retryAfterS;
  }
}

/** Fields of the API whose option or argument has another name. If there are several, the message names the one that was used. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
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

/** The refusal with the name of the option or argument, and the part of it that is wrong, such as `--label team`. */
export function asTyped({ field, words, message }: RefusedValue, command: Command): string {
  const parts = field.split(".");
  for (let length = parts.length; length > 0; length--) {
    const name = typedName(parts.slice(0, length).join("."), command);
    if (name === undefined) continue;
    // The index in a list was not typed by the user.
    const within = parts.slice(length).filter((part) => !/^\d+$/.test(part));
    return `${[name, within.join(".")].filter(Boolean).join(" ")}: ${words}`;
  }
  return message;
}

function typedName(field: string, command: Command): string | undefined {
  const names = NAMES[field] ?? [`--${field.replaceAll("_", "-")}`, `<${field}>`];
  // An option of a group may be written before or after its subcommand; options of the program belong to all commands.
  const group = command.parent?.parent ? command.parent.options : [];
  const options = [...command.options, ...group].filter(({ long }) => long !== undefined && names.includes(long));
  const given = options.find((option) => command.optsWithGlobals<Record<string, unknown>>()[option.attributeName()] !== undefined);
  return given?.long ?? options[0]?.long ?? names.find((name) => command.registeredArguments.some((one) => `<${one.name()}>` === name));
}
