// Finds the rule for which the evaluator refuses a whole rule file, and withholds it. Invariant: all rules that are not at fault reach the
// evaluator in the end. It is the second line of defence: the first is the check before a rule is stored. With vmalert at hand each suspect
// is tried in a dry run; without, all suspects are held back and then tried one at a time on the evaluator itself.
import type { DryRun } from "../engines/vmalert/dry-run.ts";
import type { Log } from "../operations/log.ts";
import { groupOf, type RuleSet } from "./rule-groups.ts";
import type { Rule } from "./rule.ts";
import type { RuleTable } from "./table.ts";

/** Why a rule waits for its turn; shown to users as any other reason. */
export const HELD_BACK = "held back for some seconds: the evaluator refused rules that were changed together with this one";

export interface QuarantineOptions {
  readonly table: RuleTable;
  readonly dryRun: DryRun | undefined;
  readonly log: Log;
}

export class Quarantine {
  readonly #options: QuarantineOptions;

  constructor(options: QuarantineOptions) {
    this.#options = options;
  }

  /** After a refused reload: `missing` is what the evaluator did not load, `confirmed` the revisions that it did load before. */
  async withhold(missing: readonly RuleSet[], confirmed: ReadonlyMap<string, number>): Promise<void> {
    const suspects = missing.flatMap((set) => set.rules.filter((rule) => rule.revision > (confirmed.get(set.orgId) ?? 0)));
    const { dryRun } = this.#options;
    if (dryRun) return void (await Promise.all(suspects.map((rule) => this.#tryOut(rule, dryRun))));
    const [only, ...others] = suspects;
    if (only && others.length === 0) return await this.#refuse(only, "the evaluator refuses this rule");
    for (const rule of suspects) await this.#options.table.refuse(rule, HELD_BACK);
    this.#options.log.warn(
      { event: "evaluator.rules_refused", rules: suspects.length },
      "the evaluator refused its rules: trying those that changed one at a time",
    );
  }

  /** While all is loaded: gives the next rule that was held back its trial. Answers whether there was one. */
  async tryNext(): Promise<boolean> {
    return this.#options.dryRun === undefined && (await this.#options.table.readmit(HELD_BACK));
  }

  async #tryOut(rule: Rule, dryRun: DryRun): Promise<void> {
    const refusal = await dryRun.check(groupOf(rule.orgId, rule.revision, [rule]));
    if (refusal !== undefined) await this.#refuse(rule, `the evaluator refuses this rule: ${refusal.slice(0, 300)}`);
  }

  async #refuse(rule: Rule, reason: string): Promise<void> {
    this.#options.log.error(
      { event: "evaluator.rule_withheld", org_id: rule.orgId, rule_id: rule.id, reason },
      "withheld a rule from the evaluator",
    );
    await this.#options.table.refuse(rule, reason);
  }
}
