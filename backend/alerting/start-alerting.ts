// Starts the alerting role: routes for its application, and the background work that keeps the evaluator in sync.
import type { Kysely } from "kysely";
import { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { type Evaluator, ShardedEvaluator } from "../engines/vmalert/vmalert-shards.ts";
import { DryRun } from "../engines/vmalert/dry-run.ts";
import type { EmbeddedEvaluator } from "../engines/vmalert/embedded-vmalert.ts";
import type { Log } from "../log.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import { Quarantine, Reconciler, type ReconcilerTiming } from "./reconciler.ts";
import { createRuleRoutes } from "./alert-rule-routes.ts";
import { type CountNow, RuleCheck } from "./rule-check.ts";
import { RuleSets } from "./rule-groups.ts";
import { createSloRoutes } from "./slo-routes.ts";
import { recordingIntervalMs } from "./slo-rules.ts";
import { SloTable } from "./slo-table.ts";
import { type RulesListenerOptions, startRulesListener } from "./rules-listener.ts";
import { type AlertingTables, RuleTable } from "./alert-rule-table.ts";

export interface AlertingOptions {
  readonly db: Kysely<AlertingTables>;
  readonly metrics: Pick<MetricsStore, "query">;
  /** The evaluator of this process; undefined if it is external. */
  readonly embedded?: EmbeddedEvaluator | undefined;
  /** EVALUATOR_QUERY_URL: overrides the address of the embedded evaluator. */
  readonly evaluatorQueryUrl?: string | undefined;
  /** `settings.vmalertPath`, for dry runs. */
  readonly vmalertCandidates: readonly string[];
  readonly intervalMs: number;
  /** Set if this process has a log store. */
  readonly countLogs?: CountNow | undefined;
  /** Serves the rules to an external evaluator. */
  readonly rulesListener?: Pick<RulesListenerOptions, "listen" | "password" | "alertsPassword" | "takeAlerts"> | undefined;
  readonly responses: ResponseBudget;
  readonly log: Log;
  readonly timing?: Partial<ReconcilerTiming>;
}

export type Alerting = Awaited<ReturnType<typeof startAlerting>>;

const DEFAULT_EVALUATOR_URL = "http://localhost:8880";

/** Resolves immediately, because the evaluator may start later. Rejects only if the rules listener cannot listen. */
export async function startAlerting(options: AlertingOptions) {
  const { embedded, log, metrics, intervalMs } = options;
  await using started = new AsyncDisposableStack();
  const table = new RuleTable(options.db);
  const slos = new SloTable(options.db);
  const openRuleSets = () => new RuleSets(table, slos, recordingIntervalMs(intervalMs));
  const dryRun = findDryRun(options.vmalertCandidates, log);
  const evaluator = started.use(openEvaluator(options.evaluatorQueryUrl ?? embedded?.url ?? DEFAULT_EVALUATOR_URL));
  const rulesListener =
    options.rulesListener && started.use(await startRulesListener({ ...options.rulesListener, ruleSets: openRuleSets(), log }));
  const reconciler = started.use(
    new Reconciler({
      ruleSets: openRuleSets(),
      evaluator,
      writeRules: embedded && ((text) => embedded.writeRules(text)),
      quarantine: new Quarantine({ table, dryRun, log }),
      log,
      timing: options.timing,
    }),
  );
  const changed = () => reconciler.reconcileSoon();
  const check = new RuleCheck({ metrics, dryRun, countLogs: options.countLogs, intervalMs });
  const parts = started.move();
  return {
    /** The routes, which mount.ts registers. */
    routes: [
      ...createRuleRoutes({ rules: table, check, evaluator, metrics, responses: options.responses, changed, intervalMs }),
      ...createSloRoutes({ slos, check, changed }),
    ],
    /** True while no change is later than documented: for /metrics, not for readiness. */
    get isInSync() {
      return reconciler.isInSync;
    },
    rulesListener,
    evaluator,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

/** `urls`: comma-separated URLs of vmalerts that share the rules. */
function openEvaluator(urls: string): Evaluator & AsyncDisposable {
  return new ShardedEvaluator(urls.split(",").map((url) => new VmalertClient(url)));
}

/** Without a local vmalert, the service finds a rejected rule only by reading the evaluator's rules. */
function findDryRun(candidates: readonly string[], log: Log): DryRun | undefined {
  try {
    return new DryRun({ candidates });
  } catch (error) {
    log.warn({ event: "evaluator.no_dry_run", err: error }, "no vmalert program found, so it cannot validate rules before they are stored");
    return undefined;
  }
}
