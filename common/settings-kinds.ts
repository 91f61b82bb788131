// Kinds of settings that both programs have. Each parses the text of a variable, and reports what to write instead of a wrong value.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { durationWanted, durationWithin } from "./duration.ts";
import { bareHost } from "./ip-networks.ts";
import type { Kind, Report, SettingsReader } from "./settings-table.ts";

export interface ListenAddress {
  /** Empty: all addresses. */
  readonly host: string;
  readonly port: number;
}

export const text: Kind<string> = { type: "text", parse: (value) => value };

/** Converted to an absolute path. */
export const path: Kind<string> = { type: "path", parse: (value) => resolve(value) };

/** The absolute path of a file that can be read now. */
export const file: Kind<string> = {
  type: "file",
  parse: (value, report) => {
    try {
      readFileSync(value);
    } catch (error) {
      report(`cannot read ${value}: ${(error as NodeJS.ErrnoException).code}`);
    }
    return resolve(value);
  },
};

export const list: Kind<string[]> = { type: "comma-separated list", parse: (value) => splitList(value) };

/** Validates every item; `problemOf` returns the problem of an item. */
export function checkedList(type: string, problemOf: (item: string) => string | undefined): Kind<string[]> {
  return {
    type,
    parse: (value, report) => {
      const items = splitList(value);
      for (const problem of items.map(problemOf)) if (problem !== undefined) report(problem);
      return items;
    },
  };
}

export function splitList(value: string, separator = ","): string[] {
  return value
    .split(separator)
    .map((item) => item.trim())
    .filter(Boolean);
}

export const flag: Kind<boolean> = {
  type: "boolean",
  range: { values: ["true", "false"] },
  parse: (value, report) => {
    if (value !== "true" && value !== "false") report("must be true or false");
    return value === "true";
  },
};

export function integer(range: { readonly min: number; readonly max?: number }): Kind<number> {
  const { min, max = Number.MAX_SAFE_INTEGER } = range;
  const wanted = range.max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  return {
    type: "integer",
    range,
    parse: (value, report) => {
      const count = Number(value);
      if (!Number.isSafeInteger(count) || count < min || count > max) report(`must be a whole number ${wanted}`);
      return count;
    },
  };
}

/** In milliseconds. */
export function duration(range: { readonly min: number; readonly max?: number }): Kind<number> {
  const bounds = { minMs: range.min, maxMs: range.max ?? Infinity };
  return {
    type: "duration",
    range,
    parse: (value, report) => {
      const ms = durationWithin(value, bounds);
      if (ms === undefined) report(`"${value}" is not ${durationWanted(bounds, "15s or 5m")}`);
      return ms ?? 0;
    },
  };
}

export function oneOf<const T extends string>(values: readonly [T, ...T[]]): Kind<T> {
  return {
    type: "word",
    range: { values },
    parse: (value, report) => {
      const found = values.find((word) => word === value);
      if (found === undefined) report(`must be one of ${values.join(", ")}`);
      return found ?? values[0];
    },
  };
}

/** `hostForAll`: the host of an address without one. */
export function listen(hostForAll = ""): Kind<ListenAddress> {
  return {
    type: "host:port",
    parse: (value, report) => {
      const match = /^(\[[0-9a-fA-F:]+\]|[^:]*):(\d{1,5})$/.exec(value);
      const port = Number(match?.[2]);
      if (!match || port > 65_535) report(`"${value}" is not host:port`);
      return { host: bareHost(match?.[1] ?? "") || hostForAll, port };
    },
  };
}

/** The default port is that of the scheme. */
export const proxyUrl: Kind<string> = {
  type: "URL",
  parse: (value, report) => {
    const parsed = URL.parse(value);
    if (!parsed || !/^https?:$/.test(parsed.protocol)) report("not an http or https URL");
    else reportUnencoded(parsed, report);
    return value;
  },
};

export function reportUnencoded({ username, password }: URL, report: Report): void {
  if (!isEncoded(username) || !isEncoded(password)) report("a % in user or password must be written as %25 (percent-encoding)");
}

function isEncoded(value: string): boolean {
  try {
    decodeURIComponent(value);
    return true;
  } catch {
    return false;
  }
}

/**
 * Where hack/fetch-tools.ts caches this version of a program: `<version>`, or the newest `<version>-<edition>` of a program that is built
 * here.
 */
export function cachedProgram(reader: SettingsReader, name: string, version: string): string {
  const folder = join(reader.plain("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "atherops", "tools", name);
  const editions = readFolder(folder).filter((entry) => entry === version || entry.startsWith(`${version}-`));
  const [newest = version] = editions
    .map((edition) => ({ edition, atMs: statSync(join(folder, edition, name), { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.atMs - a.atMs)
    .map(({ edition }) => edition);
  return join(folder, newest, name);
}

/** Empty if there is none. */
function readFolder(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
