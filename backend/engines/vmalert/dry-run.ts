// Asks vmalert itself whether it would take a rule: `vmalert -dryRun`, with an empty environment. Invariant: a verdict is about one
// group alone; groups that wait at the same time share one run, and only if that run fails is each run by itself. Used before a rule
// is stored, because one rule that vmalert refuses stops all rules of all tenants.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { findProgram } from "../child.ts";
import { renderGroup, renderRuleFile, type RuleGroup } from "./rule-file.ts";

/** vmalert's reason to refuse the group, without the names of files; undefined when it takes it. */
export type Verdict = string | undefined;

export interface DryRunOptions {
  /** Program paths or names, as `settings.vmalertPath`. */
  readonly candidates: readonly string[];
  /** Runs at the same time. */
  readonly concurrency?: number;
  readonly timeoutMs?: number;
}

interface Waiting {
  readonly text: string;
  readonly resolve: (verdict: Verdict) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_BATCH = 64;

export class DryRun {
  readonly #program: string;
  readonly #concurrency: number;
  readonly #timeoutMs: number;
  readonly #waiting: Waiting[] = [];
  #running = 0;
  #asked = 0;

  /** Throws when no candidate can be executed. */
  constructor({ candidates, concurrency = 1, timeoutMs = 30_000 }: DryRunOptions) {
    this.#program = findProgram("vmalert", candidates);
    this.#concurrency = concurrency;
    this.#timeoutMs = timeoutMs;
  }

  /** Rejects only when vmalert itself cannot be run. */
  check(group: RuleGroup): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      // Names are made unique here, because a file with two groups of one name is refused.
      this.#asked += 1;
      this.#waiting.push({ text: renderGroup({ ...group, name: `group ${this.#asked}` }), resolve, reject });
      this.#startRun();
    });
  }

  #startRun(): void {
    if (this.#running >= this.#concurrency || this.#waiting.length === 0) return;
    this.#running += 1;
    void this.#judge(this.#waiting.splice(0, MAX_BATCH)).finally(() => {
      this.#running -= 1;
      this.#startRun();
    });
  }

  async #judge(batch: readonly Waiting[]): Promise<void> {
    try {
      const together = await this.#run(batch.map((one) => one.text));
      if (batch.length === 1) return batch[0]?.resolve(together);
      for (const one of batch) one.resolve(together === undefined ? undefined : await this.#run([one.text]));
    } catch (error) {
      for (const one of batch) one.reject(error);
    }
  }

  async #run(groups: readonly string[]): Promise<Verdict> {
    const folder = await mkdtemp(join(tmpdir(), "atherops-dry-run-"));
    try {
      const file = join(folder, "rules.yml");
      await writeFile(file, renderRuleFile(groups), { mode: 0o600 });
      const result = await execa(this.#program, ["-dryRun", `-rule=${file}`, "-loggerFormat=json"], {
        env: {},
        extendEnv: false,
        stdin: "ignore",
        all: true,
        reject: false,
        timeout: this.#timeoutMs,
        killSignal: "SIGKILL",
      });
      if (result.exitCode === 0) return undefined;
      if (result.exitCode === undefined) throw new Error(`vmalert -dryRun did not end by itself: ${result.shortMessage?.slice(0, 300)}`);
      return reasonOf(result.all);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** The innermost reason of vmalert's last log line: what follows the names of file, group and rule. */
function reasonOf(output: string): string {
  const fatal = output.split("\n").findLast((line) => line.includes('"fatal"') || line.includes('"panic"'));
  const message = fatal ? messageOf(fatal) : output.slice(-500);
  return message
    .replace(/^[\s\S]*?in file "[^"]*": /, "")
    .replace(/^(?:invalid \w+ for rule "(?:[^"\\]|\\.)*"|invalid rule "(?:[^"\\]|\\.)*"): /, "");
}

function messageOf(line: string): string {
  try {
    return String((JSON.parse(line) as { msg?: unknown }).msg);
  } catch {
    return line;
  }
}
