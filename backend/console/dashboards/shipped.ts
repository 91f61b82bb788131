// Dashboards that come with the product: those of docs/dashboards, which Grafana reads too, and those of hosts, pods and services. The pages of
// entities show the same panels.
import type { Dashboard } from "./dashboard.ts";
import { toDashboard } from "./grafana.ts";

interface Shipped {
  readonly id: string;
  readonly title: string;
  /** Loads its file, in the form of an exported dashboard or in Grafana's, when it is first shown. */
  readonly load: () => Promise<{ default: unknown }>;
}

export const SHIPPED_PREFIX = "shipped-";

export const SHIPPED: readonly Shipped[] = [
  { id: "host", title: "Host", load: async () => await import("./host.json") },
  { id: "node", title: "Kubernetes node", load: async () => await import("../../../docs/dashboards/node.json") },
  { id: "namespace", title: "Kubernetes namespace", load: async () => await import("../../../docs/dashboards/namespace.json") },
  { id: "workload", title: "Kubernetes workload", load: async () => await import("../../../docs/dashboards/workload.json") },
  { id: "pod", title: "Kubernetes pod", load: async () => await import("./pod.json") },
  { id: "agents", title: "Agents of a cluster", load: async () => await import("../../../docs/dashboards/agents.json") },
  { id: "service", title: "Service", load: async () => await import("./service.json") },
];

/** Undefined if no dashboard with this id comes with the product. */
export async function readShipped(id: string): Promise<Dashboard | undefined> {
  const shipped = SHIPPED.find((one) => one.id === id);
  // The title of the list, because a file calls a Kubernetes node just Node.
  return shipped && { ...toDashboard((await shipped.load()).default).dashboard, name: shipped.title };
}
