// Checks the cluster agent's permissions, Secret, key and kubelet, and whether a DaemonSet of the discontinued older agent exists.
// test/faults/cluster-diagnose.test.ts covers each check, failing and passing.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { kubeletAddress, kubeletTls } from "../../collector/config/fragments/kubelet.ts";
import { ClusterSecret } from "../../credentials/cluster-secret.ts";
import type { BackendApi } from "../../upstream/backend-api.ts";
import { kubernetesInPod, type KubernetesApi } from "../../kubernetes/api.ts";
import {
  clusterPermissions,
  grantingRule,
  identityPermissions,
  missingPermissions,
  telemetryPermissions,
} from "../../identity/permissions.ts";
import type { EnrolmentToken } from "../../enrolment-token.ts";
import { KubernetesError } from "../../kubernetes/transport.ts";
import { CLUSTER_HEARTBEAT_PATH } from "../../../common/protocol/enrolment.ts";
import type { ClusterSettings, Settings, Signal } from "../../settings.ts";
import { Pool } from "../../http-pool.ts";
import { checkKey } from "./backend.ts";
import { certificateProblem, type Check, codeOf, type Finding, messageOf } from "./check.ts";

const WITHIN_MS = 10_000;
const OLD_AGENT = "atherops-agent";
const NEW_TOKEN =
  "create an install token (`atherops tokens create`) and set it in the chart (installToken), or put it into its Secret; the running agents then enrol again";

export function clusterChecks(
  { cluster, signals }: Settings,
  token: EnrolmentToken | undefined,
  backend: Pick<BackendApi, "heartbeat">,
): Check[] {
  if (!cluster) return [];
  const api = kubernetesInPod(cluster);
  return [
    () => checkPermissions(api, cluster, signals),
    () => checkSecret(api, cluster, token, backend),
    ...(signals.includes("metrics") ? [() => checkKubelet(cluster)] : []),
    async () => {
      const findings = await checkOldAgent(api);
      await api[Symbol.asyncDispose]();
      return findings;
    },
  ];
}

async function checkPermissions(api: KubernetesApi, cluster: ClusterSettings, signals: readonly Signal[]): Promise<Finding[]> {
  const name = "permissions";
  const required = [...identityPermissions(cluster), ...telemetryPermissions(signals, cluster), ...clusterPermissions(cluster)];
  try {
    const missing = await missingPermissions(api, required, AbortSignal.timeout(WITHIN_MS));
    if (missing.length === 0) return [{ name, status: "ok", detail: `the service account has all ${required.length} that it needs` }];
    const rules = missing.map((permission) => grantingRule(permission));
    const advice = `grant them, for example with helm upgrade of charts/cluster-agent:\n        ${rules.join("\n        ")}`;
    return [{ name, status: "fail", detail: `the service account lacks ${missing.length} of ${required.length}`, advice }];
  } catch (error) {
    return [{ name, status: "fail", detail: `cannot query the API server: ${messageOf(error)}`, advice: apiServerAdvice(error) }];
  }
}

function apiServerAdvice(error: unknown): string {
  if (codeOf(error) === "ENOENT") return "no service account is mounted here: run in the agent's pod, or set automountServiceAccountToken";
  if (certificateProblem(error)) return "ca.crt of the service account is not this API server's authority: restart the pod";
  if (error instanceof KubernetesError && error.status === 401)
    return "the service account's token is invalid: check that the service account exists, and restart the pod to get a new token";
  return "check KUBERNETES_SERVICE_HOST and _PORT, the network policy, and the API server";
}

async function checkSecret(
  api: KubernetesApi,
  { podNamespace: namespace, secretName }: ClusterSettings,
  token: EnrolmentToken | undefined,
  backend: Pick<BackendApi, "heartbeat">,
): Promise<Finding[]> {
  const name = "credentials";
  const where = `Secret ${namespace}/${secretName}`;
  try {
    const secret = await new ClusterSecret(api, { namespace, name: secretName }).read(AbortSignal.timeout(WITHIN_MS));
    if (!secret) {
      const advice = "recreate it, empty, with helm upgrade of charts/cluster-agent; running agents write the key back";
      return [{ name, status: "fail", detail: `${where} does not exist`, advice }];
    }
    if (secret.credential) {
      const enrolled: Finding = { name, status: "ok", detail: `${where} has the key of cluster ${secret.credential.id}` };
      return [enrolled, ...(await checkKey(secret.credential, CLUSTER_HEARTBEAT_PATH, backend, NEW_TOKEN))];
    }
    if (!token) {
      const detail = `${where} has no key, and there is no INSTALL_TOKEN (it is not set, or its Secret or the key in it does not exist)`;
      return [{ name, status: "fail", detail, advice: NEW_TOKEN }];
    }
    const advice = `the agents enrol with ${token.isIdentity ? "IDENTITY_TOKEN" : "INSTALL_TOKEN"}; see the running agent`;
    return [{ name, status: "warn", detail: `${where} has no key yet`, advice }];
  } catch (error) {
    return [{ name, status: "fail", detail: `cannot read ${where}: ${messageOf(error)}`, advice: "see the permission check above" }];
  }
}

