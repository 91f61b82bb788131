// What has to be done so that an organisation has what its files say. Invariant: planning changes nothing; what is as it should be is left
// alone, so that a second time does nothing.
import { isDeepStrictEqual } from "node:util";
import type { Fields } from "./alerting-fields.ts";
import type { Client } from "./client.ts";
import { Problem } from "./cli-error.ts";

/** A thing as a file says it. */
export type Thing = Readonly<Record<string, unknown>>;

/** A thing that the backend has. */
export interface Existing {
  readonly id: string;
  /** As people call it; what a file's thing is compared with. */
  readonly name: string;
  readonly thing: Thing;
}

/** One kind of thing: how it is read from a file, and kept in the backend. */
export interface Kind {
  /** Of a file, such as `rules`. */
  readonly section: string;
  /** Such as `rule`. */
  readonly noun: string;
  /** The section is all there is of it: what is not in it is removed. Else only `--prune` does. */
  readonly whole?: boolean;
  /** All fields, those left out with what they mean. Throws Problem. */
  read(fields: Fields): Thing;
  /** `at`: which one of its section. */
  nameOf(thing: Thing, at: number): string;
  list(client: Client): Promise<Existing[]>;
  /** Why the backend would refuse it; undefined: it accepts it, or cannot know before. */
  try?(client: Client, thing: Thing): Promise<string | undefined>;
  /** Answers what is shown this once. */
  create(client: Client, thing: Thing): Promise<string | undefined>;
  replace(client: Client, id: string, thing: Thing): Promise<void>;
  remove(client: Client, id: string): Promise<void>;
  /** Two texts of a field that mean the same, such as `5m` and `300s`. */
  same?(field: string, existing: unknown, wanted: unknown): boolean;
  /** What is never removed. */
  stays?(name: string): boolean;
  /** What is past, and is left alone. */
  isOver?(thing: Thing): boolean;
  /** As a file says it, shorter. */
  exported?(thing: Thing): Thing;
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
  | { readonly action: "create"; readonly thing: Thing }
  | { readonly action: "change"; readonly thing: Thing; readonly id: string; readonly fields: readonly FieldChange[] }
  | { readonly action: "remove"; readonly id: string }
  | { readonly action: "none" }
);

/** In the order in which it is to be done. Throws Problem where a file names a thing twice. */
export function planOf(
  kind: Kind,
  wanted: readonly Fields[],
  existing: readonly Existing[],
  { prune }: { readonly prune: boolean },
): Change[] {
  const left = new Map(existing.map((one) => [one.name, one]));
  const seen = new Set<string>();
  const changes = wanted.map((fields, at): Change => {
    const thing = kind.read(fields);
    fields.end();
    const name = kind.nameOf(thing, at);
    if (seen.has(name)) throw new Problem(`${fields.where}: ${kind.noun} ${name} appears twice`);
    seen.add(name);
    const former = left.get(name);
    left.delete(name);
    if (kind.isOver?.(thing)) return { kind, name, action: "none" };
    if (!former) return { kind, name, action: "create", thing };
    const changed = changedFields(kind, former.thing, thing);
    return changed.length === 0 ? { kind, name, action: "none" } : { kind, name, action: "change", thing, id: former.id, fields: changed };
  });
  if (!prune && !kind.whole) return changes;
  const gone = [...left.values()].filter(({ name }) => !kind.stays?.(name));
  return [...changes, ...gone.map(({ id, name }): Change => ({ kind, name, action: "remove", id }))];
}

function changedFields(kind: Kind, from: Thing, to: Thing): FieldChange[] {
  return Object.keys(to)
    .filter((field) => !isDeepStrictEqual(from[field], to[field]) && !kind.same?.(field, from[field], to[field]))
    .map((field) => ({ field, from: from[field], to: to[field] }));
}
