// What happens in a history, drawn from its seed: bodies that senders send, faults, kills and queries. A plan is data, so that a history that
// fails can be shrunk by leaving steps out.
import { Random } from "../../common/random.fixture.ts";
import type { InsertFault } from "./simulated-clickhouse.ts";

export type Step = { readonly atMs: number } & (
  | {
      readonly kind: "body";
      readonly org: number;
      readonly host: number;
      /** Bodies without a time of their own are stored each time they arrive. */
      readonly isHashed: boolean;
      readonly isRefused: boolean;
      /** Rows of each day. */
      readonly days: readonly (readonly [day: number, rows: number])[];
      /** The sender sends it again after it was acknowledged, as an agent does that was killed. */
      readonly repeatsAfterMs: number | undefined;
    }
  | {
      readonly kind: "kill" | "power cut" | "stop";
      readonly downMs: number;
      /** How far the clock is set while no process runs. */
      readonly clockMs: number;
    }
  | { readonly kind: "engine"; readonly fault: InsertFault; readonly forMs: number }
  | { readonly kind: "failing queries" | "read-only" | "slow disk"; readonly forMs: number }
  | { readonly kind: "disk full"; readonly freeBytes: number; readonly forMs: number }
  | { readonly kind: "failed write" | "failed fsync" | "failed read"; readonly times: number }
  | { readonly kind: "clock"; readonly byMs: number }
  | { readonly kind: "rot" | "query" }
  | { readonly kind: "network"; readonly loses: "requests" | "responses"; readonly forMs: number }
);

const HOUR_MS = 3_600_000;
const FIRST_DAY = 20_785;
/** Shorter than the time for which a body is recognised, together with the time that everything needs to recover. */
const LONGEST_MS = 200_000;
const LONG_MS = 900_000;

export function drawPlan(seed: number): Step[] {
  const random = new Random(seed ^ 0x5eed);
  const lengthMs = random.whole(2000, LONGEST_MS);
  const at = (): number => random.whole(0, lengthMs);
  const bodies = Array.from({ length: random.whole(1, 25) }, () => drawBody(random, random.chance(0.5) ? random.whole(0, 3000) : at()));
  const faults = Array.from({ length: random.whole(0, 7) }, () => drawFault(random, at())).flatMap((fault) =>
    withSlowInserts(random, fault),
  );
  const queries = Array.from({ length: random.whole(0, 4) }, (): Step => ({ kind: "query", atMs: at() }));
  // Its own generator, so that other histories stay as they are.
  const lost = faults.filter(({ kind }) => kind === "failed fsync").flatMap(({ atMs }) => drawLostPages(new Random(seed ^ 0xf5), atMs));
  const steps = [...bodies, ...faults, ...lost, ...queries].toSorted((a, b) => a.atMs - b.atMs);
  // Some processes have run for longer than bodies are recognised.
  return random.chance(0.2) ? steps.map((step) => ({ ...step, atMs: step.atMs + LONG_MS })) : steps;
}

function drawBody(random: Random, atMs: number): Step {
  const day = (): readonly [number, number] => [FIRST_DAY + random.whole(0, 3), random.whole(1, 3)];
  const days = new Map([day(), ...(random.chance(0.3) ? [day()] : [])]);
  return {
    kind: "body",
    atMs,
    org: random.whole(0, 1),
    host: random.whole(0, 1),
    isHashed: random.chance(0.8),
    isRefused: random.chance(0.05),
    days: [...days],
    repeatsAfterMs: random.chance(0.3) ? random.whole(0, 60_000) : undefined,
  };
}

function drawFault(random: Random, atMs: number): Step {
  const forMs = random.whole(100, 40_000);
  switch (random.whole(0, 13)) {
    case 0:
    case 1:
      return { kind: "kill", atMs, ...drawDown(random) };
    case 2:
    case 3:
      return { kind: "power cut", atMs, ...drawDown(random) };
    case 4:
      return { kind: "stop", atMs, ...drawDown(random) };
    case 5:
    case 6:
      return { kind: "engine", atMs, forMs, fault: random.pick(["unavailable", "stores and fails", "stores some days and fails", "slow"]) };
    case 7:
      return { kind: random.pick(["failing queries", "read-only", "slow disk"]), atMs, forMs };
    case 8:
      return { kind: "disk full", atMs, forMs, freeBytes: random.whole(0, 600) };
    case 9:
      return { kind: random.pick(["failed write", "failed fsync", "failed read"]), atMs, times: random.whole(1, 3) };
    case 10:
      return { kind: "clock", atMs, byMs: random.pick([-HOUR_MS, -5 * HOUR_MS, -61_000, HOUR_MS, 5 * HOUR_MS, 61_000]) };
    case 11:
      return { kind: "rot", atMs };
    default:
      return { kind: "network", atMs, forMs, loses: random.pick(["requests", "responses"]) };
  }
}

/**
 * Some kills meet inserts that take long, so that a server may finish them after another replica has taken over. Some steps of the clock are
 * taken back during them.
 */
function withSlowInserts(random: Random, step: Step): Step[] {
  if (step.kind === "clock" && random.chance(0.5)) {
    const back = { ...step, atMs: step.atMs + random.whole(1, 20_000), byMs: -step.byMs };
    return [...withSlowInserts(random, { kind: "kill", atMs: step.atMs, ...drawDown(random) }), step, back];
  }
  if (step.kind !== "kill" || random.chance(0.5)) return [step];
  const atMs = Math.max(0, step.atMs - 1000);
  const bodies = Array.from({ length: 3 }, () => drawBody(random, atMs + random.whole(0, 900)));
  return [{ kind: "engine", atMs, forMs: 2000, fault: "slow" }, ...bodies, step];
}

/** Around a failed fsync: its process is killed, the next one reads what is only in the page cache, and then the power fails. */
function drawLostPages(random: Random, atMs: number): Step[] {
  if (random.chance(0.5)) return [];
  const bodies = Array.from({ length: 3 }, () => drawBody(random, atMs + random.whole(0, 300)));
  return [
    { kind: "engine", atMs: Math.max(0, atMs - 500), forMs: 15_000, fault: "unavailable" },
    ...bodies,
    { kind: "kill", atMs: atMs + random.whole(300, 3000), downMs: random.whole(1, 1000), clockMs: 0 },
    { kind: "power cut", atMs: atMs + random.whole(4000, 10_000), downMs: random.whole(1, 1000), clockMs: 0 },
  ];
}

function drawDown(random: Random): { downMs: number; clockMs: number } {
  const clockMs = random.chance(0.2) ? random.pick([-HOUR_MS, HOUR_MS, -5 * HOUR_MS, 5 * HOUR_MS]) : 0;
  return { downMs: random.whole(1, 5000), clockMs };
}
