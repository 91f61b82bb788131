// Reads the data of the overview's cards, with requests that other screens send too. Invariants: a card whose request failed shows no
// figure, so a zero is always a real count; only the rows that are shown stay in memory.
import { listChannels } from "../notification/resources.ts";
import type { ApiResponses } from "../../client/api.ts";
import { readFleetMembers, isOldKey, type Member } from "../fleet/members.ts";
import { readServices, worstFirst } from "../services/service.ts";
import type { ServiceTableProps } from "../services/service-table.tsx";
import { call } from "../state/api.ts";

const HOUR_MS = 3_600_000;
/** Rows of a card. */
export const SHOWN = 10;

export interface Alert {
  readonly state: "firing" | "pending";
  readonly labels: Readonly<Record<string, string>>;
  readonly activeAt: string;
}

export interface Alerting {
  readonly alerts: readonly Alert[];
  /** Enabled ones. */
  readonly channels: number;
  readonly rules: number;
  readonly atMs: number;
}

export interface Agents {
  readonly count: number;
  readonly silentCount: number;
  /** The silent agents that the card lists. */
  readonly silent: readonly Member[];
  readonly oldKeys: number;
  /** Agents that report, and whose collector does not run. */
  readonly broken: number;
  readonly atMs: number;
}

export interface WorstServices {
  readonly count: number;
  /** The services that the card lists. */
  readonly services: ServiceTableProps["services"];
}

export type Volume = ApiResponses["GET /api/usage"][number];

export interface Stored {
  /** Today's volume. */
  readonly volume: readonly Volume[];
  /** Signals received in the last 7 days. */
  readonly signals: ReadonlySet<string>;
}

export async function readAlerting(signal: AbortSignal): Promise<Alerting> {
  const [alerts, channels, rules] = await Promise.all([
    call<{ data: { alerts: Alert[] } }>("/query/prometheus/api/v1/alerts", { signal }),
    listChannels(signal),
    call<unknown[]>("/alerting/rules", { signal }),
  ]);
  return {
    alerts: alerts.data.alerts,
    channels: channels.filter(({ enabled }) => enabled).length,
    rules: rules.length,
    atMs: Date.now(),
  };
}

export async function readAgents(signal: AbortSignal): Promise<Agents> {
  const members = await readFleetMembers(signal);
  const atMs = Date.now();
  const silent = members.filter(({ online }) => !online);
  return {
    count: members.length,
    silentCount: silent.length,
    silent: silent.slice(0, SHOWN),
    oldKeys: members.filter((member) => isOldKey(member.key_created_at, atMs)).length,
    broken: members.filter(({ online, collector }) => online && collector && collector.state !== "running").length,
    atMs,
  };
}

export async function readWorstServices(signal: AbortSignal): Promise<WorstServices> {
  const nowMs = Date.now();
  const [now, before] = await Promise.all([
    readServices(nowMs - HOUR_MS, nowMs, signal),
    readServices(nowMs - 2 * HOUR_MS, nowMs - HOUR_MS, signal, 1),
  ]);
  return { count: now.length, services: worstFirst(now, before).slice(0, 2 * SHOWN) };
}

export async function readStored(signal: AbortSignal): Promise<Stored> {
  const usage = await call<Volume[]>("/api/usage", { query: { days: 7 }, signal });
  return {
    volume: usage.filter(({ day }) => day === new Date().toISOString().slice(0, 10)),
    signals: new Set(usage.map(({ signal: name }) => name)),
  };
}
