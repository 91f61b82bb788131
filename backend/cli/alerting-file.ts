// Reads the files of `atherops apply -f` and writes those of `atherops export`: YAML, with a list for each kind of resource, such as
// `rules:`. Plans the changes that make an organisation match its files. Invariants: a file with an unknown part is refused as a whole; an
// alias cannot make a small file large; planning changes nothing, and a resource that matches is not touched, so a second run does nothing.
import { readFileSync, statSync } from "node:fs";
import { text } from "node:stream/consumers";
import { parseAllDocuments, stringify } from "yaml";
import { Fields, isObject } from "./alerting-fields.ts";
import { Problem } from "./cli-error.ts";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "./client.ts";

/** A thousand rules take about 500 KiB. */
const MOST_BYTES = 8 * 1024 * 1024;

/** Section, such as `rules`, → its entries. Sections that no file contains are missing. */
export type Sections = Map<string, Fields[]>;

/** `-` is standard input. */
export async function textOf(file: string, stdin: NodeJS.ReadableStream): Promise<string> {
  if (file === "-") return await text(stdin);
  try {
    if (statSync(file).size > MOST_BYTES) throw new Problem(`${file}: is larger than ${MOST_BYTES} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(`${file}: cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** Adds the entries of a file to `sections`. `known`: the existing sections. Throws Problem. */
export function readSections(file: string, yaml: string, known: readonly string[], sections: Sections): void {
  const name = file === "-" ? "standard input" : file;
  for (const document of parseAllDocuments(yaml, { logLevel: "error" })) {
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong) throw new Problem(`${name}: ${wrong.message.split("\n")[0]?.replace(/:$/, "")}`);
    const content = valueOf(name, () => document.toJS({ maxAliasCount: 100 }) as unknown);
    if (content === null) continue;
    if (!isObject(content)) throw new Problem(`${name}: must have sections such as \`rules:\`, with a list in each`);
    for (const [section, entries] of Object.entries(content)) {
      if (!known.includes(section)) throw new Problem(`${name}: there is no section ${section}: there are ${known.join(", ")}`);
      if (entries !== null && !Array.isArray(entries)) throw new Problem(`${name}: ${section}: must be a list, each entry after a \`-\``);
      const read = (entries ?? []).map((entry: unknown, at) => new Fields(`${name}: ${section}[${at}]`, entry));
      sections.set(section, [...(sections.get(section) ?? []), ...read]);
    }
  }
}

/** Text with several lines becomes a block, and long lines are not broken. */
export function yamlOf(content: object): string {
  return stringify(content, { lineWidth: 0, blockQuote: "literal" });
}

function valueOf<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new Problem(`${name}: ${(error as Error).message}`);
  }
}

/** A resource in the form that files use. */
export type Resource = Readonly<Record<string, unknown>>;

/** A resource that the backend has. */
export interface Existing {
  readonly id: string;
  /** Identifies the resource in files. */
  readonly name: string;
  readonly resource: Resource;
}

/** A kind of resource: how it is read from a file, and stored in the backend. */
export interface Kind {
  /** The key of its list in a file, such as `rules`. */
  readonly section: string;
  /** Such as `rule`. */
  readonly noun: string;
  /** The section is the complete list, so resources that it lacks are removed. Those of other kinds are removed only with `--prune`. */
  readonly whole?: boolean;
  /** All fields, omitted ones with their default. Throws Problem. */
  read(fields: Fields): Resource;
  /** `at`: the resource's index in the section. */
  nameOf(resource: Resource, at: number): string;
  list(client: Client): Promise<Existing[]>;
  /** Why the backend would refuse it; undefined if it accepts it, or if the backend cannot validate it without storing it. */
  try?(client: Client, resource: Resource): Promise<string | undefined>;
  /** Returns a text that is shown only once, such as a secret. */
  create(client: Client, resource: Resource): Promise<string | undefined>;
  replace(client: Client, id: string, resource: Resource): Promise<void>;
  remove(client: Client, id: string): Promise<void>;
  /** Whether two values of a field mean the same, such as `5m` and `300s`. */
  same?(field: string, existing: unknown, wanted: unknown): boolean;
  /** Whether it is never removed. */
  stays?(name: string): boolean;
  /** Whether it is in the past, and is left alone. */
  isOver?(resource: Resource): boolean;
  /** A shorter form for files, without fields that have no effect. */
  exported?(resource: Resource): Resource;
}

export interface FieldChange {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

export type Change = {
  readonly kind: Kind;
  readonly name: string;
} & (
  | { readonly action: "create"; readonly resource: Resource }
  | { readonly action: "change"; readonly resource: Resource; readonly id: string; readonly fields: readonly FieldChange[] }
  | { readonly action: "remove"; readonly id: string }
  | { readonly action: "none" }
);

/** The changes in the order of execution. Throws Problem if a file names a resource twice. */
export function planOf(
  kind: Kind,
  wanted: readonly Fields[],
  existing: readonly Existing[],
  { prune }: { readonly prune: boolean },
): Change[] {
  const left = new Map(existing.map((one) => [one.name, one]));
  const seen = new Set<string>();
  const changes = wanted.map((fields, at): Change => {
    const resource = kind.read(fields);
    fields.end();
    const name = kind.nameOf(resource, at);
    if (seen.has(name)) throw new Problem(`${fields.where}: ${kind.noun} ${name} appears twice`);
    seen.add(name);
    const former = left.get(name);
    left.delete(name);
    if (kind.isOver?.(resource)) return { kind, name, action: "none" };
    if (!former) return { kind, name, action: "create", resource };
    const changed = changedFields(kind, former.resource, resource);
    return changed.length === 0
      ? { kind, name, action: "none" }
      : { kind, name, action: "change", resource, id: former.id, fields: changed };
  });
  if (!prune && !kind.whole) return changes;
  const gone = [...left.values()].filter(({ name }) => !kind.stays?.(name));
  return [...changes, ...gone.map(({ id, name }): Change => ({ kind, name, action: "remove", id }))];
}

function changedFields(kind: Kind, from: Resource, to: Resource): FieldChange[] {
  return Object.keys(to)
    .filter((field) => !isDeepStrictEqual(from[field], to[field]) && !kind.same?.(field, from[field], to[field]))
    .map((field) => ({ field, from: from[field], to: to[field] }));
}
