// The live state of a rule, asked of the evaluator. Invariant: what is answered is about the rule's present revision or says inactive,
// never about an older one.
import type { LoadedRule, VmalertClient } from "../engines/vmalert/client.ts";
import { TIME_SCHEMA } from "../http/schemas.ts";
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

export const STATE_SCHEMA = { type: "string", enum: ["firing", "pending", "inactive"] };
export const STATUS_SCHEMA = {
  type: "object",
  required: ["state", "active_alerts"],
  properties: {
    state: STATE_SCHEMA,
    active_alerts: { type: "integer", minimum: 0, description: "instances that fire now" },
    last_eval: { ...TIME_SCHEMA, description: "absent before the first evaluation" },
    error: { type: "string", description: "why the rule cannot be evaluated" },
  },
};

/** Replaces the evaluator's message, which contains addresses and names of other organisations. */
export const FAILED =
  "the last evaluation failed: the expression takes too long, matches too much or gives the same labels twice, or the metrics store is not available or not complete";
const INACTIVE: RuleStatus = { state: "inactive", active_alerts: 0 };

/** Throws EvaluatorError when the evaluator cannot be asked; a disabled rule does not ask it. */
export async function statusOf(rule: Rule, evaluator: VmalertClient): Promise<RuleStatus> {
  if (!rule.enabled) return INACTIVE;
  if (rule.refused !== undefined) return { ...INACTIVE, error: rule.refused };
  const groups = await evaluator.groups({ groups: [rule.orgId], labels: [{ rule_id: rule.id, org_id: rule.orgId }] });
  const loaded = groups.flatMap((group) => group.rules).find((one) => isOf(rule, one));
  const status = loaded ? liveStatus(loaded) : INACTIVE;
  return rule.uncounted === undefined ? status : { ...status, error: rule.uncounted };
}

/** Whether this is the rule in its present revision. */
export function isOf(rule: Rule, loaded: LoadedRule): boolean {
  return loaded.labels?.["rule_id"] === rule.id && loaded.annotations?.[REVISION_ANNOTATION] === String(rule.revision);
}

/** Year 1 is Go's zero time. */
export function wasEvaluated({ lastEvaluation }: Pick<LoadedRule, "lastEvaluation">): boolean {
  return new Date(lastEvaluation).getUTCFullYear() > 1;
}

function liveStatus(loaded: LoadedRule): RuleStatus {
  const alerts = loaded.alerts ?? [];
  const firing = alerts.filter((alert) => alert.state === "firing").length;
  const state = firing > 0 ? "firing" : alerts.some((alert) => alert.state === "pending") ? "pending" : "inactive";
  return {
    state,
    active_alerts: firing,
    ...(wasEvaluated(loaded) && { last_eval: new Date(loaded.lastEvaluation).toISOString() }),
    ...(loaded.health === "err" && { error: FAILED }),
  };
}
