// When vmalert last evaluated the rules of an organisation, and whether it has posted all alerts of those evaluations. Two users need this: a
// heartbeat is sent only if the rules were evaluated lately, and a missing alert is resolved only if a complete evaluation did not find it.
// Invariants: an organisation whose rules were not evaluated lately does not count as evaluated, even if vmalert responds; an evaluation is
// complete when vmalert has begun the next one of the same rule, because it first posts the alerts of the one before.
import type { LoadedRule, VmalertClient } from "../../engines/vmalert/vmalert-client.ts";
import { MAX_NAMED_GROUPS } from "../notification-limits.ts";

export interface EvaluationTimes {
  /** Rule → start of its last evaluation in milliseconds, -Infinity if that failed. Only rules that vmalert has loaded. */
  evaluatedAt(orgId: string, ruleIds: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

/** The program that evaluates rules. */
export interface Evaluator extends EvaluationTimes {
  /** Throws if it does not respond. */
  check(): Promise<void>;
  /** Whether the rules of an organisation were evaluated lately; true if it has no rules. */
  isEvaluated(orgId: string): Promise<boolean>;
}

/** An evaluation is late after this many intervals: it may take long, and start late on a busy machine. */
const LATE_INTERVALS = 4;
const MIN_LATE_MS = 60_000;

export function createEvaluator(
  client: Pick<VmalertClient, "ping" | "groups">,
  intervalMs: number,
  now: () => number = Date.now,
): Evaluator {
  return {
    check: () => client.ping(),
    async isEvaluated(orgId) {
      const groups = await client.groups({ groups: [orgId], withoutAlerts: true });
      const evaluated = groups.flatMap(({ rules }) => rules.map(({ lastEvaluation }) => Date.parse(lastEvaluation)));
      if (evaluated.length === 0) return true;
      return now() - Math.min(...evaluated) < Math.max(MIN_LATE_MS, LATE_INTERVALS * intervalMs);
    },
    async evaluatedAt(orgId, ruleIds) {
      const named = ruleIds.length <= MAX_NAMED_GROUPS && { labels: ruleIds.map((id) => ({ rule_id: id, org_id: orgId })) };
      const groups = await client.groups({ groups: [orgId], withoutAlerts: true, ...named });
      return new Map(groups.flatMap(({ rules }) => rules.map((rule) => [rule.labels?.["rule_id"] ?? "", startOfEvaluation(rule)])));
    },
  };
}

/** A failed evaluation finds no alerts, so it must not resolve any. */
function startOfEvaluation({ health, lastEvaluation }: LoadedRule): number {
  return health === "ok" ? Date.parse(lastEvaluation) : Number.NEGATIVE_INFINITY;
}

/** Rule → start of its last complete evaluation in milliseconds. Infinity: vmalert no longer evaluates the rule. */
export type CompletedUntil = (ruleId: string) => number;

interface RuleEvaluations {
  readonly lastMs: number;
  /** Start of the last complete evaluation. */
  readonly completedMs: number;
}

/** An organisation with pending alerts is read at least once a minute. */
const FORGET_AFTER_MS = 10 * 60_000;
/** Organisations are read one after the other, so after a failure the others do not wait for the same timeout. */
const PAUSE_AFTER_FAILURE_MS = 10_000;

/** Remembers the evaluations of rules from read to read, so that complete ones can be recognised. */
export class CompletedEvaluations {
  readonly #evaluator: EvaluationTimes;
  readonly #nowMs: () => number;
  readonly #orgs = new Map<string, { readonly readMs: number; readonly rules: ReadonlyMap<string, RuleEvaluations> }>();
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(evaluator: EvaluationTimes, nowMs: () => number) {
    this.#evaluator = evaluator;
    this.#nowMs = nowMs;
  }

  /** Call it before reading the alerts of exactly these rules. Undefined if vmalert does not respond. */
  async read(orgId: string, ruleIds: readonly string[]): Promise<CompletedUntil | undefined> {
    const nowMs = this.#nowMs();
    for (const [id, { readMs }] of this.#orgs) if (Math.abs(nowMs - readMs) > FORGET_AFTER_MS) this.#orgs.delete(id);
    if (performance.now() < this.#pausedUntilMs) return undefined;
    try {
      const evaluated = await this.#evaluator.evaluatedAt(orgId, ruleIds);
      const before = this.#orgs.get(orgId)?.rules;
      const rules = new Map([...evaluated].map(([ruleId, atMs]) => [ruleId, advance(before?.get(ruleId), atMs)]));
      this.#orgs.set(orgId, { readMs: nowMs, rules });
      const requested = new Set(ruleIds);
      return (ruleId) => rules.get(ruleId)?.completedMs ?? (requested.has(ruleId) ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY);
    } catch {
      // EvaluatorWatch logs that vmalert does not respond.
      this.#pausedUntilMs = performance.now() + PAUSE_AFTER_FAILURE_MS;
      return undefined;
    }
  }
}

function advance(before: RuleEvaluations | undefined, atMs: number): RuleEvaluations {
  if (before === undefined) return { lastMs: atMs, completedMs: Number.NEGATIVE_INFINITY };
  return before.lastMs === atMs ? before : { lastMs: atMs, completedMs: before.lastMs };
}
