// What happens in a history of an agent and its collector, drawn from its seed (plan.ts).
import { Random } from "../../common/random.fixture.ts";

export const FILES = 4;

export type AgentStep = { readonly atMs: number } & (
  | { readonly kind: "lines"; readonly file: number; readonly count: number }
  /** The file is truncated, and gets the same lines again. */
  | { readonly kind: "rewrite"; readonly file: number }
  | { readonly kind: "kill collector"; readonly downMs: number }
  | { readonly kind: "kill" | "power cut" | "stop"; readonly downMs: number; readonly clockMs: number }
  | { readonly kind: "network"; readonly fault: NetworkFault; readonly forMs: number }
  | { readonly kind: "read-only"; readonly forMs: number }
  | { readonly kind: "disk full"; readonly freeBytes: number; readonly forMs: number }
  | { readonly kind: "failed write" | "failed fsync" | "failed read"; readonly times: number }
  | { readonly kind: "clock"; readonly byMs: number }
);

export type NetworkFault = "unavailable" | "loses requests" | "loses responses" | "delays requests" | "duplicates requests";

const HOUR_MS = 3_600_000;
const FAULTS: readonly NetworkFault[] = ["unavailable", "loses requests", "loses responses", "delays requests", "duplicates requests"];

export function drawAgentPlan(seed: number): AgentStep[] {
  const random = new Random(seed ^ 0xa6e7);
  const lengthMs = random.whole(3000, 90_000);
  const at = (): number => random.whole(0, lengthMs);
  const file = (): number => random.whole(0, FILES - 1);
  const lines = Array.from({ length: random.whole(1, 20) }, (): AgentStep => ({
    kind: "lines",
    atMs: at(),
    file: file(),
    count: random.whole(1, 12),
  }));
  const rewrites = Array.from({ length: random.whole(0, 3) }, (): AgentStep => ({ kind: "rewrite", atMs: at(), file: file() }));
  const faults = Array.from({ length: random.whole(0, 7) }, () => drawFault(random, at())).flatMap((fault) =>
    withNetworkFault(random, fault),
  );
  return [...lines, ...rewrites, ...faults].toSorted((a, b) => a.atMs - b.atMs);
}

/** Kills matter most while it is unknown what the backend has. */
function withNetworkFault(random: Random, step: AgentStep): AgentStep[] {
  if (!step.kind.startsWith("kill") || random.chance(0.4)) return [step];
  const atMs = Math.max(0, step.atMs - random.whole(0, 4000));
  const lines = Array.from({ length: random.whole(0, 3) }, (): AgentStep => ({
    kind: "lines",
    atMs: atMs + random.whole(0, 3000),
    file: random.whole(0, FILES - 1),
    count: random.whole(1, 8),
  }));
  return [{ kind: "network", atMs, fault: random.pick(FAULTS), forMs: random.whole(500, 12_000) }, ...lines, step];
}

function drawFault(random: Random, atMs: number): AgentStep {
  const forMs = random.whole(100, 30_000);
  const downMs = random.whole(1, 5000);
  const clockMs = random.chance(0.2) ? random.pick([-HOUR_MS, HOUR_MS, -5 * HOUR_MS, 5 * HOUR_MS]) : 0;
  switch (random.whole(0, 10)) {
    case 0:
    case 1:
      return { kind: "kill collector", atMs, downMs };
    case 2:
    case 3:
      return { kind: "kill", atMs, downMs, clockMs };
    case 4:
      return { kind: random.pick(["power cut", "stop"]), atMs, downMs, clockMs };
    case 5:
    case 6:
      return { kind: "network", atMs, forMs, fault: random.pick(FAULTS) };
    case 7:
      return { kind: "read-only", atMs, forMs };
    case 8:
      return { kind: "disk full", atMs, forMs, freeBytes: random.whole(0, 400) };
    case 9:
      return { kind: random.pick(["failed write", "failed fsync", "failed read"]), atMs, times: random.whole(1, 3) };
    default:
      return { kind: "clock", atMs, byMs: random.pick([-HOUR_MS, HOUR_MS, -61_000, 61_000]) };
  }
}
