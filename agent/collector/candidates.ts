// Which agents stand ready to collect for the cluster: a few, so that in a cluster of thousands the others hardly ask who does. Their names
// are an annotation of the Lease under which one collects. Invariants: there are never more than SLOTS; one that gives no sign of life
// loses its slot to another; who has none loses nothing but time, because the Lease alone decides who collects.
import type { Annotations } from "../identity/lease.ts";

/** `name=number name=number`: the number grows while the agent of that name lives. */
const ANNOTATION = "atherops.io/collection-candidates";
/** So many nodes less one may be lost together with the one that collects, and there is still one that is ready. */
export const SLOTS = 5;
export const SIGN_OF_LIFE_EVERY_MS = 30_000;
/** Judged by the agent that collects, and by its own clock. */
export const GONE_AFTER_MS = 120_000;

export type Slots = ReadonlyMap<string, number>;

export function slotsOf(annotations: Annotations): Slots {
  const entries = (annotations[ANNOTATION] ?? "").split(" ").map((entry) => /^([\w.-]{1,128})=(\d{1,15})$/.exec(entry));
  return new Map(entries.flatMap((match) => (match?.[1] && match[2] ? [[match[1], Number(match[2])] as const] : [])).slice(0, SLOTS));
}

export function annotationOf(slots: Slots): Annotations {
  return { [ANNOTATION]: [...slots].map(([name, count]) => `${name}=${count}`).join(" ") };
}

/** With a new sign of life of this one; as they are, where it has no slot and none is free. */
export function withCandidate(slots: Slots, name: string): Slots {
  const count = slots.get(name);
  return count === undefined && slots.size >= SLOTS ? slots : new Map([...slots, [name, (count ?? 0) + 1]]);
}

export function without(slots: Slots, names: readonly string[]): Slots {
  return new Map([...slots].filter(([name]) => !names.includes(name)));
}

/** What the agent that collects remembers of the others. */
export class SignsOfLife {
  readonly #seen = new Map<string, { count: number; atMs: number }>();

  /** Those that have given none for too long. `nowMs`: monotonic. */
  gone(slots: Slots, nowMs = performance.now()): string[] {
    for (const name of this.#seen.keys()) if (!slots.has(name)) this.#seen.delete(name);
    for (const [name, count] of slots) if (this.#seen.get(name)?.count !== count) this.#seen.set(name, { count, atMs: nowMs });
    return [...this.#seen].filter(([, { atMs }]) => nowMs - atMs > GONE_AFTER_MS).map(([name]) => name);
  }
}
