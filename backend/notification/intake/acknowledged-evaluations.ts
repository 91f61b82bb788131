// Up to when the evaluator has sent all alerts that its evaluations found. Invariant: an evaluation counts once the evaluator has begun another of
// the same rule. It begins none before what the former found was posted, so an alert that was not posted by then is resolved.
export interface EvaluationTimes {
  /** When the last evaluation of each of these rules that is loaded began, -Infinity where it failed; rule → milliseconds. */
  evaluatedAt(orgId: string, ruleIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

/** Rule → start of its last evaluation whose alerts were all posted, in milliseconds. Infinity: it is no longer evaluated. */
export type EvaluatedUntil = (ruleId: string) => number;

interface Seen {
  readonly lastMs: number;
  readonly acknowledgedMs: number;
}

/** An organisation that waits is asked for once a minute at least. */
const KEPT_MS = 10 * 60_000;
/** After a failure: looks at organisations are one after the other, and each would wait for its time-out. */
const REST_MS = 10_000;

export class AcknowledgedEvaluations {
  readonly #evaluator: EvaluationTimes;
  readonly #nowMs: () => number;
  readonly #orgs = new Map<string, { readonly askedMs: number; readonly rules: ReadonlyMap<string, Seen> }>();
  #restUntilMs = Number.NEGATIVE_INFINITY;

  constructor(evaluator: EvaluationTimes, nowMs: () => number) {
    this.#evaluator = evaluator;
    this.#nowMs = nowMs;
  }

  /** Call it before the alerts are read, with exactly their rules. Undefined if the evaluator does not answer. */
  async of(orgId: string, ruleIds: readonly string[]): Promise<EvaluatedUntil | undefined> {
    const nowMs = this.#nowMs();
    for (const [id, { askedMs }] of this.#orgs) if (Math.abs(nowMs - askedMs) > KEPT_MS) this.#orgs.delete(id);
    if (nowMs < this.#restUntilMs) return undefined;
    try {
      const evaluated = await this.#evaluator.evaluatedAt(orgId, ruleIds);
      const rules = new Map([...evaluated].map(([ruleId, atMs]) => [ruleId, seen(this.#orgs.get(orgId)?.rules.get(ruleId), atMs)]));
      this.#orgs.set(orgId, { askedMs: nowMs, rules });
      const asked = new Set(ruleIds);
      return (ruleId) => rules.get(ruleId)?.acknowledgedMs ?? (asked.has(ruleId) ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY);
    } catch {
      // The watch says that it does not answer.
      this.#restUntilMs = nowMs + REST_MS;
      return undefined;
    }
  }
}

function seen(before: Seen | undefined, atMs: number): Seen {
  if (before === undefined) return { lastMs: atMs, acknowledgedMs: Number.NEGATIVE_INFINITY };
  return before.lastMs === atMs ? before : { lastMs: atMs, acknowledgedMs: before.lastMs };
}
