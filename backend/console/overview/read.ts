// Reads the data of the overview. Invariants: what is wrong is one request, of limited cost (GET /query/problems); only the rows that are
// shown stay in memory.
import type { ApiResponses } from "../../client/api.ts";
import { listChannels } from "../notification/resources.ts";
import { readServices, worstFirst } from "../services/service.ts";
import type { ServiceTableProps } from "../services/service-table.tsx";
import { call } from "../state/api.ts";

const HOUR_MS = 3_600_000;
const SHOWN_SERVICES = 15;

export type Problems = ApiResponses["GET /query/problems"];
export type Problem = Problems["problems"][number];

export async function readProblems(signal: AbortSignal): Promise<Problems & { readonly atMs: number }> {
  return { ...(await call<Problems>("/query/problems", { signal })), atMs: Date.now() };
}

export interface WorstServices {
  readonly count: number;
  readonly services: ServiceTableProps["services"];
}

export async function readWorstServices(signal: AbortSignal): Promise<WorstServices> {
  const nowMs = Date.now();
  const [now, before] = await Promise.all([
    readServices(nowMs - HOUR_MS, nowMs, signal),
    readServices(nowMs - 2 * HOUR_MS, nowMs - HOUR_MS, signal, 1),
  ]);
  return { count: now.length, services: worstFirst(now, before).slice(0, SHOWN_SERVICES) };
}

export type Volume = ApiResponses["GET /api/usage"][number];

export interface SetUp {
  /** Enabled channels. */
  readonly channels: number;
  readonly rules: number;
  /** Today's volume. */
  readonly volume: readonly Volume[];
  /** Signals received in the last 7 days. */
  readonly signals: ReadonlySet<string>;
}

export async function readSetUp(signal: AbortSignal): Promise<SetUp> {
  const [channels, rules, usage] = await Promise.all([
    listChannels(signal),
    call<unknown[]>("/alerting/rules", { signal }),
    call<Volume[]>("/api/usage", { query: { days: 7 }, signal }),
  ]);
  return {
    channels: channels.filter(({ enabled }) => enabled).length,
    rules: rules.length,
    volume: usage.filter(({ day }) => day === new Date().toISOString().slice(0, 10)),
    signals: new Set(usage.map(({ signal: name }) => name)),
  };
}
