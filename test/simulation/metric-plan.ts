// What happens in a history of the write path of metrics, drawn from its seed (plan.ts).
import { Random } from "../../common/random.fixture.ts";

/** How long a crashed engine takes to start. */
export const ENGINE_STARTS_MS = 1000;

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
  const faults = Array.from({ length: random.whole(0, 7) }, () => drawFaults(random, at())).flat();
  // Often close to a fault.
  const writeAt = (): number => (faults.length > 0 && random.chance(0.4) ? random.pick(faults).atMs + random.whole(-8, 12) : at());
  const writes = Array.from({ length: random.whole(1, 40) }, (): MetricStep => ({ kind: "write", atMs: Math.max(0, writeAt()) }));
  return [...writes, ...faults].toSorted((a, b) => a.atMs - b.atMs);
}

/** An engine that has crashed often crashes again, during its replay. */
function drawFaults(random: Random, atMs: number): MetricStep[] {
  const fault = drawFault(random, atMs);
  if (fault.kind !== "engine crash" || random.chance(0.5)) return [fault];
  return [fault, { ...fault, atMs: atMs + fault.downMs + ENGINE_STARTS_MS + random.whole(0, 12) }];
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
