// Reads settings from environment variables: the kinds that both programs have, their bounds, and the messages about what is wrong.
// X_FILE reads X from a file. Invariant: every problem names its variable, and `finish` reports all of them at once.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { durationWanted, durationWithin } from "./duration.ts";
import { bareHost } from "./host-name.ts";

/** Wrong settings: one line per problem. Printed without a stack; the process ends with 2. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

export interface ListenAddress {
  /** Empty: all addresses. */
  readonly host: string;
  readonly port: number;
}

export class SettingsReader {
  readonly #env: NodeJS.ProcessEnv;
  readonly #problems: string[] = [];

  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
  }

  problem(text: string): void {
    this.#problems.push(text);
  }

  /** Throws SettingsError if there was any problem. */
  finish(): void {
    if (this.#problems.length > 0) throw new SettingsError(`wrong settings:\n${this.#problems.map((text) => `  ${text}`).join("\n")}`);
  }

  /** The variable as it is, without X_FILE. */
  plain(name: string): string | undefined {
    return this.#env[name] || undefined;
  }

  /** `mayBeGone`: the file of X_FILE need not exist. */
  text(name: string, { mayBeGone = false } = {}): string | undefined {
    const file = this.plain(`${name}_FILE`);
    const own = this.plain(name);
    if (name.endsWith("_FILE") || file === undefined) return own;
    if (own) this.problem(`${name} and ${name}_FILE are both set: set one`);
    try {
      return readFileSync(file, "utf8").replace(/\r?\n$/, "") || undefined;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!(mayBeGone && code === "ENOENT")) this.problem(`${name}_FILE: cannot read ${file}: ${code}`);
      return undefined;
    }
  }

  required(name: string): string {
    const text = this.text(name);
    if (text === undefined) this.problem(`${name} is required`);
    return text ?? "";
  }

  /** Comma-separated. */
  list(name: string): string[] {
    return (this.text(name) ?? "")
      .split(",")
      .map((item) => item.trim())
      .filter(Boolean);
  }

  flag(name: string): boolean {
    const text = this.text(name) ?? "false";
    if (text !== "true" && text !== "false") this.problem(`${name}: must be true or false`);
    return text === "true";
  }

  integer(name: string, fallback: number, minimum: number): number {
    const value = Number(this.text(name) ?? fallback);
    if (!Number.isSafeInteger(value) || value < minimum) this.problem(`${name}: must be a whole number of at least ${minimum}`);
    return value;
  }

  /** In milliseconds. */
  duration(name: string, fallback: string, minimumMs: number): number {
    const text = this.text(name) ?? fallback;
    const ms = durationWithin(text, { minMs: minimumMs });
    if (ms === undefined) this.problem(`${name}: "${text}" is not ${durationWanted({ minMs: minimumMs }, "15s or 5m")}`);
    return ms ?? 0;
  }

  /** The first value is the default. */
  oneOf<const T extends string>(name: string, values: readonly [T, ...T[]]): T {
    const text = this.text(name) ?? values[0];
    const found = values.find((value) => value === text);
    if (found === undefined) this.problem(`${name}: must be one of ${values.join(", ")}`);
    return found ?? values[0];
  }

  listen(name: string, fallback: string): ListenAddress {
    const text = this.text(name) ?? fallback;
    const match = /^(\[[0-9a-fA-F:]+\]|[^:]*):(\d{1,5})$/.exec(text);
    const port = Number(match?.[2]);
    if (!match || port > 65_535) this.problem(`${name}: "${text}" is not host:port`);
    return { host: bareHost(match?.[1] ?? ""), port };
  }

  /** Lower case wins, as in curl. */
  eitherCase(name: string): string | undefined {
    return this.plain(name.toLowerCase()) ?? this.text(name);
  }

  /** The port is that of the scheme where none is given. */
  proxyUrl(name: string): string | undefined {
    const text = this.eitherCase(name);
    if (text === undefined) return undefined;
    const url = URL.parse(text);
    if (!url || !/^https?:$/.test(url.protocol)) this.problem(`${name}: not an http or https URL`);
    else if (!isEncoded(url.username) || !isEncoded(url.password))
      this.problem(`${name}: a % in user or password must be written as %25 (percent-encoding)`);
    return text;
  }

  /** The absolute path of a file that can be read now. */
  readableFile(name: string): string | undefined {
    const path = this.text(name);
    if (path === undefined) return undefined;
    try {
      readFileSync(path);
    } catch (error) {
      this.problem(`${name}: cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
    }
    return resolve(path);
  }
}

export function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
