// One agent, the leader, collects for the whole cluster. This file decides how often the other agents read the leader's Lease, and which of
// them are candidates to replace it; an annotation of the Lease lists the candidates. Invariants: if the leader's node is lost, a candidate
// takes over within 30 seconds; agents that are not candidates poll rarely; there are at most SLOTS candidates; only the Lease decides which
// agent leads.
import type { Lease, LeaseView, Annotations } from "../identity/lease.ts";
import { spread } from "../../common/loop.ts";

/** Poll interval of a candidate. */
export const POLL_EVERY_MS = 3_000;
/** Poll interval of agents that are not candidates: starts at MIN_IDLE_POLL_MS and doubles with each poll, up to MAX_IDLE_POLL_MS. */
const MIN_IDLE_POLL_MS = 10_000;
export const MAX_IDLE_POLL_MS = 300_000;
/** Candidates poll this long after the Lease expires, at most; the first of them acquires it. */
export const JUST_AFTER_MS = 200;
/** If the Lease looks overdue by this much, poll again soon. This compares two machines' clocks, so use it only to schedule the poll. */
const LATE_MS = 5_000;
const LEAVE_WITHIN_MS = 2_000;

export class StandBy {
  readonly #lease: Pick<Lease, "annotate">;
  readonly #name: string;
  #isCandidate = false;
  #hasLed = false;
  #signedAt = -Infinity;
  #idlePollMs = MIN_IDLE_POLL_MS;
  #wasLate = false;

  /** `name` must be unique to the agent. It may contain letters, digits, `.`, `-` and `_`. */
  constructor(lease: Pick<Lease, "annotate">, name: string) {
    this.#lease = lease;
    this.#name = name;
  }

  /**
   * Call when this agent stops being the leader: until it finds another leader, it polls as often as a candidate. Otherwise, a single-node
   * cluster would have no agent that polls frequently.
   */
  afterTerm(): void {
    this.#hasLed = true;
    this.#idlePollMs = MIN_IDLE_POLL_MS;
  }

  /**
   * Call after a poll that found another leader: takes a free slot, or renews the slot of this agent. Returns the time until the next poll.
   */
  async afterPoll(view: LeaseView, signal: AbortSignal): Promise<number> {
    const slots = parseSlots(view.annotations);
    this.#hasLed = false;
    this.#isCandidate = slots.has(this.#name);
    const isDue = performance.now() - this.#signedAt > SIGN_OF_LIFE_EVERY_MS;
    if (this.#isCandidate ? isDue : slots.size < SLOTS) await this.#sign(signal);
    const untilFreeMs = view.freeInMs + Math.random() * JUST_AFTER_MS;
    if (this.#isCandidate) return Math.min(spread(POLL_EVERY_MS), untilFreeMs);
    const isLate = view.renewedAt !== undefined && Date.now() - view.renewedAt.getTime() > LATE_MS;
    // If the Lease looks late twice in a row, the clocks differ.
    this.#wasLate = isLate && !this.#wasLate;
    // Limited, so that a time which another client wrote into the Lease cannot stop the polling.
    return this.#wasLate ? Math.min(untilFreeMs, spread(MAX_IDLE_POLL_MS)) : this.#nextIdlePollMs();
  }

  /** Call after a poll that failed. Returns the time until the next poll. */
  afterFailure(): number {
    return this.#isCandidate || this.#hasLed ? spread(POLL_EVERY_MS) : this.#nextIdlePollMs();
  }

  /** Call when the agent stops: frees its slot immediately. */
  async leave(): Promise<void> {
    if (!this.#isCandidate) return;
    const signal = AbortSignal.timeout(LEAVE_WITHIN_MS);
    // The leader frees a slot whose number no longer increases.
    const removeOwn = (current: Annotations): Annotations => formatSlots(withoutCandidates(parseSlots(current), [this.#name]));
    await this.#lease.annotate(removeOwn, signal).catch(() => false);
  }

  #nextIdlePollMs(): number {
    const pollMs = this.#idlePollMs;
    this.#idlePollMs = Math.min(pollMs * 2, MAX_IDLE_POLL_MS);
    return spread(pollMs);
  }

  async #sign(signal: AbortSignal): Promise<void> {
    let hasSlot = false;
    const isWritten = await this.#lease.annotate((current) => {
      const slots = withCandidate(parseSlots(current), this.#name);
      hasSlot = slots.has(this.#name);
      return formatSlots(slots);
    }, signal);
    if (!isWritten || !hasSlot) return;
    this.#isCandidate = true;
    this.#signedAt = performance.now();
  }
}

/** Format: `name=number name=number`. The agent with this name increases the number while it runs. */
const ANNOTATION = "atherops.io/collection-candidates";
/** If the leader and up to SLOTS - 1 candidates are lost together, one candidate is still ready. */
export const SLOTS = 5;
const SIGN_OF_LIFE_EVERY_MS = 30_000;
/** If a candidate's number has not increased for this long, the leader frees its slot. The leader uses only its own clock. */
export const GONE_AFTER_MS = 120_000;

export type Slots = ReadonlyMap<string, number>;

export function parseSlots(annotations: Annotations): Slots {
  const entries = (annotations[ANNOTATION] ?? "").split(" ").map((entry) => /^([\w.-]{1,128})=(\d{1,15})$/.exec(entry));
  return new Map(entries.flatMap((match) => (match?.[1] && match[2] ? [[match[1], Number(match[2])] as const] : [])).slice(0, SLOTS));
}

export function formatSlots(slots: Slots): Annotations {
  return { [ANNOTATION]: [...slots].map(([name, count]) => `${name}=${count}`).join(" ") };
}

/** Adds a slot for this agent, or increases its number. Returns the slots unchanged if the agent has no slot and none is free. */
export function withCandidate(slots: Slots, name: string): Slots {
  const count = slots.get(name);
  return count === undefined && slots.size >= SLOTS ? slots : new Map([...slots, [name, (count ?? 0) + 1]]);
}

export function withoutCandidates(slots: Slots, names: readonly string[]): Slots {
  return new Map([...slots].filter(([name]) => !names.includes(name)));
}

/** Remembers, in the leader, when the number of each candidate last increased. */
export class SignsOfLife {
  readonly #seen = new Map<string, { count: number; atMs: number }>();

  /** Returns the candidates whose number has not increased for GONE_AFTER_MS. `nowMs`: monotonic. */
  gone(slots: Slots, nowMs = performance.now()): string[] {
    for (const name of this.#seen.keys()) if (!slots.has(name)) this.#seen.delete(name);
    for (const [name, count] of slots) if (this.#seen.get(name)?.count !== count) this.#seen.set(name, { count, atMs: nowMs });
    return [...this.#seen].filter(([, { atMs }]) => nowMs - atMs > GONE_AFTER_MS).map(([name]) => name);
  }
}
