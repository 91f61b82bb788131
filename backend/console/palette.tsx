// The command palette (Ctrl-K or Cmd-K): a search over screens, services, hosts, nodes, clusters, pods, dashboards, alert rules and saved views.
// Everything but the screens is read when it is opened, and a list that cannot be read is left out.
import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { SHIPPED, SHIPPED_PREFIX } from "./dashboards/shipped.ts";
import { entityAddress } from "./entities/entity.ts";
import { readMembers } from "./entities/members.tsx";
import { readFleet } from "./fleet/members.ts";
import { Dialog } from "./parts/common.tsx";
import { visible } from "./parts/text.ts";
import { call, wholeList } from "./state/api.ts";
import { findTargets, type Target } from "./palette-targets.ts";
import { isPaletteOpen } from "./state/keys.ts";
import { useLoaded } from "./state/loaded.ts";
import { address, go } from "./state/route.ts";

const SCREENS: readonly Target[] = [
  ["Overview", address("overview")],
  ["Services", address("services")],
  ["Service map", address("services", { view: "map" })],
  ["Fleet: agents", address("fleet")],
  ["Fleet: namespaces", address("fleet", { view: "namespace" })],
  ["Fleet: workloads", address("fleet", { view: "workload" })],
  ["Fleet: pods", address("fleet", { view: "pod" })],
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
  ["Alerts: channels", address("alerts", { view: "channels" })],
  ["Alerts: deliveries", address("alerts", { view: "deliveries" })],
  ["Settings: users", address("settings", { part: "users" })],
  ["Settings: keys and tokens", address("settings", { part: "credentials" })],
  ["Settings: usage", address("settings", { part: "usage" })],
  ["Settings: audit", address("settings", { part: "audit" })],
].map(([name = "", href = ""]) => ({ kind: "screen", name, href }));

function open(target: Target | undefined): void {
  if (!target) return;
  isPaletteOpen.value = false;
  go(target.href);
}

export function Palette() {
  const typed = useSignal("");
  const chosen = useSignal(0);
  const listId = useId();
  const input = useRef<HTMLInputElement>(null);
  const loaded = useLoaded("palette", readTargets);
  useEffect(() => input.current?.focus(), []);
  const results = findTargets([...SCREENS, ...(loaded.value.value ?? [])], typed.value);
  const at = Math.min(chosen.value, results.length - 1);
  const step = (by: number): void => void (chosen.value = Math.max(0, Math.min(results.length - 1, at + by)));
  return (
    <Dialog title="Go to" onClose={() => (isPaletteOpen.value = false)}>
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Search"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={results.length > 0 ? `${listId}-${at}` : undefined}
        placeholder="a screen, service, host, pod, dashboard, saved view"
        autoComplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          chosen.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") step(1);
          else if (event.key === "ArrowUp") step(-1);
          else if (event.key === "Enter") open(results[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="palette" role="listbox" id={listId} aria-label="Results">
        {results.map((target, index) => (
          <li
            key={`${target.kind} ${target.href}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => open(target)}
          >
            <bdi>{visible(target.name)}</bdi> <span class="quiet">{target.kind}</span>
          </li>
        ))}
      </ul>
      <p class="quiet" role="status">
        {results.length === 0 ? "No matches." : loaded.busy.value ? "Loading names …" : ""}
      </p>
    </Dialog>
  );
}

/** If a part fails, such as metrics that are unavailable, the others are still shown. */
async function readTargets(signal: AbortSignal): Promise<Target[]> {
  const parts = await Promise.allSettled([
    serviceTargets(signal),
    fleetTargets(signal),
    podTargets(signal),
    savedTargets("dashboard", "/api/dashboards", signal),
    savedTargets("saved view", "/api/views", signal),
    ruleTargets(signal),
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
    (["namespace", "workload", "pod"] as const).map(async (kind) => await readMembers(kind, undefined, signal)),
  );
  return kinds.flat().map(({ entity }) => ({ kind: entity.kind, name: entity.name, href: entityAddress(entity) }));
}

interface SavedRow {
  readonly id: string;
  readonly name: string;
  readonly address?: string;
}

async function savedTargets(kind: string, path: string, signal: AbortSignal): Promise<Target[]> {
  const { rows } = await wholeList<SavedRow>(path, signal);
  return rows.map(({ id, name, address: saved }) => ({ kind, name, href: saved ?? address("dashboards", {}, id) }));
}

async function ruleTargets(signal: AbortSignal): Promise<Target[]> {
  const rules = await call<{ id: string; name: string }[]>("/alerting/rules", { signal });
  return rules.map(({ id, name }) => ({ kind: "alert rule", name, href: address("alerts", { rule: id }) }));
}
