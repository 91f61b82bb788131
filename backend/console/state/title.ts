// The page's title: what the tab shows, so that ten tabs can be told apart.
import type { Route } from "./route.ts";

const NAMES: Readonly<Record<string, string>> = {
  overview: "Overview",
  services: "Services",
  fleet: "Fleet",
  add: "Add a cluster or host",
  logs: "Logs",
  traces: "Traces",
  metrics: "Metrics",
  alerts: "Alerts",
  settings: "Settings",
};
/** Parameters that say most about a screen. */
const SHOWN = ["q", "service", "operation", "attributes", "view", "part"] as const;
const LONGEST = 80;

export function titleOf({ screen, id, query }: Route): string {
  const details = [id ?? "", ...SHOWN.map((name) => query.get(name) ?? "")].filter(Boolean).join(" ").slice(0, LONGEST);
  const name = NAMES[screen];
  // The code of a login link is not repeated.
  if (!name) return "AtherOps";
  return `${details ? `${details} · ` : ""}${name} · AtherOps`;
}
