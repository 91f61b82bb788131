// What the cluster agent must be allowed to do, and the check at start: a missing permission is named with the RBAC line that grants
// it, not found out by a 403 in the middle of a rotation. Invariant: the table is the first two rows of decisions.md, "RBAC of the
// cluster agent", and the chart's Role grants it (test/faults/cluster-secret.test.ts). Called by cluster-enrolment.ts and diagnose.
import type { KubernetesApi } from "../kubernetes/api.ts";

export interface Permission {
  readonly apiGroup: string;
  readonly resource: string;
  readonly verb: string;
  readonly name: string;
  /** Undefined for what is not in a namespace. */
  readonly namespace: string | undefined;
}

/** What enrolment, rotation and following the Secret need. */
export function identityPermissions(where: { podNamespace: string; secretName: string; leaseName: string }): Permission[] {
  const own = { namespace: where.podNamespace };
  const verbs = ["get", "update", "patch", "watch"];
  return [
    ...verbs.map((verb) => ({ ...own, apiGroup: "", resource: "secrets", name: where.secretName, verb })),
    ...verbs.map((verb) => ({ ...own, apiGroup: "coordination.k8s.io", resource: "leases", name: where.leaseName, verb })),
    { apiGroup: "", resource: "namespaces", name: "kube-system", verb: "get", namespace: undefined },
  ];
}

/** The permissions of `wanted` that the agent's service account lacks. Throws KubernetesError when it may not even ask. */
export async function missingPermissions(api: KubernetesApi, wanted: readonly Permission[], signal: AbortSignal): Promise<Permission[]> {
  const allowed = await Promise.all(wanted.map((permission) => isAllowed(api, permission, signal)));
  return wanted.filter((_, index) => !allowed[index]);
}

/** The line for the operator: where to put which rule. */
export function grantingRule({ apiGroup, resource, verb, name, namespace }: Permission): string {
  const where = namespace === undefined ? "ClusterRole" : `Role in namespace ${namespace}`;
  return `${where}: {apiGroups: ["${apiGroup}"], resources: ["${resource}"], resourceNames: ["${name}"], verbs: ["${verb}"]}`;
}

async function isAllowed(api: KubernetesApi, permission: Permission, signal: AbortSignal): Promise<boolean> {
  const { apiGroup: group, resource, verb, name, namespace } = permission;
  // The resource `namespaces` is asked about in the namespace that is meant, as the API server's own authorizer does.
  const resourceAttributes = { group, resource, verb, name, namespace: namespace ?? name };
  const review = await api.post<{ status?: { allowed?: boolean } }>(
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } },
    signal,
  );
  return review.status?.allowed === true;
}
