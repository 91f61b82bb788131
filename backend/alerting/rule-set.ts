// What the evaluator should have loaded: the rules of all organisations, made from the database. Invariant: only organisations whose
// revision changed are read again; groups and rules keep their order, so that the state of untouched rules survives.
import { renderGroup } from "../engines/vmalert/rule-file.ts";
import { groupOf } from "./rule-groups.ts";
import type { Rule } from "./rule.ts";
import type { RuleTable } from "./table.ts";

/** What the evaluator gets of one organisation. */
export interface RuleSet {
  readonly orgId: string;
  readonly revision: number;
  /** Enabled and not refused. */
  readonly rules: readonly Rule[];
  /** Empty without rules. */
  readonly text: string;
}

export class RuleSets {
  readonly #table: RuleTable;
  #sets: ReadonlyMap<string, RuleSet> = new Map();

  constructor(table: RuleTable) {
    this.#table = table;
  }

  /** All organisations that ever had a rule, in a stable order. */
  async read(): Promise<ReadonlyMap<string, RuleSet>> {
    const sets = new Map<string, RuleSet>();
    for (const { orgId, revision } of await this.#table.revisions()) {
      const known = this.#sets.get(orgId);
      sets.set(orgId, known?.revision === revision ? known : await this.#readOne(orgId, revision));
    }
    this.#sets = sets;
    return sets;
  }

  // The rules may be newer than the revision that was read before them; the next read then finds that revision and reads again.
  async #readOne(orgId: string, revision: number): Promise<RuleSet> {
    const rules = (await this.#table.list(orgId)).filter((rule) => rule.enabled && rule.refused === undefined);
    return { orgId, revision, rules, text: rules.length === 0 ? "" : renderGroup(groupOf(orgId, revision, rules)) };
  }
}