async function checkKubelet(cluster: ClusterSettings): Promise<Finding[]> {
  const name = "kubelet";
  const address = kubeletAddress(cluster);
  try {
    return [kubeletFinding(name, address, await queryKubelet(cluster, address), cluster.kubeletTls === "skip")];
  } catch (error) {
    return [{ name, status: "fail", detail: `${address}: ${messageOf(error)}`, advice: kubeletAdvice(error) }];
  }
}

async function queryKubelet(cluster: ClusterSettings, address: string): Promise<number> {
  const { ca_file: caFile } = kubeletTls({ ...cluster, tls: cluster.kubeletTls }) as { ca_file?: string };
  const connect = caFile === undefined ? { rejectUnauthorized: false } : { ca: readFileSync(caFile) };
  const pool = new Pool(`https://${address}`, { connect, allowH2: false });
  try {
    const token = readFileSync(join(cluster.serviceAccountDir, "token"), "utf8").trim();
    const { statusCode, body } = await pool.request({
      method: "GET",
      path: "/stats/summary",
      headers: { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(WITHIN_MS),
    });
    await body.dump();
    return statusCode;
  } finally {
    await pool.close();
  }
}

function kubeletAdvice(error: unknown): string {
  if (certificateProblem(error)) {
    return "the cluster's authority did not sign this certificate for this address: set KUBELET_TLS (chart: kubelet.tls) to the PEM file of the authority that did, or to skip; or let the cluster sign it (serverTLSBootstrap of the kubelet)";
  }
  if (codeOf(error) === "ECONNREFUSED") return "no server listens there: check NODE_IP, and that the node's kubelet runs";
  if (codeOf(error) === "ENOENT") return "a file of the service account or of KUBELET_TLS is missing: run in the agent's pod";
  return "check NODE_IP, and that firewalls and network policies let pods reach port 10250 of their node";
}

function kubeletFinding(name: string, address: string, status: number, skipsTls: boolean): Finding {
  if (status === 401) {
    const advice = "the kubelet does not accept service account tokens: set authentication.webhook.enabled in its configuration";
    return { name, status: "fail", detail: `${address} answers 401`, advice };
  }
  if (status === 403) {
    const advice = 'grant: ClusterRole: {apiGroups: [""], resources: ["nodes/stats", "nodes/metrics"], verbs: ["get"]}';
    return { name, status: "fail", detail: `${address} answers 403`, advice };
  }
  if (status !== 200) return { name, status: "fail", detail: `${address} answers ${status}`, advice: "see the kubelet's own log" };
  if (skipsTls) {
    const advice = "set KUBELET_TLS (chart: kubelet.tls) to verify, if the cluster's authority signs the certificate";
    return { name, status: "warn", detail: `${address} answers; its certificate is not verified`, advice };
  }
  return { name, status: "ok", detail: `${address} answers` };
}

async function checkOldAgent(api: KubernetesApi): Promise<Finding[]> {
  const name = "older agent";
  try {
    const items = await api.daemonSetsNamed(OLD_AGENT, AbortSignal.timeout(WITHIN_MS));
    if (items.length === 0)
      return [{ name, status: "ok", detail: `no DaemonSet ${OLD_AGENT} in the cluster (other kinds are not checked)` }];
    return items.map(({ metadata }) => {
      const namespace = metadata?.namespace;
      const advice = `it is discontinued, and this agent replaces it: kubectl -n ${namespace} delete daemonset ${OLD_AGENT}`;
      return { name, status: "warn", detail: `there is a DaemonSet ${OLD_AGENT} in namespace ${namespace}`, advice };
    });
  } catch (error) {
    if (!(error instanceof KubernetesError && error.status === 403))
      return [{ name, status: "skipped", detail: messageOf(error), advice: "see the permission check above" }];
    const advice = `helm upgrade --set rbac.diagnose=true, or as an administrator: kubectl get daemonsets -A --field-selector metadata.name=${OLD_AGENT}`;
    const detail = "the service account may not list DaemonSets (chart: clusterState and rbac.diagnose are off)";
    return [{ name, status: "skipped", detail, advice }];
  }
}
