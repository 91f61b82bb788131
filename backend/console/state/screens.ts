// The screens of the console: their names in the address, their titles, and the key that opens each after `g`. Navigation, keys, help and
// page title are generated from this table.
import type { Route } from "./route.ts";

export interface Screen {
  /** The first part of the address, `#/logs`. */
  readonly name: string;
  readonly title: string;
  /** A screen without a key is not in the navigation. */
  readonly key?: string;
  /** Listed apart, below the screens of every day. */
  readonly isAdministration?: boolean;
  /** The screen of the navigation that it belongs to; itself by default. */
  readonly parent?: string;
  /** A link from the navigation keeps the time range, so that a reader finds the same minutes in another signal. */
  readonly keepsRange?: boolean;
}

export const SCREENS: readonly Screen[] = [
  { name: "overview", title: "Overview", key: "o" },
  { name: "changes", title: "Changes", key: "c", keepsRange: true },
  { name: "services", title: "Services", key: "v", keepsRange: true },
  { name: "kubernetes", title: "Kubernetes", key: "k", keepsRange: true },
  { name: "logs", title: "Logs", key: "l", keepsRange: true },
  { name: "traces", title: "Traces", key: "t", keepsRange: true },
  { name: "metrics", title: "Metrics", key: "m", keepsRange: true },
  { name: "dashboards", title: "Dashboards", key: "d", keepsRange: true },
  { name: "alerts", title: "Alerts", key: "a" },
  { name: "slos", title: "SLOs", key: "b" },
  { name: "fleet", title: "Fleet", key: "f", isAdministration: true },
  { name: "add", title: "Connect", parent: "fleet" },
  { name: "entity", title: "Infrastructure", parent: "kubernetes" },
  { name: "settings", title: "Settings", key: "s", isAdministration: true },
];

const IN_TITLE = ["kind", "q", "service", "operation", "attributes", "view", "part"] as const;
const MAX_DETAILS_CHARS = 80;
/** Ids of dashboards that the console contains begin with it. */
const SHIPPED = /^shipped-/;

export function screenNamed(name: string): Screen | undefined {
  return SCREENS.find((screen) => screen.name === name);
}

/** The title of the page, so that the tabs of a browser can be distinguished: `checkout · Traces · AtherOps`. */
export function pageTitle({ screen, id, query }: Route): string {
  const title = screenNamed(screen)?.title;
  // An unknown screen may be a login link, whose code must not appear in a title.
  if (title === undefined) return "AtherOps";
  const details = [(id ?? "").replace(SHIPPED, ""), ...IN_TITLE.map((name) => query.get(name) ?? "")]
    .filter(Boolean)
    .join(" ")
    .slice(0, MAX_DETAILS_CHARS);
  return `${details ? `${details} · ` : ""}${title} · AtherOps`;
}
