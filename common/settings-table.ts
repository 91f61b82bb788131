// Defines settings as data. Each program has one table of environment variables, from which its reader, its types, `--help`, the reference
// page and the test of chart values are generated. Invariant: every problem names its variable, and `finish` reports all problems at once.
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Settings are wrong: one line per problem. Printed without a stack trace; the process exits with 2. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

/** Reports a problem of a value; the name of the variable is added. */
export type Report = (problem: string) => void;

/** Parser for a variable's text. */
export interface Kind<Value> {
  /** Shown on the reference page, for example `duration`. */
  readonly type: string;
  readonly range?: Range;
  readonly parse: (text: string, report: Report) => Value;
}

/** Limits of a number, or of a duration in milliseconds; or the accepted words. */
export interface Range {
  readonly min?: number;
  /** The value must be greater. */
  readonly above?: number;
  readonly max?: number;
  readonly values?: readonly string[];
}

export interface SettingOptions {
  /** As an operator would write it, or one per profile of the program. Without it, the variable is optional. */
  readonly default?: string | Readonly<Record<string, string>>;
  readonly isRequired?: boolean;
  /** Never logged; returned by `readSecrets`. */
  readonly isSecret?: boolean;
  readonly unit?: string;
  readonly description: string;
  /** The value of the Helm chart that sets the variable, for example `quota.bytesPerSecond`. */
  readonly value?: string;
  /** The chart's default, if it differs on purpose. */
  readonly valueDefault?: string;
  /** The file that X_FILE names may be missing. */
  readonly mayBeGone?: boolean;
  /** Also read in lower case, which takes precedence, as in curl. */
  readonly isEitherCase?: boolean;
}

export interface Setting<Value = unknown, IsSecret extends boolean = boolean> extends SettingOptions {
  readonly name: string;
  readonly kind: Kind<unknown>;
  readonly isSecret: IsSecret;
  readonly group: string;
  /** Exists only as a type. */
  readonly valueType?: Value;
}

/** Maps fields of the program's settings to variables. */
export type Table = Readonly<Record<string, Setting>>;
type Fields<T extends Table, IsSecret extends boolean> = {
  readonly [Name in keyof T as T[Name] extends Setting<unknown, IsSecret> ? Name : never]: T[Name] extends Setting<infer Value>
    ? Value
    : never;
};
/** The settings that may be logged. */
export type PlainOf<T extends Table> = Fields<T, false>;
export type SecretsOf<T extends Table> = Fields<T, true>;

type ValueOf<Value, O> = O extends { default: unknown } | { isRequired: true } ? Value : Value | undefined;
type SecrecyOf<O> = O extends { isSecret: true } ? true : false;

export function setting<Value, const O extends SettingOptions>(
  name: string,
  kind: Kind<Value>,
  options: O,
): Setting<ValueOf<Value, O>, SecrecyOf<O>> {
  return { ...options, name, kind, group: "", isSecret: (options.isSecret ?? false) as SecrecyOf<O> };
}

/** The settings under one heading of the reference page. */
export function group<T extends Table>(title: string, table: T): T {
  return Object.fromEntries(Object.entries(table).map(([field, row]) => [field, { ...row, group: title }])) as T;
}

/** The default for a profile; undefined if there is none. */
function defaultOf(row: Setting, profile: string): string | undefined {
  return typeof row.default === "object" ? row.default[profile] : row.default;
}

/** The list for `--help`: each variable with its default. */
export function settingsHelp(table: Table, profile = ""): string {
  const rows = Object.values(table);
  const width = Math.max(...rows.map(({ name }) => name.length));
  const lines = [...new Set(rows.map((row) => row.group))].map((title) => {
    const inGroup = rows.filter((row) => row.group === title);
    return `${title}\n${inGroup.map((row) => `  ${row.name.padEnd(width)}  ${defaultText(row, profile)}`.trimEnd()).join("\n")}`;
  });
  return `Settings, read from the environment (X_FILE reads X from a file), with their defaults:\n\n${lines.join("\n\n")}\n`;
}

function defaultText(row: Setting, profile: string): string {
  return row.isRequired ? "(required)" : (defaultOf(row, profile) ?? "");
}

export class SettingsReader {
  readonly #env: NodeJS.ProcessEnv;
  readonly #profile: string;
  readonly #secretsFolder: string | undefined;
  readonly #problems: string[] = [];

  /** `profile` selects the defaults. `secretsFolder` contains a file for each secret that is not in the environment. */
  constructor(env: NodeJS.ProcessEnv, profile = "", secretsFolder?: string) {
    this.#env = env;
    this.#profile = profile;
    this.#secretsFolder = secretsFolder;
  }

  problem(text: string): void {
    this.#problems.push(text);
  }

  /** Throws SettingsError if there was any problem. */
  finish(): void {
    if (this.#problems.length > 0) throw new SettingsError(`wrong settings:\n${this.#problems.map((text) => `  ${text}`).join("\n")}`);
  }

  readPlain<T extends Table>(table: T): PlainOf<T> {
    return this.#readAll(table, false) as PlainOf<T>;
  }

  readSecrets<T extends Table>(table: T): SecretsOf<T> {
    return this.#readAll(table, true) as SecretsOf<T>;
  }

  read<Value>(row: Setting<Value>): Value {
    const lowerCase = row.isEitherCase ? this.plain(row.name.toLowerCase()) : undefined;
    const text = lowerCase ?? this.#text(row) ?? defaultOf(row, this.#profile);
    if (text !== undefined) return row.kind.parse(text, (problem) => this.problem(`${row.name}: ${problem}`)) as Value;
    if (row.isRequired) this.problem(`${row.name} is required`);
    // A missing required value is empty until `finish` throws.
    return (row.isRequired ? "" : undefined) as Value;
  }

  /** The variable itself, without X_FILE. */
  plain(name: string): string | undefined {
    return this.#env[name] || undefined;
  }

  #readAll(table: Table, isSecret: boolean): Record<string, unknown> {
    const rows = Object.entries(table).filter(([, row]) => row.isSecret === isSecret);
    return Object.fromEntries(rows.map(([field, row]) => [field, this.read(row)]));
  }

  #text({ name, mayBeGone = false, isSecret }: Setting): string | undefined {
    const file = this.plain(`${name}_FILE`);
    const value = this.plain(name);
    if (name.endsWith("_FILE")) return value;
    if (file !== undefined && value) this.problem(`${name} and ${name}_FILE are both set: set one`);
    if (file !== undefined) return this.#fileText(`${name}_FILE`, file, mayBeGone);
    const folder = isSecret ? this.#secretsFolder : undefined;
    return value ?? (folder && this.#fileText("SECRETS_FOLDER", join(folder, name), true));
  }

  #fileText(variable: string, file: string, mayBeGone: boolean): string | undefined {
    try {
      return readFileSync(file, "utf8").replace(/\r?\n$/, "") || undefined;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!(mayBeGone && code === "ENOENT")) this.problem(`${variable}: cannot read ${file}: ${code}`);
      return undefined;
    }
  }
}
