// Writes the rule files of vmalert. `renderRuleFile` writes groups as YAML in flow style; `RuleFolder` keeps one file per group of the
// embedded vmalert, which finds them by a glob pattern. Invariants: every string is double-quoted, and every character is escaped that
// could end the quotes, be expanded from vmalert's environment (`%{NAME}`, which vmalert replaces before it parses), end a line, or be
// refused by its YAML parser; no text grows to more than two and a half times its bytes. A change writes only the files of changed groups;
// a reader sees the old or the new text, never a part. vmalert may be about to read any file, so a removed group leaves an empty file until
// the next start. The file name of a group never changes, because vmalert keeps the state of a group by it.
import { mkdirSync, readdirSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

export interface RuleGroup {
  readonly name: string;
  /** Query arguments of every evaluation, e.g. `extra_label`. */
  readonly params: Readonly<Record<string, readonly string[]>>;
  /** Maximum number of rules that are evaluated concurrently. */
  readonly concurrency: number;
  /** A rule with more instances fails instead of alerting. */
  readonly limit: number;
  /** Unset: the evaluator's own interval. */
  readonly intervalMs?: number;
  readonly rules: readonly (GroupRule | RecordingRule)[];
}

/** Its result becomes a series with this name. */
interface RecordingRule {
  readonly record: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface GroupRule {
  readonly alert: string;
  readonly expr: string;
  readonly forMs: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** One group as an element of `groups`, on its own line. */
export function renderGroup(group: RuleGroup): string {
  const params = mapping(Object.entries(group.params).map(([name, values]) => [name, `[${values.map(quote).join(", ")}]`]));
  // Without alignment, an evaluation uses the current time, not one that is up to an interval ago.
  const interval = group.intervalMs === undefined ? "" : `interval: ${quote(`${group.intervalMs}ms`)}, `;
  const settings = `${interval}params: ${params}, concurrency: ${group.concurrency}, limit: ${group.limit}, eval_alignment: false`;
  return `- {name: ${quote(group.name)}, ${settings}, rules: [\n${group.rules.map(renderRule).join(",\n")}\n  ]}\n`;
}

/** A whole rule file of groups rendered by `renderGroup`. */
export function renderRuleFile(groups: readonly string[]): string {
  return [...ruleFileParts(groups)].join("");
}

/** As `renderRuleFile`, in pieces. */
export function* ruleFileParts(groups: readonly string[]): Generator<string> {
  yield groups.length === 0 ? "groups: []\n" : "groups:\n";
  yield* groups;
}

function renderRule(rule: GroupRule | RecordingRule): string {
  if ("record" in rule) {
    const { record, expr, labels } = rule;
    return `    ${mapping([
      ["record", quote(record)],
      ["expr", quote(expr)],
      ["labels", textMapping(labels)],
    ])}`;
  }
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

/** Characters that YAML 1.1 (sections 5.1 and 5.4) does not allow unescaped in double quotes, and the first of `%{`. */
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

const SUFFIX = ".yml";
const NAME = /^[A-Za-z0-9_-]{1,100}$/;
const NO_GROUPS = renderRuleFile([]);

export class RuleFolder {
  readonly #path: string;
  /** Group → its text on disk; undefined if that is unknown. */
  readonly #written = new Map<string, string | undefined>();

  private constructor(path: string, names: readonly string[]) {
    this.#path = path;
    for (const name of names) this.#written.set(name, undefined);
  }

  /** Adopts the files of the last run, before vmalert starts. */
  static async open(path: string): Promise<RuleFolder> {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(path)) {
      const isLeftOver = name.endsWith(".new") || (name.endsWith(SUFFIX) && (await readFile(join(path, name), "utf8")) === NO_GROUPS);
      if (isLeftOver) await rm(join(path, name));
    }
    return new RuleFolder(path, RuleFolder.#namesIn(path));
  }

  static #namesIn(path: string): string[] {
    return readdirSync(path).flatMap((name) => (name.endsWith(SUFFIX) ? [basename(name, SUFFIX)] : []));
  }

  /** The glob pattern for vmalert's `-rule`. */
  get pattern(): string {
    return join(literal(this.#path), `*${SUFFIX}`);
  }

  get files(): string[] {
    return [...this.#written.keys()].map((name) => this.#fileOf(name));
  }

  /** Makes the folder contain exactly these groups, each in the format of `renderGroup`. Returns the number of changed files. */
  async write(groups: ReadonlyMap<string, string>): Promise<number> {
    const changed = [...groups].filter(([name, text]) => this.#written.get(name) !== text);
    const gone = [...this.#written].filter(([name, text]) => text !== "" && !groups.has(name)).map(([name]) => [name, ""] as const);
    for (const [name, text] of [...changed, ...gone]) {
      await replaceFile(this.#fileOf(name), renderRuleFile(text === "" ? [] : [text]));
      this.#written.set(name, text);
    }
    return changed.length + gone.length;
  }

  /** Renames a file that vmalert rejects so that vmalert ignores it, until it is written again. */
  async quarantine(file: string): Promise<void> {
    await rename(file, `${file}.refused`);
    this.#written.delete(basename(file, SUFFIX));
  }

  #fileOf(name: string): string {
    if (!NAME.test(name)) throw new Error(`a rule group cannot be named ${JSON.stringify(name)}`);
    return join(this.#path, `${name}${SUFFIX}`);
  }
}

/** A pattern that matches only this path. */
export function literal(path: string): string {
  return path.replaceAll(/[*?[\]{}\\]/g, String.raw`\$&`);
}

/** A flag with a list of values splits them at commas, unless they are quoted. */
export function listItem(value: string): string {
  return /[,"'()[\]{}\\]/.test(value) ? JSON.stringify(value) : value;
}

/** A reader sees the old or the new text, never a part. It is not synced, because each start writes the files again from the accounts. */
export async function replaceFile(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
