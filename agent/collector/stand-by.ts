// Decides how often an agent that does not collect for the cluster reads the Lease of the one that does, and which agents are candidates to
// replace it; candidates are listed in an annotation of the Lease. Invariants: a lost node is replaced within half a minute; all other
// agents together cause little load on the API server; there are at most SLOTS candidates, and only the Lease decides which agent collects.
import type { Lease, LeaseView, Annotations } from "../identity/lease.ts";
import { spread } from "../../common/loop.ts";

/** Poll interval of a candidate. */
export const POLL_EVERY_MS = 3_000;
/** Poll interval of other agents: doubled from FIRST_REST_MS up to LONGEST_REST_MS. */
const FIRST_REST_MS = 10_000;
export const LONGEST_REST_MS = 300_000;
/** A Lease can be taken just after it expires; of several waiting agents, one is first. */
export const JUST_AFTER_MS = 200;
/**
 * If the Lease has not been renewed for so long, comparing two clocks that may differ, the next poll is soon; nothing else follows from it.
 */
const LATE_MS = 5_000;
const LEAVE_WITHIN_MS = 2_000;

export class StandBy {
  readonly #lease: Pick<Lease, "annotate">;
  readonly #name: string;
  #isCandidate = false;
  #hasLed = false;
  #signedAt = -Infinity;
  #restMs = FIRST_REST_MS;
  #wasLate = false;

  /** `name`: unique to the agent; may contain letters, digits, `.`, `-` and `_`. */
  constructor(lease: Pick<Lease, "annotate">, name: string) {
    this.#lease = lease;
    this.#name = name;
  }

  /** Call after a term: until this agent finds another leader, it polls as often as a candidate. On a single node, no other agent would. */
  afterTerm(): void {
    this.#hasLed = true;
    this.#restMs = FIRST_REST_MS;
  }

  /** After a poll that found another agent's Lease: takes a free slot and renews it. Returns how long to wait for the next poll. */
  async afterPoll(view: LeaseView, signal: AbortSignal): Promise<number> {
    const slots = slotsOf(view.annotations);
    this.#hasLed = false;
    this.#isCandidate = slots.has(this.#name);
    const isDue = performance.now() - this.#signedAt > SIGN_OF_LIFE_EVERY_MS;
    if (this.#isCandidate ? isDue : slots.size < SLOTS) await this.#sign(signal);
    const untilFreeMs = view.freeInMs + Math.random() * JUST_AFTER_MS;
    if (this.#isCandidate) return Math.min(spread(POLL_EVERY_MS), untilFreeMs);
    const isLate = view.renewedAt !== undefined && Date.now() - view.renewedAt.getTime() > LATE_MS;
    // If it is late twice in a row, the clocks differ.
    this.#wasLate = isLate && !this.#wasLate;
    // A time that another client wrote into the Lease cannot stop the polling.
    return this.#wasLate ? Math.min(untilFreeMs, spread(LONGEST_REST_MS)) : this.#rest();
  }

  /** After a poll that failed. */
  afterFailure(): number {
    return this.#isCandidate || this.#hasLed ? spread(POLL_EVERY_MS) : this.#rest();
  }

  /** Call when the agent stops: its slot is free at once. */
  async leave(): Promise<void> {
    if (!this.#isCandidate) return;
    const signal = AbortSignal.timeout(LEAVE_WITHIN_MS);
    // Safe: a slot without a sign of life expires.
    await this.#lease.annotate((present) => annotationOf(without(slotsOf(present), [this.#name])), signal).catch(() => false);
  }

  #rest(): number {
    const restMs = this.#restMs;
    this.#restMs = Math.min(restMs * 2, LONGEST_REST_MS);
    return spread(restMs);
  }

  async #sign(signal: AbortSignal): Promise<void> {
    let hasSlot = false;
    const isWritten = await this.#lease.annotate((present) => {
      const slots = withCandidate(slotsOf(present), this.#name);
      hasSlot = slots.has(this.#name);
      return annotationOf(slots);
    }, signal);
    if (!isWritten || !hasSlot) return;
    this.#isCandidate = true;
    this.#signedAt = performance.now();
  }
}

/** `name=number name=number`: the number increases while the agent of that name runs. */
const ANNOTATION = "atherops.io/collection-candidates";
/** Up to SLOTS - 1 candidates may be lost together with the leader, and one is still ready. */
export const SLOTS = 5;
export const SIGN_OF_LIFE_EVERY_MS = 30_000;
/** Decided by the agent that collects, by its own clock. */
export const GONE_AFTER_MS = 120_000;

export type Slots = ReadonlyMap<string, number>;

export function slotsOf(annotations: Annotations): Slots {
  const entries = (annotations[ANNOTATION] ?? "").split(" ").map((entry) => /^([\w.-]{1,128})=(\d{1,15})$/.exec(entry));
  return new Map(entries.flatMap((match) => (match?.[1] && match[2] ? [[match[1], Number(match[2])] as const] : [])).slice(0, SLOTS));
}

export function annotationOf(slots: Slots): Annotations {
  return { [ANNOTATION]: [...slots].map(([name, count]) => `${name}=${count}`).join(" ") };
}

/** Adds this agent's slot or updates its sign of life; unchanged if it has no slot and none is free. */
export function withCandidate(slots: Slots, name: string): Slots {
  const count = slots.get(name);
  return count === undefined && slots.size >= SLOTS ? slots : new Map([...slots, [name, (count ?? 0) + 1]]);
}

export function without(slots: Slots, names: readonly string[]): Slots {
  return new Map([...slots].filter(([name]) => !names.includes(name)));
}

/** Signs of life of the other agents, as the collecting agent remembers them. */
export class SignsOfLife {
  readonly #seen = new Map<string, { count: number; atMs: number }>();

  /** Agents without a sign of life for too long. `nowMs`: monotonic. */
  gone(slots: Slots, nowMs = performance.now()): string[] {
    for (const name of this.#seen.keys()) if (!slots.has(name)) this.#seen.delete(name);
    for (const [name, count] of slots) if (this.#seen.get(name)?.count !== count) this.#seen.set(name, { count, atMs: nowMs });
    return [...this.#seen].filter(([, { atMs }]) => nowMs - atMs > GONE_AFTER_MS).map(([name]) => name);
  }
}
