// The targets of the command palette: where they are read, and which of them match what the user types.
import { SHIPPED, SHIPPED_PREFIX } from "./dashboards/shipped.ts";
import { entityAddress } from "./entities/entity.ts";
import { entityOf, OBJECT_KINDS, readObjects } from "./entities/cluster-objects.ts";
import { readFleet } from "./fleet/members.ts";
import { call, wholeList, address } from "./state/index.ts";

export interface Target {
  /** The kind of the target, such as `screen`, `service` or `pod`. */
  readonly kind: string;
  readonly name: string;
  readonly href: string;
  /** Called instead of opening `href`, by an action that stays on the screen. */
  readonly run?: () => void;
}

export const SCREEN_TARGETS: readonly Target[] = [
  ["Overview", address("overview")],
  ["Changes", address("changes")],
  ["SLOs", address("slos")],
  ["Services", address("services")],
  ["Service map", address("services", { view: "map" })],
  ...OBJECT_KINDS.map(([kind, title]) => [`Kubernetes: ${title.toLowerCase()}`, address("kubernetes", { view: kind })]),
  ["Fleet: agents", address("fleet")],
  ["Add cluster or host", address("add")],
  ["Connect an OpenTelemetry SDK", address("add", { kind: "sdk" })],
  ["Connect Prometheus", address("add", { kind: "prometheus" })],
  ["Connect Grafana", address("add", { kind: "grafana" })],
  ["Logs", address("logs")],
  ["Logs: patterns", address("logs", { view: "patterns" })],
  ["Live tail", address("logs", { live: "1" })],
  ["Traces", address("traces")],
  ["Metrics", address("metrics")],
  ["Metrics: cardinality", address("metrics", { view: "cardinality" })],
  ["Dashboards", address("dashboards")],
  ["Alerts: rules", address("alerts")],
  ["Alerts: firing", address("alerts", { view: "firing" })],
  ["Alerts: silences", address("alerts", { view: "silences" })],
  ["Alerts: routes", address("alerts", { view: "routes" })],
  ["Alerts: inhibition rules", address("alerts", { view: "inhibition" })],
  ["Alerts: time intervals", address("alerts", { view: "intervals" })],
  ["Alerts: channels", address("alerts", { view: "channels" })],
  ["Alerts: deliveries", address("alerts", { view: "deliveries" })],
  ["Settings: users", address("settings", { part: "users" })],
  ["Settings: keys and tokens", address("settings", { part: "credentials" })],
  ["Settings: trusted issuers", address("settings", { part: "issuers" })],
  ["Settings: usage", address("settings", { part: "usage" })],
  ["Settings: audit", address("settings", { part: "audit" })],
].map(([name = "", href = ""]) => ({ kind: "screen", name, href }));

export const FORM_TARGETS: readonly Target[] = [
  ["Create alert rule", address("alerts", { rule: "new" })],
  ["Create silence", address("alerts", { view: "silences", silence: "new" })],
  ["Create channel", address("alerts", { view: "channels", channel: "new" })],
  ["Create objective", address("slos", { edit: "new" })],
  ["Create dashboard", address("dashboards", { edit: "1" }, "new")],
  ["Invite a user", address("settings", { part: "users" })],
  ["Change password", address("settings", { part: "users" })],
].map(([name = "", href = ""]) => ({ kind: "action", name, href }));

const MAX_RESULTS = 20;

/** The trace with this id, if the text may be one. */
export function traceTarget(typed: string): Target[] {
  const id = typed.trim().toLowerCase();
  return /^[0-9a-f]{16,32}$/.test(id) ? [{ kind: "trace", name: `Trace ${id}`, href: address("traces", {}, id) }] : [];
}

/** True if the text has all letters of the word in their order, such as `pymt` of `payment`. */
function hasLetters(text: string, word: string): boolean {
  let at = -1;
  return Array.from(word).every((letter) => (at = text.indexOf(letter, at + 1)) >= 0);
}

