// Asks the evaluator whether it works: at all, and for one organisation. Invariant: an organisation whose rules were not evaluated lately
// is not said to be watched, whatever the evaluator answers else.
import type { LoadedRule, VmalertClient } from "../../engines/vmalert/client.ts";
import { MAX_NAMED_GROUPS } from "../limits.ts";
import type { EvaluationTimes } from "./acknowledged-evaluations.ts";

/** Who evaluates rules. */
export interface Evaluator extends EvaluationTimes {
  /** Throws when it does not answer. */
  check(): Promise<void>;
  /** Whether the rules of an organisation were evaluated lately; true where it has none. */
  isEvaluated(orgId: string): Promise<boolean>;
}

/** Evaluations may take long, and come late on a busy machine. */
const INTERVALS = 4;
const LEAST_MS = 60_000;

export function evaluatorOf(client: Pick<VmalertClient, "ping" | "groups">, intervalMs: number, now: () => number = Date.now): Evaluator {
  return {
    check: () => client.ping(),
    async isEvaluated(orgId) {
      const groups = await client.groups({ groups: [orgId], withoutAlerts: true });
      const evaluated = groups.flatMap(({ rules }) => rules.map(({ lastEvaluation }) => Date.parse(lastEvaluation)));
      if (evaluated.length === 0) return true;
      return now() - Math.min(...evaluated) < Math.max(LEAST_MS, INTERVALS * intervalMs);
    },
    async evaluatedAt(orgId, ruleIds) {
      const named = ruleIds.length <= MAX_NAMED_GROUPS && { labels: ruleIds.map((id) => ({ rule_id: id, org_id: orgId })) };
      const groups = await client.groups({ groups: [orgId], withoutAlerts: true, ...named });
      return new Map(groups.flatMap(({ rules }) => rules.map((rule) => [rule.labels?.["rule_id"] ?? "", foundAt(rule)])));
    },
  };
}

/** An evaluation that failed says nothing of what fires. */
function foundAt({ health, lastEvaluation }: LoadedRule): number {
  return health === "ok" ? Date.parse(lastEvaluation) : Number.NEGATIVE_INFINITY;
}
