// The rule files of the embedded evaluator: one for each group, in one folder that vmalert reads as a pattern. Invariant: a change
// writes the files of the groups that changed and no other; a reader sees the old or the new text, never a part; a file that vmalert
// may be about to read never goes away, so a group that is gone leaves an empty file until the next start. A file's name is part of
// what vmalert keeps a group's state by: it stays the same for as long as the group does.
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { renderRuleFile } from "./rule-file.ts";

const SUFFIX = ".yml";
const NAME = /^[A-Za-z0-9_-]{1,100}$/;
const NO_GROUPS = renderRuleFile([]);

export class RuleFolder {
  readonly #path: string;
  /** Group → its text on the disk; undefined where that is not known. */
  readonly #written = new Map<string, string | undefined>();

  private constructor(path: string, names: readonly string[]) {
    this.#path = path;
    for (const name of names) this.#written.set(name, undefined);
  }

  /** Takes over what the last run left, before vmalert starts. `formerFile` is the one file that an older version kept all groups in. */
  static async open(path: string, formerFile: string): Promise<RuleFolder> {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(path)) {
      const isLeftOver = name.endsWith(".new") || (name.endsWith(SUFFIX) && (await readFile(join(path, name), "utf8")) === NO_GROUPS);
      if (isLeftOver) await rm(join(path, name));
    }
    if (existsSync(formerFile)) await divide(formerFile, path);
    return new RuleFolder(path, RuleFolder.#namesIn(path));
  }

  static #namesIn(path: string): string[] {
    return readdirSync(path).flatMap((name) => (name.endsWith(SUFFIX) ? [basename(name, SUFFIX)] : []));
  }

  /** For vmalert's `-rule`. */
  get pattern(): string {
    return join(literal(this.#path), `*${SUFFIX}`);
  }

  get files(): string[] {
    return [...this.#written.keys()].map((name) => this.#fileOf(name));
  }

  /** Makes the folder hold exactly these groups, each as `renderGroup` wrote it. Answers how many files that changed. */
  async write(groups: ReadonlyMap<string, string>): Promise<number> {
    const changed = [...groups].filter(([name, text]) => this.#written.get(name) !== text);
    const gone = [...this.#written].filter(([name, text]) => text !== "" && !groups.has(name)).map(([name]) => [name, ""] as const);
    for (const [name, text] of [...changed, ...gone]) {
      await replaceFile(this.#fileOf(name), renderRuleFile(text === "" ? [] : [text]));
      this.#written.set(name, text);
    }
    return changed.length + gone.length;
  }

  /** Puts a file that vmalert refuses out of its way, until it is written anew. */
  async quarantine(file: string): Promise<void> {
    await rename(file, `${file}.refused`);
    this.#written.delete(basename(file, SUFFIX));
  }

  #fileOf(name: string): string {
    if (!NAME.test(name)) throw new Error(`a rule group cannot be named ${JSON.stringify(name)}`);
    return join(this.#path, `${name}${SUFFIX}`);
  }
}

/** A path as a pattern that matches it alone. */
export function literal(path: string): string {
  return path.replaceAll(/[*?[\]{}\\]/g, String.raw`\$&`);
}

/** A flag that takes a list splits it at commas, unless they are quoted. */
export function listItem(value: string): string {
  return /[,"'()[\]{}\\]/.test(value) ? JSON.stringify(value) : value;
}

/** Each group of the file becomes a file: vmalert restores the state of alerts only for groups that it knows when it starts. */
async function divide(formerFile: string, path: string): Promise<void> {
  const text = await readFile(formerFile, "utf8");
  for (const group of text.split(/^(?=- \{name: ")/m)) {
    const name = /^- \{name: "([^"]*)"/.exec(group)?.[1] ?? "";
    if (NAME.test(name)) await replaceFile(join(path, `${name}${SUFFIX}`), renderRuleFile([group]));
  }
  await rm(formerFile);
}

/** A reader sees the old or the new text, never a part. Not synced: each start writes the files again, from the accounts. */
export async function replaceFile(file: string, text: string): Promise<void> {
  await writeFile(`${file}.new`, text, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