/**
 * Targets whose name or kind has every typed word: first an equal name, then names that begin with the first word, then those that contain
 * all words, then those that only have their letters in order.
 */
export function findTargets(targets: readonly Target[], typed: string): Target[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const [first = ""] = words;
  return targets
    .flatMap((target) => {
      const name = target.name.toLowerCase();
      const missing = words.filter((word) => !name.includes(word) && !target.kind.includes(word));
      if (!missing.every((word) => hasLetters(name, word))) return [];
      const rank = name === typed.toLowerCase() ? 0 : missing.length > 0 ? 3 : name.startsWith(first) ? 1 : 2;
      return [{ target, rank }];
    })
    .toSorted((a, b) => a.rank - b.rank || a.target.name.length - b.target.name.length)
    .slice(0, MAX_RESULTS)
    .map(({ target }) => target);
}

/** If a list cannot be read, such as metrics that are unavailable, the others are still shown. */
export async function readTargets(signal: AbortSignal): Promise<Target[]> {
  const parts = await Promise.allSettled([
    serviceTargets(signal),
    fleetTargets(signal),
    podTargets(signal),
    savedTargets("dashboard", "/api/dashboards", signal),
    savedTargets("saved view", "/api/views", signal),
    ruleTargets(signal),
    metricTargets(signal),
  ]);
  const shipped = SHIPPED.map(({ id, title }) => ({
    kind: "dashboard",
    name: title,
    href: address("dashboards", {}, SHIPPED_PREFIX + id),
  }));
  return [...shipped, ...parts.flatMap((part) => (part.status === "fulfilled" ? part.value : []))];
}

async function serviceTargets(signal: AbortSignal): Promise<Target[]> {
  const services = await call<{ service: string }[]>("/query/services", { query: { points: 1 }, signal });
  return services.map(({ service }) => ({ kind: "service", name: service, href: address("services", {}, service) }));
}

async function fleetTargets(signal: AbortSignal): Promise<Target[]> {
  const { clusters, hosts } = await readFleet(signal);
  const entities = [
    ...clusters.map(({ name }) => ({ kind: "cluster", name }) as const),
    ...clusters.flatMap((cluster) => cluster.nodes.map(({ name }) => ({ kind: "node", name, cluster: cluster.name }) as const)),
    ...hosts.map(({ hostname, agent_id: hostId }) => ({ kind: "host", name: hostname, hostId }) as const),
  ];
  return entities.map((entity) => ({ kind: entity.kind, name: entity.name, href: entityAddress(entity) }));
}

async function podTargets(signal: AbortSignal): Promise<Target[]> {
  const kinds = await Promise.all(
    (["namespace", "workload", "pod"] as const).map(async (kind) =>
      (await readObjects(kind, undefined, {}, signal)).objects.map((row) => entityOf(kind, row)),
    ),
  );
  return kinds.flat().map((entity) => ({ kind: entity.kind, name: entity.name, href: entityAddress(entity) }));
}

async function savedTargets(kind: string, path: string, signal: AbortSignal): Promise<Target[]> {
  const { rows } = await wholeList<{ id: string; name: string; address?: string }>(path, signal);
  return rows.map(({ id, name, address: saved }) => ({ kind, name, href: saved ?? address("dashboards", {}, id) }));
}

async function ruleTargets(signal: AbortSignal): Promise<Target[]> {
  const rules = await call<{ id: string; name: string }[]>("/alerting/rules", { signal });
  return rules.map(({ id, name }) => ({ kind: "alert rule", name, href: address("alerts", { rule: id }) }));
}

async function metricTargets(signal: AbortSignal): Promise<Target[]> {
  const { data } = await call<{ data: string[] }>("/query/prometheus/api/v1/label/__name__/values", { signal });
  return data.map((name) => ({ kind: "metric", name, href: address("metrics", { q: name }) }));
}
