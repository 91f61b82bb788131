// Keeps the evaluator's rules those of the database, in the background: notice a change, hand over the file, ask for a reload, read the
// evaluator back until it has it. Invariant: it never gives up, it never blocks a request, and a rule that stops a reload is found
// and withheld. Every replica may run one. Started by start.ts.
import { setTimeout as sleep } from "node:timers/promises";
import type { LoadedGroup, VmalertClient } from "../engines/vmalert/client.ts";
import type { Log } from "../log.ts";
import type { Quarantine } from "./quarantine.ts";
import { REVISION_ANNOTATION } from "./rule.ts";
import { ruleFileOf, type RuleSet, type RuleSets } from "./rule-set.ts";

export interface ReconcilerOptions {
  readonly ruleSets: RuleSets;
  readonly evaluator: VmalertClient;
  /** Hands over the file of the embedded evaluator; an external one fetches it from the rules listener. */
  readonly writeRules?: ((text: string) => Promise<void>) | undefined;
  readonly quarantine: Quarantine;
  readonly log: Log;
  readonly timing?: Partial<ReconcilerTiming>;
}

export interface ReconcilerTiming {
  /** Between looks at the database, for what other replicas change. */
  readonly pollMs: number;
  /** For the evaluator to load what was handed over. */
  readonly confirmMs: number;
  readonly confirmPollMs: number;
  readonly maxBackoffMs: number;
}

const DEFAULT_TIMING: ReconcilerTiming = { pollMs: 2000, confirmMs: 15_000, confirmPollMs: 50, maxBackoffMs: 2000 };
/** A reload takes less: from then on it is looked at whether it was refused. */
const SUSPICIOUS_MS = 3000;
/** Above so many changed groups, all are read back at once. */
const MAX_NAMED_GROUPS = 50;

export class Reconciler implements AsyncDisposable {
  readonly #options: ReconcilerOptions;
  readonly #timing: ReconcilerTiming;
  readonly #stopping = new AbortController();
  readonly #confirmed = new Map<string, number>();
  readonly #loop: Promise<void>;
  #written: string | undefined;
  #wake: (() => void) | undefined;
  #noticed = false;
  #failures = 0;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#loop = this.#run();
  }

  /** Something changed: reconcile as soon as possible. */
  notice(): void {
    this.#noticed = true;
    this.#wake?.();
  }

  /** True while the evaluator is known to have all rules. */
  get inStep(): boolean {
    return this.#failures === 0 && !this.#noticed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    this.#wake?.();
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const startedAt = Date.now();
      this.#noticed = false;
      try {
        await this.#reconcile();
        if (this.#failures > 0) this.#options.log.info("the evaluator has all rules again");
        this.#failures = 0;
        // At most two thirds of the time, so that a stream of changes leaves the evaluator time to evaluate.
        await this.#pause(Math.min(1000, (Date.now() - startedAt) / 2));
        if (!this.#noticed) await this.#wait(this.#timing.pollMs);
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        this.#failures += 1;
        if (this.#failures === 1) this.#options.log.warn({ err: error }, "the evaluator does not have all rules yet; trying again");
        await this.#pause(Math.min(this.#timing.maxBackoffMs, 250 * 2 ** Math.min(this.#failures, 10)));
      }
    }
  }

  async #reconcile(): Promise<void> {
    const { ruleSets, evaluator, writeRules, quarantine } = this.#options;
    const sets = await ruleSets.read();
    const changed = [...sets.values()].filter((set) => this.#confirmed.get(set.orgId) !== set.revision);
    if (changed.length === 0) return void (this.#noticed ||= await quarantine.tryNext());
    const text = ruleFileOf(sets);
    if (writeRules && text !== this.#written) await writeRules(text);
    this.#written = text;
    await evaluator.reload();
    const missing = await this.#confirm(changed);
    if (missing.length === 0) return;
    if (await evaluator.refusedLastReload()) await quarantine.withhold(missing, this.#confirmed);
    throw new Error(`the evaluator has not loaded the rules of ${missing.length} organisations`);
  }

  /** Reads back until everything is loaded or time is up. Answers what is not. */
  async #confirm(changed: readonly RuleSet[]): Promise<readonly RuleSet[]> {
    const deadline = Date.now() + this.#timing.confirmMs;
    const suspiciousAt = Date.now() + SUSPICIOUS_MS;
    let missing = changed;
    for (let pauseMs = this.#timing.confirmPollMs; ; pauseMs = Math.min(250, pauseMs * 1.5)) {
      missing = await this.#missing(missing);
      if (missing.length === 0 || Date.now() >= deadline || this.#stopping.signal.aborted) return missing;
      if (Date.now() >= suspiciousAt && (await this.#options.evaluator.refusedLastReload())) return missing;
      await this.#pause(pauseMs);
    }
  }

  async #missing(sets: readonly RuleSet[]): Promise<readonly RuleSet[]> {
    const named = sets.length <= MAX_NAMED_GROUPS ? sets.map((set) => set.orgId) : [];
    const groups = await this.#options.evaluator.groups({ groups: named, withoutAlerts: true });
    const loaded = new Map(groups.map((group) => [group.name, group]));
    return sets.filter((set) => {
      if (!isLoaded(set, loaded.get(set.orgId))) return true;
      this.#confirmed.set(set.orgId, set.revision);
      return false;
    });
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }

  /** Until something is noticed, at most `ms`. */
  async #wait(ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    if (!this.#noticed)
      await sleep(ms, undefined, { signal: AbortSignal.any([woken.signal, this.#stopping.signal]) }).catch(() => undefined);
    this.#wake = undefined;
  }
}

function isLoaded(set: RuleSet, group: LoadedGroup | undefined): boolean {
  const loaded = new Set(group?.rules.map((rule) => `${rule.labels?.["rule_id"]} ${rule.annotations?.[REVISION_ANNOTATION]}`));
  return loaded.size === set.rules.length && set.rules.every((rule) => loaded.has(`${rule.id} ${rule.revision}`));
}
