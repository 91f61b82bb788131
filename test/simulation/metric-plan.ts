// What happens in a history of the write path of metrics, drawn from its seed (plan.ts).
import { Random } from "./random.ts";

export type MetricStep = { readonly atMs: number } & (
  | { readonly kind: "write" | "failed write" | "failed fsync" | "failed read" | "rot" }
  | { readonly kind: "kill" | "power cut" | "engine crash"; readonly downMs: number }
  | { readonly kind: "engine refuses" | "read-only"; readonly forMs: number }
  | { readonly kind: "disk full"; readonly freeBytes: number; readonly forMs: number }
  | { readonly kind: "clock"; readonly byMs: number }
);

export function drawMetricPlan(seed: number): MetricStep[] {
  const random = new Random(seed ^ 0x3e7);
  const lengthMs = random.whole(2000, 120_000);
  const at = (): number => random.whole(0, lengthMs);
  const writes = Array.from({ length: random.whole(1, 40) }, (): MetricStep => ({ kind: "write", atMs: at() }));
  const faults = Array.from({ length: random.whole(0, 7) }, () => drawFault(random, at()));
  return [...writes, ...faults].toSorted((a, b) => a.atMs - b.atMs);
}

function drawFault(random: Random, atMs: number): MetricStep {
  const forMs = random.whole(100, 20_000);
  const downMs = random.whole(1, 5000);
  switch (random.whole(0, 8)) {
    case 0:
      return { kind: "kill", atMs, downMs };
    case 1:
      return { kind: "power cut", atMs, downMs };
    case 2:
    case 3:
      return { kind: "engine crash", atMs, downMs };
    case 4:
      return { kind: "engine refuses", atMs, forMs };
    case 5:
      return { kind: "read-only", atMs, forMs };
    case 6:
      return { kind: "disk full", atMs, forMs, freeBytes: random.whole(0, 600) };
    case 7:
      return { kind: random.pick(["failed write", "failed fsync", "failed read", "rot"]), atMs };
    default:
      return { kind: "clock", atMs, byMs: random.pick([-3_600_000, 3_600_000]) };
  }
}
