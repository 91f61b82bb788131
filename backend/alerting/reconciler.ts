// Keeps the rules of the evaluator (vmalert) equal to those in the database, in the background: when rules have changed, it writes the new rule
// files for the evaluator, requests a reload, and polls the evaluator until it has loaded the change. If the evaluator rejects a rule file,
// `Quarantine` finds the invalid rule and withholds it: if there is a vmalert program on this machine, each suspect is tried in a dry run;
// otherwise, all suspects are withheld and tried one at a time on the evaluator. Invariants: the reconciler retries without limit and never
// blocks a request; all valid rules eventually reach the evaluator; a change in one organisation does not delay a reload for another. Every
// replica may run a reconciler.
import { Loop, pause } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import { type Evaluator, SECOND_GROUP } from "../engines/vmalert/vmalert-shards.ts";
import type { Log } from "../log.ts";
import { MAX_NAMED_GROUPS } from "./alerting-limits.ts";
import { revisionOf, type RuleSet, type RuleSets, suspectsOf } from "./rule-groups.ts";
import type { DryRun } from "../engines/vmalert/dry-run.ts";
import type { RuleTable, Stored } from "./alert-rule-table.ts";

export interface ReconcilerOptions {
  readonly ruleSets: Pick<RuleSets, "read">;
  readonly evaluator: Pick<Evaluator, "groups" | "reload" | "refusedLastReload">;
  /** Writes the groups for the embedded evaluator; an external one fetches them from the rules listener. */
  readonly writeRules?: ((groups: ReadonlyMap<string, string>) => Promise<void>) | undefined;
  readonly quarantine: Pick<Quarantine, "withhold" | "tryNext">;
  readonly log: Log;
  readonly timing?: Partial<ReconcilerTiming>;
}

export interface ReconcilerTiming {
  /** Interval for polling the database, to find changes that other replicas made. */
  readonly pollMs: number;
  /** Time that the evaluator has to load a change after a reload was requested; then the reload is requested again. */
  readonly confirmMs: number;
  /** Initial interval for polling the evaluator. */
  readonly confirmPollMs: number;
  readonly maxBackoffMs: number;
}

const DEFAULT_TIMING: ReconcilerTiming = { pollMs: 2000, confirmMs: 15_000, confirmPollMs: 50, maxBackoffMs: 2000 };
const FIRST_BACKOFF_MS = 500;
const MAX_CONFIRM_POLL_MS = 250;
const REMIND_MS = 300_000;
/** A reload takes less time than this. If a change is pending for longer, the reconciler checks whether the evaluator rejected it. */
const SUSPICIOUS_MS = 3000;
/** The documented maximum delay of a change. */
const LATE_MS = 5000;
/** Maximum pause between reloads, however long the last one took. */
const MAX_RELOAD_PAUSE_MS = 1000;

/** Changes of an organisation that the evaluator may not have loaded yet. */
interface PendingChange {
  /** When the reconciler found the first of these changes, or when the evaluator last loaded some but not all of them. */
  readonly sinceMs: number;
  /** The revision for which a reload was requested last; undefined if none was requested. */
  requestedRevision: number | undefined;
}

