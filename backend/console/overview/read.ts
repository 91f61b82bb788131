// Reads the data of the overview's cards, with requests that other screens send too. Invariant: a card whose request failed shows no
// figure, so a zero is always a real count.
import { channelsNow } from "../notification/resources.ts";
import type { ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";

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
    channelsNow(signal),
    call<unknown[]>("/alerting/rules", { signal }),
  ]);
  return {
    alerts: alerts.data.alerts,
    channels: channels.filter(({ enabled }) => enabled).length,
    rules: rules.length,
    atMs: Date.now(),
  };
}

export async function readStored(signal: AbortSignal): Promise<Stored> {
  const usage = await call<Volume[]>("/api/usage", { query: [["days", "7"]], signal });
  return {
    volume: usage.filter(({ day }) => day === new Date().toISOString().slice(0, 10)),
    signals: new Set(usage.map(({ signal: name }) => name)),
  };
}
