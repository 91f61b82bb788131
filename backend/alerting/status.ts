// The live state of a rule, asked of the evaluator. Invariant: what is answered is about the rule's present revision or says inactive,
// never about an older one.
import type { LoadedRule, VmalertClient } from "../engines/vmalert/client.ts";
import { REVISION_ANNOTATION, type Rule } from "./rule.ts";

/** The rule status of the contract; `error` is an addition, present while the rule cannot be evaluated. */
export interface RuleStatus {
  readonly state: "firing" | "pending" | "inactive";
  /** Instances that fire now. */
  readonly active_alerts: number;
  /** RFC 3339; absent before the first evaluation. */
  readonly last_eval?: string;
  readonly error?: string;
}

const INACTIVE: RuleStatus = { state: "inactive", active_alerts: 0 };

/** Throws EvaluatorError when the evaluator cannot be asked; a disabled rule does not ask it. */
export async function statusOf(rule: Rule, evaluator: VmalertClient): Promise<RuleStatus> {
  if (!rule.enabled) return INACTIVE;
  if (rule.refused !== undefined) return { ...INACTIVE, error: rule.refused };
  const groups = await evaluator.groups({ groups: [rule.orgId], labels: [{ rule_id: rule.id, org_id: rule.orgId }] });
  const loaded = groups.flatMap((group) => group.rules).find((one) => one.annotations?.[REVISION_ANNOTATION] === String(rule.revision));
  return loaded ? liveStatus(loaded) : INACTIVE;
}

function liveStatus(loaded: LoadedRule): RuleStatus {
  const alerts = loaded.alerts ?? [];
  const firing = alerts.filter((alert) => alert.state === "firing").length;
  const state = firing > 0 ? "firing" : alerts.some((alert) => alert.state === "pending") ? "pending" : "inactive";
  const evaluated = new Date(loaded.lastEvaluation);
  return {
    state,
    active_alerts: firing,
    // Year 1 is Go's zero time: not evaluated yet.
    ...(evaluated.getUTCFullYear() > 1 && { last_eval: evaluated.toISOString() }),
    ...(loaded.health === "err" && {
      error: "the last evaluation failed: the expression takes too long, matches too much or gives the same labels twice",
    }),
  };
}
