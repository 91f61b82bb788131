// Runs the history of a seed, and shrinks a history that fails. The seed also chooses what is simulated: a backend with its journal, two
// replicas that share a server, or the write path of metrics.
import { MetricHistory } from "./metric-history.ts";
import { drawMetricPlan } from "./metric-plan.ts";
import { drawPlan } from "./plan.ts";
import { type Outcome, RowHistory } from "./row-history.ts";

interface History {
  readonly steps: number;
  /** Runs the steps of the plan with these indexes. */
  readonly run: (kept?: ReadonlySet<number>) => Promise<Outcome>;
}

export type Kind = "backend" | "replicas" | "metrics";

export function kindOf(seed: number): Kind {
  return (["backend", "backend", "backend", "replicas", "metrics"] as const)[seed % 5] ?? "backend";
}

export function historyOf(seed: number): History {
  const kind = kindOf(seed);
  if (kind === "metrics") return ofPlan(drawMetricPlan(seed), (plan) => new MetricHistory(seed).run(plan));
  return ofPlan(drawPlan(seed), (plan) => new RowHistory(seed, kind === "replicas" ? 2 : 1).run(plan));
}

function ofPlan<T>(plan: readonly T[], run: (plan: readonly T[]) => Promise<Outcome>): History {
  return { steps: plan.length, run: (kept) => run(kept ? plan.filter((_, index) => kept.has(index)) : plan) };
}

export async function runSeed(seed: number): Promise<Outcome> {
  return await historyOf(seed).run();
}

/** Leaves out every step without which the history still fails. */
export async function shrink(seed: number): Promise<Outcome> {
  const { steps, run } = historyOf(seed);
  const kept = new Set(Array.from({ length: steps }, (_, index) => index));
  let failed = await run();
  for (let at = steps - 1; at >= 0 && failed.problem !== undefined; at -= 1) {
    kept.delete(at);
    const outcome = await run(kept);
    if (outcome.problem === undefined) kept.add(at);
    else failed = outcome;
  }
  return failed;
}
