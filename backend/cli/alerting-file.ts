// Reads the files of `atherops apply -f` and writes those of `atherops export`: YAML, with a list for each kind of resource, such as
// `rules:`. Plans the changes that make an organisation match its files. Invariants: a file with an unknown part is refused as a whole; an
// alias cannot make a small file large; planning changes nothing, and a resource that matches is not touched, so a second run does nothing.
import { type Document, parseAllDocuments, stringify } from "yaml";
import { Fields, isObject } from "./alerting-fields.ts";
import { Problem } from "./cli-error.ts";
import { isDeepStrictEqual } from "node:util";
import type { Client } from "./api-client.ts";
import type { Row } from "./text-table.ts";

/** Section, such as `rules`, → its entries. */
export type Sections = Map<string, Fields[]>;

/** Documents of another format in the same files, such as OpenSLO. */
export interface OtherDocuments {
  accepts(document: unknown): boolean;
  /** All such documents of a file. Throws Problem. */
  read(file: string, documents: readonly unknown[]): Fields[];
}

/** Adds the entries of a file to `sections`. Throws Problem. */
export function readSections(file: string, yaml: string, kinds: readonly Pick<Kind, "section" | "documents">[], sections: Sections): void {
  const name = file === "-" ? "standard input" : file;
  const known = kinds.map(({ section }) => section);
  const add = (section: string, entries: readonly Fields[]): void =>
    void sections.set(section, [...(sections.get(section) ?? []), ...entries]);
  const others = new Map<Pick<Kind, "section" | "documents">, unknown[]>();
  for (const document of parseAllDocuments(yaml, { logLevel: "error" })) {
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong) throw new Problem(`${name}: ${wrong.message.split("\n")[0]?.replace(/:$/, "")}`);
    const content = toJs(name, document);
    if (content === null) continue;
    const other = kinds.find(({ documents }) => documents?.accepts(content));
    if (other) {
      others.set(other, [...(others.get(other) ?? []), content]);
      continue;
    }
    if (!isObject(content)) throw new Problem(`${name}: must have sections such as \`rules:\`, with a list in each`);
    for (const [section, entries] of Object.entries(content)) {
      if (!known.includes(section)) throw new Problem(`${name}: unknown section ${section}: known sections are ${known.join(", ")}`);
      if (entries !== null && !Array.isArray(entries)) throw new Problem(`${name}: ${section}: must be a list, each entry after a \`-\``);
      const read = (entries ?? []).map((entry: unknown, at) => new Fields(`${name}: ${section}[${at}]`, entry));
      add(section, read);
    }
  }
  for (const [{ section, documents }, found] of others) add(section, documents?.read(name, found) ?? []);
}

function toJs(name: string, document: Document.Parsed): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    throw new Problem(`${name}: ${(error as Error).message}`);
  }
}

/** Text with several lines becomes a block, and long lines are not broken. */
export function formatYaml(content: object): string {
  return stringify(content, { lineWidth: 0, blockQuote: "literal" });
}

/** A resource in the form that files use. */
export type Resource = Readonly<Record<string, unknown>>;

/** A resource that the backend has. */
export interface Existing {
  readonly id: string;
  /** Identifies the resource in files. */
  readonly name: string;
  readonly resource: Resource;
  /** Such as a rule of a service level objective: files neither contain nor change it. */
  readonly isGenerated?: boolean;
}

/** A kind of resource: how it is read from a file, and stored in the backend. */
export interface Kind {
  /** The key of its list in a file, such as `rules`. */
  readonly section: string;
  readonly noun: string;
  /** The section is the complete list: resources that it lacks are removed. Otherwise, this requires `--prune`. */
  readonly isCompleteList?: boolean;
  /** All fields, omitted ones with their default. Throws Problem. */
  read(fields: Fields): Resource;
  /** `at`: the resource's index in the section. */
  nameOf(resource: Resource, at: number): string;
  list(client: Client): Promise<Existing[]>;
  /** Returns why the backend would reject the resource; undefined if it is valid. Missing if the backend cannot validate without storing. */
  validate?(client: Client, resource: Resource): Promise<string | undefined>;
  /** Returns the created resource in the API's form. */
  create(client: Client, resource: Resource): Promise<Row>;
  replace(client: Client, id: string, resource: Resource): Promise<void>;
  remove(client: Client, id: string): Promise<void>;
  readonly documents?: OtherDocuments;
  /** Whether two values of a field mean the same, such as `5m` and `300s`. */
  isSame?(field: string, existing: unknown, desired: unknown): boolean;
  /** Whether the resource with this name cannot be removed. */
  isPermanent?(name: string): boolean;
  /** Whether the resource has expired, so that it is not created again. */
  isExpired?(resource: Resource): boolean;
  /** Returns the resource in the form for files, without fields that have no effect. */
  toFile?(resource: Resource): Resource;
}

/** Calls of the API that stores the resources at `path`. `toBody` converts a resource to the API's form. */
export function storedAt(
  path: string,
  toBody: (client: Client, resource: Resource) => Promise<object> | object = (_client, resource) => resource,
): Pick<Kind, "create" | "replace" | "remove"> {
  return {
    create: async (client, resource) => await client.call("POST", path, { body: await toBody(client, resource) }),
    replace: async (client, id, resource) => await client.call("PUT", `${path}/${id}`, { body: await toBody(client, resource) }),
    remove: async (client, id) => await client.call("DELETE", `${path}/${id}`),
  };
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
export function planChanges(
  kind: Kind,
  desired: readonly Fields[],
  existing: readonly Existing[],
  { prune }: { readonly prune: boolean },
): Change[] {
  const unplanned = new Map(existing.filter(({ isGenerated }) => !isGenerated).map((entry) => [entry.name, entry]));
  const seen = new Set<string>();
  const changes = desired.map((fields, at): Change => {
    const resource = kind.read(fields);
    fields.end();
    const name = kind.nameOf(resource, at);
    if (seen.has(name)) throw new Problem(`${fields.where}: ${kind.noun} ${name} appears twice`);
    seen.add(name);
    const current = unplanned.get(name);
    unplanned.delete(name);
    if (kind.isExpired?.(resource)) return { kind, name, action: "none" };
    if (!current) return { kind, name, action: "create", resource };
    const changed = changedFields(kind, current.resource, resource);
    return changed.length === 0
      ? { kind, name, action: "none" }
      : { kind, name, action: "change", resource, id: current.id, fields: changed };
  });
  if (!prune && !kind.isCompleteList) return changes;
  const removed = [...unplanned.values()].filter(({ name }) => !kind.isPermanent?.(name));
  return [...changes, ...removed.map(({ id, name }): Change => ({ kind, name, action: "remove", id }))];
}

function changedFields(kind: Kind, from: Resource, to: Resource): FieldChange[] {
  return Object.keys(to)
    .filter((field) => !isDeepStrictEqual(from[field], to[field]) && !kind.isSame?.(field, from[field], to[field]))
    .map((field) => ({ field, from: from[field], to: to[field] }));
}
