// Writes rule groups in the text that vmalert reads: YAML in flow style. Invariant: every string is double-quoted, and everything in it
// is escaped that could end its quotes, be expanded from vmalert's environment (`%{NAME}`, which vmalert replaces before it parses), be
// a line end, or be a character that its YAML parser refuses; all else is written as it is, so that no text grows to more than two and
// a half times its bytes. Knows no domain.

export interface RuleGroup {
  readonly name: string;
  /** Query arguments of every evaluation, e.g. `extra_label`. */
  readonly params: Readonly<Record<string, readonly string[]>>;
  /** Rules evaluated at once. */
  readonly concurrency: number;
  /** Instances above which a rule fails instead of alerting. */
  readonly limit: number;
  readonly rules: readonly GroupRule[];
}

export interface GroupRule {
  readonly alert: string;
  readonly expr: string;
  readonly forMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** One group as an element of `groups`; a line of its own. */
export function renderGroup(group: RuleGroup): string {
  const params = mapping(Object.entries(group.params).map(([name, values]) => [name, `[${values.map(quote).join(", ")}]`]));
  // Without alignment an evaluation looks at now, not at up to one interval ago.
  const settings = `params: ${params}, concurrency: ${group.concurrency}, limit: ${group.limit}, eval_alignment: false`;
  return `- {name: ${quote(group.name)}, ${settings}, rules: [\n${group.rules.map(renderRule).join(",\n")}\n  ]}\n`;
}

/** A whole rule file of groups rendered by `renderGroup`. */
export function renderRuleFile(groups: readonly string[]): string {
  return [...ruleFileParts(groups)].join("");
}

/** The same, in pieces. */
export function* ruleFileParts(groups: readonly string[]): Generator<string> {
  yield groups.length === 0 ? "groups: []\n" : "groups:\n";
  yield* groups;
}

function renderRule(rule: GroupRule): string {
  return `    ${mapping([
    ["alert", quote(rule.alert)],
    ["expr", quote(rule.expr)],
    ["for", quote(`${rule.forMs}ms`)],
    ["labels", textMapping(rule.labels)],
    ["annotations", textMapping(rule.annotations)],
  ])}`;
}

function textMapping(texts: Readonly<Record<string, string>>): string {
  return mapping(Object.entries(texts).map(([name, text]) => [name, quote(text)]));
}

function mapping(entries: readonly (readonly [name: string, yaml: string])[]): string {
  return `{${entries.map(([name, yaml]) => `${quote(name)}: ${yaml}`).join(", ")}}`;
}

/** What YAML 1.1 does not take as it is within double quotes (its specification, sections 5.1 and 5.4), and the first half of `%{`. */
const ESCAPED = /[^\u0020-\u007e\u00a0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]|["\\\u2028\u2029]|%(?=\{)/gu;

/** A YAML 1.1 double-quoted scalar (section 5.7 of its specification) that decodes to exactly `text`. */
export function quote(text: string): string {
  return `"${text.replace(ESCAPED, escape)}"`;
}

function escape(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  const code = character.codePointAt(0) ?? 0;
  return code > 0xff ? `\\u${hex(code, 4)}` : `\\x${hex(code, 2)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}
