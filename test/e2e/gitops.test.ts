// Installs both charts as GitOps tools do: rendered manifests are applied again and again, without Leases, which Argo CD excludes. Between
// two applies, pods are replaced. Secrets keep their values, no apply restarts a pod, and the cluster stays enrolled. E2E_GITOPS_APPLIES
// sets the number of applies.
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { eventually } from "../fixtures/processes.ts";
import { get, helm, kubectl, NAMESPACE } from "./cluster.ts";
import {
  AGENT_CHART,
  AGENT_SET,
  BACKEND_CHART,
  FIRST_TOKEN,
  InstalledBackend,
  makeFirstToken,
  makeNamespace,
  removeNamespace,
} from "./installation.ts";

const APPLIES = Number(process.env["E2E_GITOPS_APPLIES"] ?? 4);
const BACKEND_SET = [
  "persistence.existingClaim=telemetry",
  "persistence.chown=true",
  `firstInstallToken.existingSecret=${FIRST_TOKEN}`,
].flatMap((value) => ["--set", value]);
const WORKLOADS = ["deployment/backend", "daemonset/agent-cluster-agent"] as const;

beforeAll(async () => {
  await makeNamespace();
  await makeFirstToken();
});

afterAll(async () => {
  if (process.env["E2E_KEEP"]) return;
  await removeNamespace();
  // Without Helm, nothing else removes what belongs to no namespace, and the next release of this name would be refused.
  await kubectl(["delete", "clusterrole,clusterrolebinding", `${NAMESPACE}-agent-cluster-agent`, "--ignore-not-found"]);
});

async function applyRendered(): Promise<void> {
  const rendered = [
    await helm("template", "backend", BACKEND_CHART, "--no-hooks", ...BACKEND_SET),
    await helm("template", "agent", AGENT_CHART, "--no-hooks", ...AGENT_SET, "--set", `installToken.existingSecret=${FIRST_TOKEN}`),
  ];
  const documents = rendered.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as { kind: string } | null));
  const items = documents.filter((document) => document && document.kind !== "Lease");
  await kubectl(["-n", NAMESPACE, "apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items }));
}

async function rolledOut(): Promise<void> {
  for (const workload of WORKLOADS) await kubectl(["-n", NAMESPACE, "rollout", "status", workload, "--timeout=240s"]);
}

/** Every Secret with its data, and the generation of the workloads, which changes with their pods. */
async function readState(): Promise<object> {
  const secrets = (await get("secrets")).items.map(({ metadata, data }: { metadata: { name: string; uid: string }; data?: object }) => ({
    name: metadata.name,
    uid: metadata.uid,
    data,
  }));
  const generations = [];
  for (const workload of WORKLOADS) generations.push((await get(workload)).metadata.generation);
  return { secrets, generations };
}

test(`applied ${APPLIES} times with restarts between, the charts change no Secret, restart no pod, and the cluster stays enrolled`, async () => {
  await applyRendered();
  await rolledOut();
  await using backend = await InstalledBackend.open();
  const onlineSince = async (ms: number) => {
    const [cluster] = (await backend.ask("/api/clusters")).json;
    const heartbeats = cluster?.nodes.map((node: { last_heartbeat: string }) => Date.parse(node.last_heartbeat)) ?? [];
    return heartbeats.some((heartbeatMs: number) => heartbeatMs > ms) && (cluster.cluster_id as string);
  };
  const cluster = await eventually("the cluster is enrolled", () => onlineSince(0));
  const state = await readState();
  for (let round = 1; round < APPLIES; round += 1) {
    await applyRendered();
    expect(await readState(), `apply ${round + 1}`).toEqual(state);
    const restartedMs = Date.now();
    const name = round % 2 === 0 ? "cluster-agent" : "atherops-backend";
    await kubectl(["-n", NAMESPACE, "delete", "pod", "-l", `app.kubernetes.io/name=${name}`, "--wait=true"]);
    await rolledOut();
    expect(await eventually("online after the restart", () => onlineSince(restartedMs), 120_000)).toBe(cluster);
  }
  expect(await readState()).toEqual(state);
  console.log(`${APPLIES} applies, ${APPLIES - 1} restarts:`, { cluster });
});
