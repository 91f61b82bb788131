// Checks a rule before it is stored: its shape, an instant query limited to the organisation (which finds an unknown function or a wrong
// argument), and a dry run of vmalert (which finds what its parser refuses). Invariant: vmalert accepts every rule that passes, because one
// rule that it refuses stops the rules of all tenants. Organisations take turns; if the client has disconnected, the engines are not asked.
import { UNLIMITED } from "../admission/query-queue.ts";
import type { DryRun } from "../engines/vmalert/dry-run.ts";
import type { RuleGroup } from "../engines/vmalert/rule-files.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import { ApiError } from "../errors.ts";
import { invalidField } from "../http/schemas.ts";
import { FairQueue } from "../admission/fair-queue.ts";
import { findExpressionProblem } from "./expression.ts";
import { MAX_REASON_LENGTH } from "./alerting-limits.ts";
import { type LogCondition, toFilterError, findWindowProblem } from "./log-condition.ts";
import { draftGroup, groupOf } from "./rule-groups.ts";
import { type CheckedRule, type SentRule, validateRule } from "./alert-rule.ts";
import { burnRateQuery, checkSlo, type SloBody } from "./slo.ts";
import { recordingGroup } from "./slo-rules.ts";

export interface RuleCheckOptions {
  readonly metrics: Pick<MetricsStore, "query">;
  /** Undefined if no vmalert is installed next to this service; a rejected rule is then detected by reading the evaluator's rules. */
  readonly dryRun: Pick<DryRun, "check"> | undefined;
  /** Undefined if this process has no log store; the rule's status then shows whether records can be counted. */
  readonly countLogs?: CountNow | undefined;
  readonly intervalMs: number;
}

/** Number of alerts that a condition on logs would have now. */
export type CountNow = (orgId: string, logs: LogCondition, signal: AbortSignal) => Promise<number>;

/** The same as the evaluator's timeout. */
const QUERY_TIMEOUT = "10s";
/** The longest window of a burn rate, which costs most. */
const LONGEST_WINDOW = "3d";
/** Checks that have a slot at the same time share a dry run. */
const QUEUE_LIMITS = {
  running: 16,
  perOrg: 4,
  waitingPerOrg: 64,
  fullMessage: "too many rules of this organisation are waiting for validation: try again",
};

export class RuleCheck {
  readonly #options: RuleCheckOptions;
  readonly #queue = new FairQueue(QUEUE_LIMITS);

  constructor(options: RuleCheckOptions) {
    this.#options = options;
  }

  /**
   * Returns the rule, and how many series match now. Throws ApiError `invalid_field`, which names the field, and `unavailable` if too many
   * requests of the organisation are waiting; the signal's reason if it aborts.
   */
  async check(orgId: string, body: SentRule, signal?: AbortSignal): Promise<{ readonly rule: CheckedRule; readonly matching: number }> {
    const rule = validateRule(body);
    const problem = rule.logs ? undefined : findExpressionProblem(rule.expr);
    if (problem !== undefined) throw invalidField("expr", problem);
    const windowProblem = rule.logs && findWindowProblem(rule.logs, this.#options.intervalMs);
    if (windowProblem !== undefined) throw invalidField("logs.window", windowProblem);
    return { rule, matching: await this.#queue.run(orgId, signal, async () => await this.#tryRule(orgId, rule, signal)) };
  }

  async #tryRule(orgId: string, rule: CheckedRule, signal: AbortSignal | undefined): Promise<number> {
    const dryRun = this.#dryRun("expr", draftGroup(orgId, rule), signal);
    // Waits for both, so that the slot is not released while one is still running.
    const [series, refusal] = await Promise.allSettled([this.#countSeries(orgId, rule, signal), dryRun]);
    signal?.throwIfAborted();
    if (series.status === "rejected") throw series.reason;
    if (refusal.status === "rejected") throw refusal.reason;
    return series.value;
  }

  /** Throws ApiError `invalid_field`, which names the field, if vmalert rejects the group, and `unavailable`. */
  async #dryRun(field: string, group: RuleGroup, signal: AbortSignal | undefined): Promise<void> {
    const refusal = await this.#options.dryRun?.check(group, signal).catch((cause: unknown) => {
      signal?.throwIfAborted();
      // The dry run timed out, or the machine cannot start another process.
      throw new ApiError("unavailable", "the rule cannot be validated now: try again", { cause, retryAfterS: 2 });
    });
    if (refusal !== undefined) throw invalidField(field, `the evaluator rejects the rule: ${shortenReason(refusal)}`);
  }