export class Reconciler implements AsyncDisposable {
  readonly #options: ReconcilerOptions;
  readonly #timing: ReconcilerTiming;
  readonly #outage: Outage;
  /** Organisation → the latest revision that the reconciler has seen in the evaluator, which may have loaded a later one since then. */
  readonly #confirmed = new Map<string, number>();
  readonly #pending = new Map<string, PendingChange>();
  readonly #loop: Loop;
  #sets: ReadonlyMap<string, RuleSet> = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reloadedAtMs = Number.NEGATIVE_INFINITY;
  /** Duration of the evaluator's last reload; undefined until observed. */
  #loadingMs: number | undefined;
  /** When #checkOverdue last found a change that the evaluator had not loaded. */
  #checkedOverdueAtMs = Number.NEGATIVE_INFINITY;
  #hasChanges = false;
  #pauseMs: number;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#pauseMs = this.#timing.confirmPollMs;
    this.#outage = new Outage({
      began: (err) => options.log.warn({ event: "evaluator.sync_failed", err }, "vmalert lacks some rules, retrying"),
      reminded: (err, { failures, seconds }) =>
        options.log.warn({ event: "evaluator.sync_still_failing", err, failures, seconds }, "vmalert still lacks some rules, retrying"),
      ended: ({ failures, seconds }) =>
        options.log.info({ event: "evaluator.sync_recovered", failures, seconds }, "recovered: vmalert has all rules"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({
      step: (signal) => this.#step(signal),
      failed: (error) => this.#outage.failed(error),
      backoffMs: [FIRST_BACKOFF_MS, this.#timing.maxBackoffMs],
    });
  }

  /** Call after a change: reconciles as soon as possible. */
  reconcileSoon(): void {
    this.#hasChanges = true;
    this.#loop.wake();
  }

  /** True while the evaluator responds and no change is later than documented. */
  get isInSync(): boolean {
    const lateSinceMs = performance.now() - LATE_MS;
    return this.#outage.sinceMs === undefined && [...this.#pending.values()].every(({ sinceMs }) => sinceMs > lateSinceMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** Returns how long to wait before the next step, unless `reconcileSoon` is called. */
  async #step(signal: AbortSignal): Promise<number> {
    await pause(this.#readAtMs + this.#timing.confirmPollMs - performance.now(), signal);
    signal.throwIfAborted();
    const hasReloaded = await this.#reconcile();
    this.#outage.recovered();
    this.#pauseMs = hasReloaded ? this.#timing.confirmPollMs : Math.min(MAX_CONFIRM_POLL_MS, this.#pauseMs * 1.5);
    if (this.#hasChanges) return 0;
    return this.#pending.size > 0 ? this.#pauseMs : this.#timing.pollMs;
  }

  /** Returns whether it requested a reload. */
  async #reconcile(): Promise<boolean> {
    await this.#readChanges();
    if (this.#pending.size === 0) {
      this.#hasChanges ||= await this.#options.quarantine.tryNext();
      return false;
    }
    const hasReloaded = await this.#requestReload();
    await this.#readBack();
    await this.#checkOverdue();
    return hasReloaded;
  }

  async #readChanges(): Promise<void> {
    const now = performance.now();
    if (!this.#hasChanges && now - this.#readAtMs < this.#timing.pollMs) return;
    this.#hasChanges = false;
    this.#sets = await this.#options.ruleSets.read().catch((error: unknown) => {
      this.#hasChanges = true;
      throw error;
    });
    this.#readAtMs = now;
    for (const orgId of this.#pending.keys()) if (!this.#sets.has(orgId)) this.#pending.delete(orgId);
    for (const { orgId, revision } of this.#sets.values()) {
      const isBehind = (this.#confirmed.get(orgId) ?? -1) < revision;
      if (isBehind && !this.#pending.has(orgId)) this.#pending.set(orgId, { sinceMs: now, requestedRevision: undefined });
    }
  }

  /** Requests a reload if there is something new to load. Returns whether it did. */
  async #requestReload(): Promise<boolean> {
    const sets = this.#sets;
    const changedSets = this.#pendingSets().filter(({ orgId, revision }) => this.#pending.get(orgId)?.requestedRevision !== revision);
    // Reloads take at most two thirds of the time, so that a stream of changes leaves the evaluator time to evaluate.
    const pauseMs = Math.min(MAX_RELOAD_PAUSE_MS, 1.5 * (this.#loadingMs ?? MAX_RELOAD_PAUSE_MS));
    const now = performance.now();
    if (changedSets.length === 0 || now - this.#reloadedAtMs < pauseMs) return false;
    await this.#options.writeRules?.(new Map([...sets.values()].filter(({ text }) => text !== "").map(({ orgId, text }) => [orgId, text])));
    await this.#options.evaluator.reload(changedSets.map(({ orgId }) => orgId));
    this.#reloadedAtMs = performance.now();
    this.#loadingMs = undefined;
    for (const { orgId, revision } of changedSets) {
      const change = this.#pending.get(orgId);
      if (change) change.requestedRevision = revision;
    }
    return true;
  }

  /** Reads which changes the evaluator has loaded. A revision later than the requested one also confirms the change. */
  async #readBack(): Promise<void> {
    const behind = this.#pendingSets().filter(({ orgId }) => this.#pending.get(orgId)?.requestedRevision !== undefined);
    for (let at = 0; at < behind.length; at += MAX_NAMED_GROUPS) {
      const batch = behind.slice(at, at + MAX_NAMED_GROUPS);
      const loaded = await this.#loadedRevisions(batch);
      for (const set of batch) {
        this.#recordLoaded(set, loaded.get(groupNameOf(set)) ?? (set.text === "" ? set.revision : -1));
      }
    }
  }

  #recordLoaded({ orgId, revision }: RuleSet, loaded: number): void {
    if (loaded <= (this.#confirmed.get(orgId) ?? -1)) return;
    const now = performance.now();
    const change = this.#pending.get(orgId);
    this.#confirmed.set(orgId, loaded);
    this.#loadingMs ??= now - this.#reloadedAtMs;
    if (loaded >= revision) this.#pending.delete(orgId);
    else this.#pending.set(orgId, { sinceMs: now, requestedRevision: change?.requestedRevision });
  }

  /**
   * One rule of each organisation represents its groups, so that the response stays small. The response does not contain removed groups.
   */
  async #loadedRevisions(sets: readonly RuleSet[]): Promise<ReadonlyMap<string, number>> {
    const labels = sets.map(({ orgId, rules: [rule], slos: [slo] }) => ({
      org_id: orgId,
      ...(rule ? { rule_id: rule.id } : slo && { slo_id: slo.id }),
    }));
    const groups = await this.#options.evaluator.groups({ groups: sets.map(groupNameOf), labels, withoutAlerts: true });
    return new Map(groups.map((group) => [group.name, revisionOf(group) ?? -1]));
  }

  /**
   * Checks whether overdue changes were rejected. If they were, or if a change has been pending for `confirmMs`, makes the next step request
   * another reload, and throws; otherwise returns.
   */
  async #checkOverdue(): Promise<void> {
    const now = performance.now();
    const longestMs = now - Math.max(this.#checkedOverdueAtMs, Math.min(...[...this.#pending.values()].map(({ sinceMs }) => sinceMs)));
    if (this.#pending.size === 0 || longestMs < SUSPICIOUS_MS) return;
    const isRefused = await this.#options.evaluator.refusedLastReload([...this.#pending.keys()]);
    if (!isRefused && longestMs < this.#timing.confirmMs) return;
    if (isRefused) await this.#options.quarantine.withhold(this.#pendingSets(), this.#confirmed);
    for (const change of this.#pending.values()) change.requestedRevision = undefined;
    this.#checkedOverdueAtMs = performance.now();
    this.#hasChanges = true;
    throw new Error(`the evaluator has not loaded the rules of ${this.#pending.size} organisations`);
  }

  #pendingSets(): RuleSet[] {
    return [...this.#pending.keys()].flatMap((orgId) => this.#sets.get(orgId) ?? []);
  }
}

function groupNameOf({ orgId, rules, slos }: RuleSet): string {
  return rules.length === 0 && slos.length > 0 ? orgId + SECOND_GROUP : orgId;
}

/**
 * Reason shown to users for a withheld rule that was not yet tried separately. The database stores it, and `tryNext` compares it, so a changed
 * text would leave rules that are waiting during an upgrade without a trial.
 */
const WITHHELD = "held back for some seconds: the evaluator refused rules that were changed together with this one";

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

  /** Call after a rejected reload: `missing` was not loaded, `confirmed` are the revisions that were loaded before. */
  async withhold(missing: readonly RuleSet[], confirmed: ReadonlyMap<string, number>): Promise<void> {
    const suspects = missing.flatMap((set) => suspectsOf(set).filter(({ revision }) => revision > (confirmed.get(set.orgId) ?? 0)));
    const { dryRun } = this.#options;
    if (dryRun) return void (await Promise.all(suspects.map((rule) => this.#tryInDryRun(rule, dryRun))));
    const [suspect] = suspects;
    if (suspect && suspects.length === 1) return await this.#refuse(suspect, "the evaluator rejects this rule");
    for (const rule of suspects) await this.#options.table.refuse(rule, WITHHELD);
    this.#options.log.warn(
      { event: "evaluator.rules_refused", rules: suspects.length },
      "vmalert rejected changed rules, adding them one by one",
    );
  }

  /** Tries the next withheld rule, if there is no dry run. Call only when all other rules are loaded. Returns whether there was such a rule. */
  async tryNext(): Promise<boolean> {
    return this.#options.dryRun === undefined && (await this.#options.table.readmit(WITHHELD));
  }

  async #tryInDryRun(rule: ReturnType<typeof suspectsOf>[number], dryRun: DryRun): Promise<void> {
    const refusal = await dryRun.check(rule.group());
    if (refusal !== undefined) await this.#refuse(rule, `the evaluator rejects this rule: ${refusal.slice(0, 300)}`);
  }

  async #refuse(rule: Stored, reason: string): Promise<void> {
    this.#options.log.error({ event: "evaluator.rule_withheld", org_id: rule.orgId, rule_id: rule.id, reason }, "withheld a rule");
    await this.#options.table.refuse(rule, reason);
  }
}
