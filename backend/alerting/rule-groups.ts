// Builds the rules that the evaluator should load from the database: one group per organisation. Invariants: only organisations whose
// revision changed are read again; groups and rules keep their order, so that the state of unchanged rules is kept; the engine restricts
// every query of a group to the organisation, and the server sets `org_id` and `rule_id` of its alerts.
import type { LoadedGroup } from "../engines/vmalert/vmalert-client.ts";
import { type GroupRule, renderGroup, type RuleGroup } from "../engines/vmalert/rule-files.ts";
import { rawAnnotations, REVISION_ANNOTATION } from "./alert-annotations.ts";
import { MAX_ALERTS_BYTES_PER_ORG, MAX_ALERTS_BYTES_PER_RULE, MAX_INSTANCES_PER_RULE } from "./alerting-limits.ts";
import { countedExpression } from "./log-condition.ts";
import { alertBytes, type CheckedRule, type Rule } from "./alert-rule.ts";
import type { RuleTable, Stored } from "./alert-rule-table.ts";
import { recordingGroup } from "./slo-rules.ts";
import type { SloTable, StoredSlo } from "./slo-table.ts";

/** Concurrent evaluations per organisation: with more, one tenant could use the whole engine. */
const CONCURRENCY = 2;
/** Timeout of one expression; the engine enforces it. */
const QUERY_TIMEOUT = "10s";

/** The interval of a group that is not evaluated. */
const DRY_RUN_MS = 60_000;

/** Argument of every query that identifies the revision of an organisation's rules in the evaluator; the engine ignores it. */
const REVISION_PARAM = "rule_set_revision";

/** A group without rules is not passed to the evaluator. */
export function groupOf(orgId: string, revision: number, rules: readonly Rule[]): RuleGroup {
  if (orgId === "") throw new Error("a rule group needs an organisation");
  return {
    name: orgId,
    params: {
      extra_label: [`org_id=${orgId}`],
      timeout: [QUERY_TIMEOUT],
      // If a node of a metrics cluster is unavailable, the rule fails and its alerts keep their state; otherwise, `absent()` over partial
      // data would fire.
      deny_partial_response: ["1"],
      [REVISION_PARAM]: [String(revision)],
    },
    concurrency: CONCURRENCY,
    limit: maxInstancesPerRule(rules),
    rules: rules.map((rule) => groupRule(rule, orgId, rule.id, rule.revision)),
  };
}

/** Maximum instances per rule, so that one alert for each fits into the organisation's limit. */
function maxInstancesPerRule(rules: readonly CheckedRule[]): number {
  const bytes = rules.map(alertBytes);
  const total = bytes.reduce((sum, size) => sum + size, 1);
  const limit = Math.min(MAX_ALERTS_BYTES_PER_ORG / total, MAX_ALERTS_BYTES_PER_RULE / Math.max(1, ...bytes));
  return Math.max(1, Math.min(MAX_INSTANCES_PER_RULE, Math.floor(limit)));
}

/** The group of a rule that is not stored yet, for the dry run. */
export function draftGroup(orgId: string, rule: CheckedRule): RuleGroup {
  return { ...groupOf(orgId, 0, []), rules: [groupRule(rule, orgId, "00000000-0000-0000-0000-000000000000", 0)] };
}

/** The revision of an organisation's rules in this group; undefined if it is not one of ours. */
export function revisionOf(group: LoadedGroup): number | undefined {
  const param = group.params?.find((text) => text.startsWith(`${REVISION_PARAM}=`));
  return param === undefined ? undefined : Number(param.slice(REVISION_PARAM.length + 1));
}

function groupRule(rule: CheckedRule, orgId: string, ruleId: string, revision: number): GroupRule {
  return {
    alert: rule.name,
    expr: rule.logs ? countedExpression(ruleId, rule.logs) : rule.expr,
    forMs: rule.forMs,
    labels: { ...rule.labels, severity: rule.severity, org_id: orgId, rule_id: ruleId },
    annotations: { ...rule.annotations, ...rawAnnotations(rule.annotations), [REVISION_ANNOTATION]: String(revision) },
  };
}

/** The rule groups of one organisation, as sent to the evaluator. */
export interface RuleSet {
  readonly orgId: string;
  readonly revision: number;
  /** Rules that are enabled and not rejected. */
  readonly rules: readonly Rule[];
  /** Objectives whose recording rules are not rejected. */
  readonly slos: readonly StoredSlo[];
  /** Empty if there are no rules. */
  readonly text: string;
}

/** What the evaluator may refuse of a set, each with a group of only its rules. */
export function suspectsOf({ rules, slos }: RuleSet): (Stored & { readonly group: () => RuleGroup })[] {
  return [
    ...rules.map((rule) => ({ ...storedOf("rules", rule), group: () => groupOf(rule.orgId, rule.revision, [rule]) })),
    ...slos.map((slo) => ({
      ...storedOf("slos", slo),
      group: () => recordingGroup(groupOf(slo.orgId, slo.revision, []), [slo], DRY_RUN_MS),
    })),
  ];
}

function storedOf(table: Stored["table"], { orgId, id, revision }: Omit<Stored, "table">): Stored {
  return { table, orgId, id, revision };
}

export class RuleSets {
  readonly #table: RuleTable;
  readonly #slos: Pick<SloTable, "list">;
  readonly #recordingIntervalMs: number;
  /** Cached results or pending reads: vmalerts that start at the same time share the statements. */
  readonly #known = new Map<string, { readonly revision: number; readonly set: Promise<RuleSet> }>();

  constructor(table: RuleTable, slos: Pick<SloTable, "list">, recordingIntervalMs: number) {
    this.#table = table;
    this.#slos = slos;
    this.#recordingIntervalMs = recordingIntervalMs;
  }

  /** All organisations that ever had a rule, in a stable order. */
  async read(): Promise<ReadonlyMap<string, RuleSet>> {
    const sets = new Map<string, RuleSet>();
    for (const { orgId, revision } of await this.#table.revisions()) sets.set(orgId, await this.#readCached(orgId, revision));
    for (const orgId of this.#known.keys()) if (!sets.has(orgId)) this.#known.delete(orgId);
    return sets;
  }

  async #readCached(orgId: string, revision: number): Promise<RuleSet> {
    const known = this.#known.get(orgId);
    if (known?.revision === revision) return await known.set;
    const reading = { revision, set: this.#readSet(orgId, revision) };
    this.#known.set(orgId, reading);
    try {
      return await reading.set;
    } catch (error) {
      if (this.#known.get(orgId) === reading) this.#known.delete(orgId);
      throw error;
    }
  }

  // The rules may be newer than the revision that was read before them; the next read then finds that revision and reads again.
  async #readSet(orgId: string, revision: number): Promise<RuleSet> {
    const rules = (await this.#table.list(orgId)).filter((rule) => rule.enabled && rule.refused === undefined);
    const slos = (await this.#slos.list(orgId)).filter(({ refused }) => refused === undefined);
    const recording = slos.length === 0 ? "" : renderGroup(recordingGroup(groupOf(orgId, revision, []), slos, this.#recordingIntervalMs));
    return { orgId, revision, rules, slos, text: (rules.length === 0 ? "" : renderGroup(groupOf(orgId, revision, rules))) + recording };
  }
}
