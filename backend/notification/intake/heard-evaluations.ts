// Up to when the evaluator has told all that its evaluations found. Invariant: an evaluation counts once the evaluator has begun another of
// the same rule. It begins none before what the former found was posted, so whoever did not hear of an alert then knows that it is over.
export interface EvaluationTimes {
  /** When the last evaluation of each of these rules that is loaded began, -Infinity where it failed; rule → milliseconds. */
  evaluatedAt(orgId: string, ruleIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

/** Rule → when its last evaluation began that has told everything, in milliseconds. Infinity: nobody evaluates it any more. */
export type HeardUntil = (ruleId: string) => number;

interface Seen {
  readonly lastMs: number;
  readonly heardMs: number;
}

/** An organisation that waits is asked for once a minute at least. */
const KEPT_MS = 10 * 60_000;
/** After a failure: looks at organisations are one after the other, and each would wait for its time-out. */
const REST_MS = 10_000;

export class HeardEvaluations {
  readonly #evaluator: EvaluationTimes;
  readonly #nowMs: () => number;
  readonly #orgs = new Map<string, { readonly askedMs: number; readonly rules: ReadonlyMap<string, Seen> }>();
  #restUntilMs = Number.NEGATIVE_INFINITY;

  constructor(evaluator: EvaluationTimes, nowMs: () => number) {
    this.#evaluator = evaluator;
    this.#nowMs = nowMs;
  }

  /** To be asked before the alerts are read, of these rules and no others. Undefined where the evaluator does not answer: then nobody knows. */
  async of(orgId: string, ruleIds: readonly string[]): Promise<HeardUntil | undefined> {
    const nowMs = this.#nowMs();
    for (const [id, { askedMs }] of this.#orgs) if (Math.abs(nowMs - askedMs) > KEPT_MS) this.#orgs.delete(id);
    if (nowMs < this.#restUntilMs) return undefined;
    try {
      const evaluated = await this.#evaluator.evaluatedAt(orgId, ruleIds);
      const rules = new Map([...evaluated].map(([ruleId, atMs]) => [ruleId, seen(this.#orgs.get(orgId)?.rules.get(ruleId), atMs)]));
      this.#orgs.set(orgId, { askedMs: nowMs, rules });
      const asked = new Set(ruleIds);
      return (ruleId) => rules.get(ruleId)?.heardMs ?? (asked.has(ruleId) ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY);
    } catch {
      // The watch says that it does not answer.
      this.#restUntilMs = nowMs + REST_MS;
      return undefined;
    }
  }
}

function seen(before: Seen | undefined, atMs: number): Seen {
  if (before === undefined) return { lastMs: atMs, heardMs: Number.NEGATIVE_INFINITY };
  return before.lastMs === atMs ? before : { lastMs: atMs, heardMs: before.lastMs };
}
