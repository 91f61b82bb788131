// Monitors and Services of the Prometheus Operator as an API server returns them, for tests.
import type { Endpoint, Monitor, Service } from "./monitor-objects.ts";

export const SHOP: Service = {
  metadata: { name: "web", namespace: "shop", labels: { app: "web", team: "north" } },
  spec: {
    selector: { app: "web", tier: "a.b" },
    ports: [
      { name: "metrics", port: 80, targetPort: "http-metrics" },
      { name: "admin", port: 9000, targetPort: 9001 },
      { name: "plain", port: 8080 },
    ],
  },
};

export function serviceMonitor(endpoint: Endpoint & Record<string, unknown>, spec: Partial<Monitor["spec"]> = {}): Monitor {
  const selector = { matchLabels: { app: "web" } };
  return { kind: "ServiceMonitor", metadata: { name: "web", namespace: "shop" }, spec: { selector, endpoints: [endpoint], ...spec } };
}

export function podMonitor(endpoint: Endpoint, spec: Partial<Monitor["spec"]> = {}): Monitor {
  const selector = { matchLabels: { app: "worker" } };
  return {
    kind: "PodMonitor",
    metadata: { name: "worker", namespace: "shop" },
    spec: { selector, podMetricsEndpoints: [endpoint], ...spec },
  };
}
