// Validates a rule with `vmalert -dryRun`, in an empty environment, before it is stored: one rule that vmalert rejects would stop the rules
// of all tenants. Groups that wait at the same time share a run, each in its own file. vmalert names every file that it rejects; the other
// groups are then validated again without those. Invariant: the result of a group does not depend on the groups that share its run.
import { Batcher } from "../batcher.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { MAX_RULES_PER_DRY_RUN } from "../engine-limits.ts";
import { findProgram } from "../child.ts";
import { listItem, literal, renderGroup, renderRuleFile, type RuleGroup } from "./rule-files.ts";

/** Why vmalert rejects the group, without names of files; undefined if the group is valid. */
export type Rejection = string | undefined;

export interface DryRunOptions {
  /** Program paths or names, as `settings.vmalertPath`. */
  readonly candidates: readonly string[];
  readonly timeoutMs?: number;
}

interface Item {
  readonly text: string;
  readonly signal: AbortSignal | undefined;
}

export class DryRun {
  readonly #program: string;
  readonly #timeoutMs: number;
  readonly #batcher = new Batcher<Item, Rejection>({
    maxItems: MAX_RULES_PER_DRY_RUN,
    write: async (batch) => await this.#checkBatch(batch),
  });

  /** Throws if no candidate can be executed. */
  constructor({ candidates, timeoutMs = 30_000 }: DryRunOptions) {
    this.#program = findProgram("vmalert", candidates);
    this.#timeoutMs = timeoutMs;
  }

  /** Rejects if vmalert cannot be run, or with the signal's reason if that aborts. */
  async check(group: RuleGroup, signal?: AbortSignal): Promise<Rejection> {
    const rejection = await this.#batcher.add({ text: renderRuleFile([renderGroup(group)]), signal });
    signal?.throwIfAborted();
    return rejection;
  }

  /** Leaves out aborted checks. */
  async #checkBatch(batch: readonly Item[]): Promise<Rejection[]> {
    const pending = batch.filter(({ signal }) => !signal?.aborted);
    const rejections = await this.#rejectionsOf(pending.map(({ text }) => text));
    return batch.map((item) => rejections[pending.indexOf(item)]);
  }

  async #rejectionsOf(texts: readonly string[]): Promise<readonly Rejection[]> {
    if (texts.length === 0) return [];
    const reasons = await this.#run(texts);
    if (reasons === undefined) return await this.#checkEach(texts);
    const others = reasons.size === 0 ? [] : await this.#rejectionsOf(texts.filter((_, at) => !reasons.has(at)));
    let nextOther = 0;
    return texts.map((_, at) => reasons.get(at) ?? others[nextOther++]);
  }

  async #checkEach(texts: readonly string[]): Promise<readonly Rejection[]> {
    const rejections: Rejection[] = [];
    for (const text of texts) rejections.push((await this.#run([text]))?.get(0));
    return rejections;
  }

  /** Index in `files` → why vmalert rejects it; undefined if vmalert rejects some files without naming them. */
  async #run(files: readonly string[]): Promise<ReadonlyMap<number, string> | undefined> {
    const folder = await mkdtemp(join(tmpdir(), "atherops-dry-run-"));
    try {
      for (const [at, text] of files.entries()) await writeFile(join(folder, `${at}.yml`), text, { mode: 0o600 });
      const result = await execa(this.#program, ["-dryRun", `-rule=${listItem(join(literal(folder), "*.yml"))}`, "-loggerFormat=json"], {
        env: {},
        extendEnv: false,
        stdin: "ignore",
        all: true,
        reject: false,
        timeout: this.#timeoutMs,
        killSignal: "SIGKILL",
      });
      if (result.exitCode === 0) return new Map();
      if (result.exitCode === undefined) throw new Error(`vmalert -dryRun did not end by itself: ${result.shortMessage?.slice(0, 300)}`);
      return reasonsOf(result.all, folder, files.length);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** vmalert's reasons by file. The output is split at the folder's name, which is random, so that no rule can forge a reason. */
function reasonsOf(output: string, folder: string, files: number): ReadonlyMap<number, string> | undefined {
  const fatal = output.split("\n").findLast((line) => line.includes('"fatal"') || line.includes('"panic"'));
  const message = fatal ? messageOf(fatal) : output.slice(-500);
  const [, ...parts] = message.split(RegExp(String.raw`(?:^|\n)[^\n]*?file "${RegExp.escape(folder)}/(\d+)\.yml":? `));
  const reasons = new Map<number, string>();
  for (let at = 0; at < parts.length; at += 2) reasons.set(Number(parts[at]), withoutNames(parts[at + 1] ?? ""));
  if (reasons.size > 0) return reasons;
  return files === 1 ? new Map([[0, withoutNames(message)]]) : undefined;
}

/** Removes the names of group and rule. */
function withoutNames(reason: string): string {
  return reason.replace(/^(?:invalid \w+ for rule "(?:[^"\\]|\\.)*"|invalid rule "(?:[^"\\]|\\.)*"): /, "").trim();
}

function messageOf(line: string): string {
  try {
    return String((JSON.parse(line) as { msg?: unknown }).msg);
  } catch {
    return line;
  }
}
