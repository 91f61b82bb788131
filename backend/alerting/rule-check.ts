// Asks, before a rule is stored, whether it is one: our own look at its shape, an instant query under the organisation's own scope (an
// unknown function, a wrong argument), and vmalert's dry run of it (what its parser refuses). Invariant: what passes is taken by the
// evaluator, because one rule that it refuses stops the rules of all tenants. Used by routes.ts.
import type { DryRun } from "../engines/vmalert/dry-run.ts";
import type { MetricsStore } from "../metrics/store.ts";
import { ApiError } from "../errors.ts";
import { whyNoAlert } from "./expression.ts";
import { draftGroup } from "./rule-groups.ts";
import { checkBody, invalid, type RuleBody } from "./rule.ts";

export interface RuleCheckOptions {
  readonly metrics: Pick<MetricsStore, "query">;
  /** Undefined where no vmalert is installed beside this service; a refusal is then found by reading the evaluator back. */
  readonly dryRun: DryRun | undefined;
}

/** As long as the evaluator would wait for it. */
const QUERY_TIMEOUT = "10s";
const MAX_REASON_LENGTH = 300;

export class RuleCheck {
  readonly #metrics: Pick<MetricsStore, "query">;
  readonly #dryRun: DryRun | undefined;

  constructor({ metrics, dryRun }: RuleCheckOptions) {
    this.#metrics = metrics;
    this.#dryRun = dryRun;
  }

  /** Resolves with the number of series that match now. Throws ApiError `invalid_field` naming the field. */
  async check(orgId: string, body: RuleBody): Promise<number> {
    checkBody(body);
    const reason = whyNoAlert(body.expr);
    if (reason !== undefined) throw invalid("expr", reason);
    const [series, verdict] = await Promise.all([this.#matching(orgId, body.expr), this.#dryRun?.check(draftGroup(orgId, body))]);
    if (verdict !== undefined) throw invalid("expr", `the evaluator refuses the rule: ${shortened(verdict)}`);
    return series;
  }

  async #matching(orgId: string, expr: string): Promise<number> {
    const params = new URLSearchParams({ query: expr, timeout: QUERY_TIMEOUT });
    const answer = await this.#metrics.query(orgId, "query", params).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === "invalid_parameter") throw invalid("expr", "matches too many series");
      throw new ApiError("unavailable", "the metrics store cannot be reached, and rules are tried there: try again", {
        cause: error,
        retryAfterS: 2,
      });
    });
    const { error, data } = parse(answer.body);
    if (answer.status >= 400) throw invalid("expr", `the metrics engine refuses it: ${shortened(error ?? "no reason given")}`);
    return data?.resultType === "vector" ? (data.result?.length ?? 0) : 1;
  }
}

interface PrometheusAnswer {
  readonly error?: string;
  readonly data?: { readonly resultType?: string; readonly result?: readonly unknown[] };
}

function parse(body: Buffer): PrometheusAnswer {
  try {
    return JSON.parse(body.toString("utf8")) as PrometheusAnswer;
  } catch {
    return { error: body.toString("utf8") };
  }
}

function shortened(reason: string): string {
  return reason.length > MAX_REASON_LENGTH ? `${reason.slice(0, MAX_REASON_LENGTH)}…` : reason;
}
