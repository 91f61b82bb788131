// What the overview shows, from requests that other screens make too. Invariant: if one request fails, the whole read fails, so a figure of
// zero was really counted.
import { allMembers, type Member } from "../fleet/members.ts";
import { channelsNow } from "../notification/resources.ts";
import type { ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";

export interface Alert {
  readonly state: "firing" | "pending";
  readonly labels: Readonly<Record<string, string>>;
  readonly activeAt: string;
}

export type Volume = ApiResponses["GET /api/usage"][number];

export interface Overviewed {
  readonly alerts: readonly Alert[];
  /** Enabled ones. */
  readonly channels: number;
  readonly rules: number;
  readonly members: readonly Member[];
  /** Volume of today. */
  readonly volume: readonly Volume[];
  /** Signals received in the last 7 days. */
  readonly signals: ReadonlySet<string>;
  readonly atMs: number;
}

export async function readOverview(signal: AbortSignal): Promise<Overviewed> {
  const [alerts, channels, rules, members, usage] = await Promise.all([
    call<{ data: { alerts: Alert[] } }>("/query/prometheus/api/v1/alerts", { signal }),
    channelsNow(signal),
    call<unknown[]>("/alerting/rules", { signal }),
    allMembers(signal),
    call<Volume[]>("/api/usage", { query: [["days", "7"]], signal }),
  ]);
  return {
    alerts: alerts.data.alerts,
    channels: channels.filter(({ enabled }) => enabled).length,
    rules: rules.length,
    members,
    volume: usage.filter(({ day }) => day === new Date().toISOString().slice(0, 10)),
    signals: new Set(usage.map(({ signal: name }) => name)),
    atMs: Date.now(),
  };
}
