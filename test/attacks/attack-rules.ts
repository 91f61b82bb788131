// Attacks with alert rules: expressions for a parser with quadratic time, rules that fill the evaluator, and validations whose client does
// not wait.
import type { Attack, Attacker } from "./attack.ts";

const VALIDATE = "/alerting/rules/validate";
const MAX_EXPRESSION = 10_000;
const ANNOTATIONS = 20;
const MAX_ANNOTATION = 4000;
const HUGE_RULES = 150;
const HUGE_RULES_A_WAVE = 30;

export const longExpressions: Attack = {
  group: "first",
  what: "thirty expressions of 10 kB at once to validate: 1^1^1…, 1-1-1…, ((((1…",
  everyMs: 10_000,
  async wave(attacker, turn) {
    const right = `${"1^".repeat(MAX_EXPRESSION / 2 - 1)}1`;
    const left = `${"1-".repeat(MAX_EXPRESSION / 2 - 1)}1`;
    const deep = `${"(".repeat(4000)}1${")".repeat(4000)}`;
    const expressions = turn % 3 === 2 ? [right, left, deep] : [right];
    await attacker.many(30, 30, async (index) => {
      const expr = expressions[index % expressions.length];
      await attacker.call({ method: "POST", path: VALIDATE, bearer: attacker.target.viewerToken, body: { expr } });
    });
  },
};

/** A rule with the maximum length of text, of characters that a rule file may escape with six characters. */
export function hugeRule(attacker: Attacker): object {
  const annotations = Object.fromEntries(Array.from({ length: ANNOTATIONS }, (_, index) => [`a${index}`, "é".repeat(MAX_ANNOTATION)]));
  return { name: `huge ${attacker.serial()}`, severity: "info", expr: "vector(1) > 0", annotations };
}

export const hugeRules: Attack = {
  group: "first",
  what: "150 rules of 20 annotations of 4,000 characters each, two at once; then two more every three seconds",
  everyMs: 3000,
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const rules = turn < HUGE_RULES / HUGE_RULES_A_WAVE ? HUGE_RULES_A_WAVE : 2;
    await attacker.many(rules, 2, () => attacker.call({ method: "POST", path: "/alerting/rules", bearer, body: hugeRule(attacker) }));
  },
};

export const abandonedDrafts: Attack = {
  group: "first",
  what: "300 drafts to validate that the evaluator refuses, left after half a second",
  everyMs: 15_000,
  async wave(attacker) {
    const body = { expr: "vector(1) > 0", annotations: { text: "{{{ $value }}" } };
    const bearer = attacker.target.viewerToken;
    await attacker.many(300, 300, () => attacker.call({ method: "POST", path: VALIDATE, bearer, body, leaveAfterMs: 500 }));
  },
};
