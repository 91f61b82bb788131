// Lists the permissions that the cluster agent needs, and checks them at start, so that a missing permission is reported with the RBAC rule
// that grants it before it causes a 403. Invariant: the tables match charts/cluster-agent/README.md, "Permissions in the cluster", and the
// chart grants them (test/faults/cluster-diagnose.test.ts).
import { Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import type { Log } from "../log.ts";
import type { Signal } from "../settings.ts";
import { collectionLease } from "./lease.ts";

interface Permission {
  readonly apiGroup: string;
  /** `nodes/stats` is the subresource stats of nodes. */
  readonly resource: string;
  readonly verb: string;
  /** Undefined: all names. */
  readonly name: string | undefined;
  /** Undefined for cluster-scoped resources, and for permissions in all namespaces. */
  readonly namespace: string | undefined;
}

/** Permissions for enrolment, rotation and following the Secret. */
export function identityPermissions(where: { podNamespace: string; secretName: string; leaseName: string }): Permission[] {
  const namespace = where.podNamespace;
  const verbs = ["get", "update", "patch", "watch"];
  return [
    ...verbs.map((verb) => ({ namespace, apiGroup: "", resource: "secrets", name: where.secretName, verb })),
    ...verbs.map((verb) => ({ namespace, apiGroup: "coordination.k8s.io", resource: "leases", name: where.leaseName, verb })),
    // A missing Lease. RBAC cannot limit `create` to a name.
    { namespace, apiGroup: "coordination.k8s.io", resource: "leases", name: undefined, verb: "create" },
    { apiGroup: "", resource: "namespaces", name: "kube-system", verb: "get", namespace: undefined },
  ];
}

/** Permissions of the collector, which uses the agent's service account. */
export function telemetryPermissions(
  signals: readonly Signal[],
  { prometheusOperator = false, logPolicies = false }: { prometheusOperator?: boolean; logPolicies?: boolean } = {},
): Permission[] {
  const everywhere = { apiGroup: "", name: undefined, namespace: undefined };
  const monitored = prometheusOperator && signals.includes("metrics") ? MONITOR_RESOURCES : [];
  const hasPolicies = logPolicies && signals.includes("logs");
  const policies = hasPolicies ? POLICY_RESOURCES : [];
  const patched = hasPolicies ? [{ apiGroup: "atherops.io", resource: "logpolicies/status", verb: "patch" }] : [];
  const usage = signals.includes("metrics") ? ["nodes/stats", "nodes/metrics"] : [];
  const watched = ["list", "watch"].flatMap((verb) => [{ resource: "pods" }, ...monitored, ...policies].map((rule) => ({ ...rule, verb })));
  return [...usage.map((resource) => ({ resource, verb: "get" })), ...watched, ...patched].map((rule) => ({ ...everywhere, ...rule }));
}

const POLICY_RESOURCES = [
  { apiGroup: "", resource: "namespaces" },
  { apiGroup: "atherops.io", resource: "logpolicies" },
];

/** Permissions for objects of the Prometheus Operator. */
const MONITOR_RESOURCES = [
  { apiGroup: "monitoring.coreos.com", resource: "servicemonitors" },
  { apiGroup: "monitoring.coreos.com", resource: "podmonitors" },
  { apiGroup: "monitoring.coreos.com", resource: "probes" },
  { apiGroup: "monitoring.coreos.com", resource: "scrapeconfigs" },
  { apiGroup: "", resource: "services" },
];

/** Resources that are listed and watched for the state of the cluster; the same as in the chart's ClusterRole. */
const STATE_RESOURCES: Readonly<Record<string, readonly string[]>> = {
  "": ["nodes", "pods", "namespaces", "replicationcontrollers", "resourcequotas", "services"],
  apps: ["daemonsets", "deployments", "replicasets", "statefulsets"],
  batch: ["jobs", "cronjobs"],
  autoscaling: ["horizontalpodautoscalers"],
};

/** Permissions for collecting for the whole cluster. */
export function clusterPermissions(settings: {
  podNamespace: string;
  leaseName: string;
  clusterState: boolean;
  kubernetesEvents: boolean;
}): Permission[] {
  const { podNamespace: namespace, leaseName, clusterState, kubernetesEvents } = settings;
  if (!clusterState && !kubernetesEvents) return [];
  const lease = { apiGroup: "coordination.k8s.io", resource: "leases", name: collectionLease(leaseName), namespace };
  const stateResources = clusterState ? Object.entries(STATE_RESOURCES) : [];
  const watched = [
    ...stateResources.flatMap(([apiGroup, names]) => names.map((resource) => ({ apiGroup, resource }))),
    ...(kubernetesEvents ? [{ apiGroup: "", resource: "events" }] : []),
  ];
  return [
    ...["get", "update"].map((verb) => ({ ...lease, verb })),
    ...watched.flatMap((rule) => ["list", "watch"].map((verb) => ({ ...rule, verb, name: undefined, namespace: undefined }))),
  ];
}

/** Returns those of `required` that the agent's service account lacks. Throws KubernetesError if it may not query permissions. */
export async function missingPermissions(api: KubernetesApi, required: readonly Permission[], signal: AbortSignal): Promise<Permission[]> {
  const allowed = await Promise.all(required.map((permission) => isAllowed(api, permission, signal)));
  return required.filter((_, index) => !allowed[index]);
}

/** Formats the RBAC rule that grants a permission, as a line for the operator. */
export function grantingRule({ apiGroup, resource, verb, name, namespace }: Permission): string {
  const where = namespace === undefined ? "ClusterRole" : `Role in namespace ${namespace}`;
  const names = name === undefined ? "" : `resourceNames: ["${name}"], `;
  return `${where}: {apiGroups: ["${apiGroup}"], resources: ["${resource}"], ${names}verbs: ["${verb}"]}`;
}

function isAllowed(api: KubernetesApi, permission: Permission, signal: AbortSignal): Promise<boolean> {
  const { apiGroup: group, verb, name, namespace } = permission;
  const [resource, subresource] = permission.resource.split("/");
  // For the resource `namespaces`, the review names the namespace itself, as the API server's own authorizer does.
  const resourceAttributes = { group, resource, subresource, verb, name, namespace: namespace ?? name };
  return api.isAllowed(resourceAttributes, signal);
}

const CHECK_EVERY_MS = 60_000;

/** Checks at start, and repeatedly while permissions are missing. Logs them once; telemetry does not wait for them. */
export class PermissionCheck {
  /** Resolves when `signal` has aborted. */
  readonly done: Promise<void>;
  readonly #options: { readonly api: KubernetesApi; readonly required: readonly Permission[] };
  /** Its cause is the list of rules that would grant the missing permissions. */
  readonly #outage: Outage<string[]>;

  constructor(options: { api: KubernetesApi; required: readonly Permission[]; log: Log; signal: AbortSignal }) {
    const { log } = options;
    this.#options = options;
    this.#outage = new Outage({
      began: (missing) => log.error({ event: "permissions.missing", missing }, "the service account lacks permissions; grant these"),
      ended: () => log.info({ event: "permissions.granted" }, "the service account has all permissions now"),
    });
    // A permission that could not be checked is reported when it is needed.
    const failed = (error: unknown): void =>
      log.warn({ event: "permissions.check_failed", err: error }, "cannot check the service account's permissions");
    const step = async (signal: AbortSignal): Promise<number | undefined> => {
      await this.#check(signal).catch((error: unknown) => signal.aborted || failed(error));
      return this.#outage.cause && CHECK_EVERY_MS;
    };
    this.done = new Loop({ signal: options.signal, step, failed }).done;
  }

  /** Rules to grant; undefined if none is known to be missing. */
  get missing(): string | undefined {
    const rules = this.#outage.cause;
    return rules && `the service account lacks permissions; grant:\n${rules.join("\n")}`;
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { api, required } = this.#options;
    const missing = (await missingPermissions(api, required, signal)).map((permission) => grantingRule(permission));
    if (missing.length > 0) this.#outage.failed(missing, missing.join("\n"));
    else this.#outage.recovered();
  }
}
