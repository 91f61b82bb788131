// Checks of the cluster agent: permissions, Secret and key, kubelet, and the frozen older agent. Called by diagnose.ts.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent, request } from "undici";
import { kubeletAddress, kubeletTls } from "../collector/fragments/kubelet.ts";
import { ClusterSecret } from "../credentials/cluster-secret.ts";
import type { BackendApi } from "../enrolment/backend-api.ts";
import { kubernetesOf } from "../enrolment/cluster-identity.ts";
import { grantingRule, identityPermissions, missingPermissions } from "../enrolment/permissions.ts";
import { type KubernetesApi, KubernetesError, type KubernetesObject } from "../kubernetes/api.ts";
import { CLUSTER_HEARTBEAT_PATH } from "../protocol/enrolment.ts";
import type { ClusterSettings, Secrets, Settings } from "../settings.ts";
import { checkKey } from "./backend.ts";
import { type Check, type Finding, messageOf } from "./check.ts";

const WITHIN_MS = 10_000;
const FROZEN_AGENT = "atherops-agent";

export function clusterChecks({ cluster }: Settings, secrets: Secrets, backend: Pick<BackendApi, "heartbeat">): Check[] {
  if (!cluster) return [];
  const api = kubernetesOf(cluster);
  return [
    () => checkPermissions(api, cluster),
    () => checkSecret(api, cluster, secrets, backend),
    () => checkKubelet(cluster),
    async () => {
      const findings = await checkFrozenAgent(api);
      await api[Symbol.asyncDispose]();
      return findings;
    },
  ];
}

export async function checkPermissions(api: KubernetesApi, cluster: ClusterSettings): Promise<Finding[]> {
  const name = "permissions";
  try {
    const missing = await missingPermissions(api, identityPermissions(cluster), AbortSignal.timeout(WITHIN_MS));
    if (missing.length === 0) return [{ name, verdict: "ok", detail: "the service account may do what enrolment and rotation need" }];
    const rules = missing.map((permission) => grantingRule(permission));
    return [
      { name, verdict: "fail", detail: "the service account lacks permissions", advice: `grant:\n        ${rules.join("\n        ")}` },
    ];
  } catch (error) {
    return [
      {
        name,
        verdict: "fail",
        detail: `the API server does not answer: ${messageOf(error)}`,
        advice: "check the network policy and the service account's token",
      },
    ];
  }
}

export async function checkSecret(
  api: KubernetesApi,
  { podNamespace: namespace, secretName }: ClusterSettings,
  { installToken }: Pick<Secrets, "installToken">,
  backend: Pick<BackendApi, "heartbeat">,
): Promise<Finding[]> {
  const name = "credentials";
  const where = `Secret ${namespace}/${secretName}`;
  try {
    const secret = await new ClusterSecret(api, { namespace, name: secretName }).read(AbortSignal.timeout(WITHIN_MS));
    if (!secret)
      return [
        { name, verdict: "fail", detail: `${where} does not exist`, advice: "make it again, empty: helm upgrade of charts/cluster-agent" },
      ];
    if (secret.credential) {
      const enrolled: Finding = { name, verdict: "ok", detail: `${where} has the key of cluster ${secret.credential.id}` };
      return [enrolled, ...(await checkKey(secret.credential, CLUSTER_HEARTBEAT_PATH, backend))];
    }
    return installToken === undefined
      ? [
          {
            name,
            verdict: "fail",
            detail: `${where} has no key, and there is no INSTALL_TOKEN`,
            advice: "make an install token (`atherops tokens create`) and give it to the chart",
          },
        ]
      : [{ name, verdict: "warn", detail: `${where} has no key yet`, advice: "the agents enrol with INSTALL_TOKEN; see their /readyz" }];
  } catch (error) {
    return [{ name, verdict: "fail", detail: `cannot read ${where}: ${messageOf(error)}`, advice: "see the check of permissions above" }];
  }
}

export async function checkKubelet(cluster: ClusterSettings): Promise<Finding[]> {
  const name = "kubelet";
  const address = kubeletAddress(cluster);
  try {
    const status = await askKubelet(cluster, address);
    return [kubeletFinding(name, address, status, cluster.kubeletTls === "skip")];
  } catch (error) {
    const advice =
      "a certificate that the cluster's authority did not sign: set KUBELET_TLS to its PEM file, or to skip; else check NODE_IP and the network policy";
    return [{ name, verdict: "fail", detail: `${address}: ${messageOf(error)}`, advice }];
  }
}

async function askKubelet(cluster: ClusterSettings, address: string): Promise<number> {
  const { ca_file: caFile } = kubeletTls({ ...cluster, tls: cluster.kubeletTls }) as { ca_file?: string };
  const dispatcher = new Agent({ connect: caFile === undefined ? { rejectUnauthorized: false } : { ca: readFileSync(caFile) } });
  try {
    const token = readFileSync(join(cluster.serviceAccountDir, "token"), "utf8").trim();
    const { statusCode, body } = await request(`https://${address}/stats/summary`, {
      dispatcher,
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(WITHIN_MS),
    });
    await body.dump();
    return statusCode;
  } finally {
    await dispatcher.close();
  }
}

function kubeletFinding(name: string, address: string, status: number, skipsTls: boolean): Finding {
  if (status === 401 || status === 403) {
    const advice = 'grant: ClusterRole: {apiGroups: [""], resources: ["nodes/stats", "nodes/metrics"], verbs: ["get"]}';
    return { name, verdict: "fail", detail: `${address} answers ${status}`, advice };
  }
  if (status !== 200) return { name, verdict: "fail", detail: `${address} answers ${status}`, advice: "see the kubelet's own log" };
  if (skipsTls)
    return {
      name,
      verdict: "warn",
      detail: `${address} answers, its certificate is not checked`,
      advice: "KUBELET_TLS=verify, if the cluster's authority signs it",
    };
  return { name, verdict: "ok", detail: `${address} answers` };
}

export async function checkFrozenAgent(api: KubernetesApi): Promise<Finding[]> {
  const name = "older agent";
  try {
    const { items } = await api.get<{ items: KubernetesObject[] }>("/apis/apps/v1/daemonsets", AbortSignal.timeout(WITHIN_MS));
    const found = items.find(({ metadata }) => metadata.name === FROZEN_AGENT);
    if (!found) return [{ name, verdict: "ok", detail: `no DaemonSet ${FROZEN_AGENT} in the cluster` }];
    const advice = `it is frozen and superseded by this agent: kubectl -n ${found.metadata.namespace} delete daemonset ${FROZEN_AGENT}`;
    return [{ name, verdict: "warn", detail: `a DaemonSet ${FROZEN_AGENT} runs in namespace ${found.metadata.namespace}`, advice }];
  } catch (error) {
    const mayNotAsk = error instanceof KubernetesError && error.status === 403;
    const detail = mayNotAsk ? "the service account may not list DaemonSets (off by default in the chart)" : messageOf(error);
    return [{ name, verdict: "skipped", detail }];
  }
}
