// Changes of the cluster's identity by others: a deleted Secret, a revoked key, a new install token, a removed permission, an upgrade of
// the chart. Real kube-apiserver and real chart.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { keyHash } from "../../common/protocol/signature.ts";
import { EnrolmentBackend } from "../fixtures/enrolment-backend.ts";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { eventually } from "../fixtures/processes.ts";

const apiServer = apiServerOfFile();

it("agents restore the key into a deleted and recreated Secret, without using a token", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const installToken = backend.newInstallToken();
  const agents = ["a", "b"].map((name) => cluster.agent(name, { installToken }));
  const [hash] = await Promise.all(agents.map((agent) => agent.signing()));
  await cluster.deleteSecret();
  await eventually("it says what to do", async () => agents[0]!.log.includes("helm upgrade"));
  await apiServer.kube.installChart(cluster.namespace);
  await eventually("the key is back", async () => keyHash((await cluster.secret()).credential?.apiKey ?? "") === hash);
  expect(backend.registrations).toEqual([201]);
  expect(agents.map((agent) => agent.signsWith)).toEqual([hash, hash]);
  expect(agents.flatMap((agent) => agent.refusals)).toEqual([]);
});

it("replaces a revoked key only with an unused install token", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const installToken = backend.newInstallToken();
  const old = cluster.agent("old", { installToken });
  const first = await old.signing();
  backend.revokeAll();
  await eventually("it says what to do", async () => old.log.includes("there is no unused install token"));
  expect(backend.registrations).toEqual([201]);
  const renewed = cluster.agent("renewed", { installToken: backend.newInstallToken() });
  const second = await renewed.signing();
  expect(second).not.toBe(first);
  expect(await old.signing((hash) => hash === second)).toBe(second);
  expect(backend.registrations).toEqual([201, 201]);
  expect(new Set(backend.keys.map(({ clusterId }) => clusterId)).size).toBe(1);
});

it("running agents use a new install token in the mounted file if the key is revoked", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const installTokenFile = join(apiServer.folder, "install-token");
  writeFileSync(installTokenFile, backend.newInstallToken());
  const agents = ["a", "b"].map((name) => cluster.agent(name, { installTokenFile }));
  const [first] = await Promise.all(agents.map((agent) => agent.signing()));
  backend.revokeAll();
  await eventually("it says what to do", async () => agents[0]!.log.includes("there is no unused install token"));
  writeFileSync(installTokenFile, backend.newInstallToken());
  const after = await Promise.all(agents.map((agent) => agent.signing((hash) => hash !== first)));
  expect(new Set(after)).toEqual(new Set([keyHash(backend.keys[1]!.apiKey)]));
  expect(backend.registrations).toEqual([201, 201]);
});

it("an agent that starts while the API server is unavailable signs as soon as it is back, and registers nothing", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const installToken = backend.newInstallToken();
  await using enroller = cluster.agent("enroller", { installToken });
  const hash = await enroller.signing();
  await apiServer.kube.stopServer();
  const late = cluster.agent("late", { installToken });
  await eventually("it says what is wrong", async () => late.log.includes("ECONNREFUSED"));
  await apiServer.kube.startServer();
  expect(await late.signing()).toBe(hash);
  await eventually("it says that all is well", async () => late.log.includes("the cluster's identity has recovered"));
  expect(backend.registrations).toEqual([201]);
});

it("reports a rejected install token and requests it once, and a valid one enrols", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const wrong = cluster.agent("wrong", { installToken: "it_unknown" });
  await eventually("it says what to do", async () => wrong.log.includes("the backend refuses the install token"));
  const right = cluster.agent("right", { installToken: backend.newInstallToken() });
  const hash = await right.signing();
  expect(await wrong.signing()).toBe(hash);
  expect(backend.registrations).toEqual([401, 201]);
  expect(wrong.log + right.log).not.toContain("it_unknown");
});

it("names a missing permission with the rule that grants it, and detects its return", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${cluster.namespace}/roles/cluster-agent`;
  const rules = [
    { apiGroups: [""], resources: ["secrets"], resourceNames: ["cluster-agent-credentials"], verbs: ["get", "patch", "watch"] },
  ];
  const granted = await apiServer.kube.admin.get<{ rules: object[] }>(role, AbortSignal.timeout(60_000));
  await apiServer.kube.admin.mergePatch(role, { rules }, AbortSignal.timeout(60_000));
  const agent = cluster.agent("a", { installToken: backend.newInstallToken() });
  const named = (resource: string, group: string, name: string, verb: string) =>
    `Role in namespace ${cluster.namespace}: {apiGroups: [\\"${group}\\"], resources: [\\"${resource}\\"], resourceNames: [\\"${name}\\"], verbs: [\\"${verb}\\"]}`;
  await eventually("it names the rules", async () => agent.log.includes(named("leases", "coordination.k8s.io", "cluster-agent", "update")));
  expect(agent.log).toContain(named("secrets", "", "cluster-agent-credentials", "update"));
  expect(agent.log).not.toContain(named("secrets", "", "cluster-agent-credentials", "get"));
  await apiServer.kube.admin.mergePatch(role, { rules: granted.rules }, AbortSignal.timeout(60_000));
  await agent.signing();
});

it("an upgrade of the chart neither conflicts with the agent's data nor changes it", async () => {
  await using backend = await EnrolmentBackend.start();
  await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
  const agent = cluster.agent("a", { installToken: backend.newInstallToken() });
  await agent.signing();
  expect(agent.log).not.toContain("lacks permissions");
  await eventually("the Lease is given back", async () => agent.steps.includes("lease-released"));
  const lease = `/apis/coordination.k8s.io/v1/namespaces/${cluster.namespace}/leases/cluster-agent`;
  const before = {
    secret: (await cluster.secret()).object.data,
    lease: await apiServer.kube.admin.get(lease, AbortSignal.timeout(60_000)),
  };
  expect(await apiServer.kube.installChart(cluster.namespace, ["podLabels.upgraded=yes"])).toContain("has been upgraded");
  const after = { secret: (await cluster.secret()).object.data, lease: await apiServer.kube.admin.get(lease, AbortSignal.timeout(60_000)) };
  expect(after.secret).toEqual(before.secret);
  expect(Object.keys(after.secret ?? {})).toEqual(["api-key", "cluster-id", "key-created-at", "used-install-token-sha256"]);
  expect(after.lease).toMatchObject({ spec: (before.lease as { spec: object }).spec });
});
