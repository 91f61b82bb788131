// Runs the history of a seed, and shrinks a history that fails. The seed also chooses what is simulated: a backend with its journal, two
// replicas that share a server, the write path of metrics, or an agent.
import { AgentHistory } from "./agent-history.ts";
import { drawAgentPlan } from "./agent-plan.ts";
import { MetricHistory } from "./metric-history.ts";
import { drawMetricPlan } from "./metric-plan.ts";
import { drawPlan } from "./plan.ts";
import { type Outcome, RowHistory } from "./row-history.ts";

interface History {
  readonly steps: number;
  /** Runs the steps of the plan with these indexes. */
  readonly run: (kept?: ReadonlySet<number>) => Promise<Outcome>;
}

export type Kind = "backend" | "replicas" | "metrics" | "agent";

export function kindOf(seed: number): Kind {
  return (["backend", "agent", "backend", "replicas", "metrics"] as const)[seed % 5] ?? "backend";
}

export function historyOf(seed: number): History {
  const kind = kindOf(seed);
  if (kind === "agent") return ofPlan(drawAgentPlan(seed), (plan) => new AgentHistory(seed).run(plan));
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