  async #countSeries(orgId: string, { expr, logs }: CheckedRule, signal: AbortSignal | undefined): Promise<number> {
    if (logs) return await this.#countLogGroups(orgId, logs, signal ?? new AbortController().signal);
    const data = await this.#query(orgId, "expr", expr, signal);
    return data?.resultType === "vector" ? (data.result?.length ?? 0) : 1;
  }

  /** Throws ApiError `invalid_field`, which names the field, if the engine rejects the expression. */
  async #query(orgId: string, field: string, expr: string, signal: AbortSignal | undefined): Promise<PrometheusResponse["data"]> {
    const params = new URLSearchParams({ query: expr, timeout: QUERY_TIMEOUT });
    const answer = await this.#options.metrics.query(orgId, "query", params, { ...UNLIMITED, signal }).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 400) throw invalidField(field, error.message.replace(/^query: /, ""));
      throw storeError(error, "the metrics store, which validates rules, cannot be reached: try again");
    });
    const { error, data } = parse(answer.body);
    if (answer.status >= 400) throw invalidField(field, `the metrics engine rejects it: ${shortenReason(error ?? "no reason given")}`);
    return data;
  }

  /** Throws ApiError `invalid_field`, which names the field, if the objective is invalid or the engine rejects its expressions. */
  async checkSlo(orgId: string, body: SloBody, signal?: AbortSignal): Promise<void> {
    checkSlo(body);
    const { promql } = body.indicator;
    if (!promql) return;
    const draft = { ...body, orgId, id: "", definition: "" };
    const expressions = { ...promql, both: burnRateQuery(draft, LONGEST_WINDOW) };
    await this.#queue.run(orgId, signal, async () => {
      // Each alone, so that none of them ends the parentheses around it.
      for (const [name, expression] of Object.entries(expressions))
        await this.#query(orgId, `indicator.promql.${name}`, expression.replaceAll("[$window]", `[${LONGEST_WINDOW}]`), signal);
      await this.#dryRun("indicator.promql", recordingGroup(groupOf(orgId, 0, []), [draft], this.#options.intervalMs), signal);
    });
  }

  async #countLogGroups(orgId: string, logs: LogCondition, signal: AbortSignal): Promise<number> {
    const { countLogs } = this.#options;
    if (!countLogs) return 0;
    return await countLogs(orgId, logs, signal).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === "query_too_expensive") throw invalidField("logs", error.message);
      throw storeError(toFilterError(error), "the log store, which validates rules over logs, cannot be reached: try again");
    });
  }
}

interface PrometheusResponse {
  readonly error?: string;
  readonly data?: { readonly resultType?: string; readonly result?: readonly unknown[] };
}

function parse(body: Buffer): PrometheusResponse {
  try {
    return JSON.parse(body.toString("utf8")) as PrometheusResponse;
  } catch {
    return { error: body.toString("utf8") };
  }
}

/** An organisation with too many queries gets that error; any other error means that the store is unavailable. */
export function storeError(error: unknown, message: string): ApiError {
  if (error instanceof ApiError && error.status < 500) return error;
  return new ApiError("unavailable", message, { cause: error, retryAfterS: 2 });
}

function shortenReason(reason: string): string {
  return reason.length > MAX_REASON_LENGTH ? `${reason.slice(0, MAX_REASON_LENGTH)}…` : reason;
}
