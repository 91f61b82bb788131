// The charts in kinds of clusters that differ from a test cluster: GitOps tools that only render, OpenShift, IPv6, virtual nodes, several
// replicas, pools of nodes, parent charts; and all of their sets of values at a real API server.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import {
  CHARTS_FOLDER as CHARTS,
  helm,
  type Manifest,
  manifests as render,
  manifestsIn,
  rendered,
  SETS,
  template,
} from "../fixtures/charts.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { temporaryFolder } from "../fixtures/processes.ts";

const apiServer = apiServerOfFile();

const backend = (...more: string[]) => render("backend", "default-values.yaml", ...more);
const distributed = (...more: string[]) => render("backend", "distributed-values.yaml", ...more);
const agent = (...more: string[]) => render("cluster-agent", "default-values.yaml", ...more);

function one(all: Manifest[], kind: string, name?: string): Manifest {
  const found = all.find((manifest) => manifest.kind === kind && (name === undefined || manifest.metadata.name === name));
  if (!found) throw new Error(`no ${kind} ${name ?? ""}`);
  return found;
}

const podOf = (manifest: Manifest) => manifest["spec"].template.spec;
const envOf = (manifest: Manifest): Record<string, string> =>
  Object.fromEntries(podOf(manifest).containers[0].env.map(({ name, value }: { name: string; value: string }) => [name, value]));

/** Kinds without a namespace, of the charts. */
const CLUSTER_SCOPED = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass", "SecurityContextConstraints"];

describe.each(SETS)("%s with %s", (chart, values) => {
  test("renders the same each time, without a secret, in the namespace of the release", async () => {
    const all = await render(chart, values);
    expect(await template([chart, "-f", `${chart}/ci/${values}`])).toBe(await rendered(chart, values));
    const secrets = all.filter(({ kind }) => kind === "Secret").map(({ data = {} }) => Object.keys(data as object).join(","));
    // The install token that the operator gave, and the Secret that the agents fill.
    expect(secrets.filter((keys) => keys !== "" && keys !== "token")).toEqual([]);
    const outside = all.filter(({ kind, metadata }) => !CLUSTER_SCOPED.includes(kind) && metadata.namespace !== "telemetry");
    expect(outside.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
  });

  test("has no hook that a GitOps tool would run at each synchronisation", async () => {
    const hooks = (await render(chart, values)).map(({ metadata }) => metadata.annotations?.["helm.sh/hook"]).filter(Boolean);
    expect(hooks.filter((hook) => hook !== "test")).toEqual([]);
  });
});

describe("with a real API server", () => {
  const within = () => AbortSignal.timeout(60_000);

  beforeAll(async () => await apiServer.kube.admin.post("/api/v1/namespaces", { metadata: { name: "telemetry" } }, within()));

  test.each(SETS)("every object of %s with %s is accepted", async (chart, values) => {
    const { admin } = apiServer.kube;
    const refused: string[] = [];
    let accepted = 0;
    for (const manifest of await render(chart, values)) {
      const { apiVersion, kind, metadata } = manifest;
      // Their definitions are not part of Kubernetes.
      if (/monitoring\.coreos\.com|security\.openshift\.io|gateway\.networking/.test(apiVersion)) continue;
      const plural =
        { Ingress: "ingresses", NetworkPolicy: "networkpolicies", PriorityClass: "priorityclasses" }[kind] ?? `${kind.toLowerCase()}s`;
      const where = metadata.namespace === undefined ? "" : `namespaces/${metadata.namespace}/`;
      const path = `/${apiVersion === "v1" ? "api" : "apis"}/${apiVersion}/${where}${plural}?dryRun=All&fieldValidation=Strict`;
      await admin.post(path, manifest, within()).then(
        () => (accepted += 1),
        (error: Error) => refused.push(`${kind} ${metadata.name}: ${error.message}`),
      );
    }
    expect(refused).toEqual([]);
    expect(accepted).toBeGreaterThan(3);
  });

  test("an installation of an earlier version keeps the size of its claim and its Secret, which no version changes or removes", async () => {
    const { admin } = apiServer.kube;
    const kept = { namespace: "telemetry", annotations: { "helm.sh/resource-policy": "keep" } };
    const owner = { "meta.helm.sh/release-name": "t", "meta.helm.sh/release-namespace": "telemetry", ...kept.annotations };
    const claim = {
      metadata: { ...kept, name: "t-data", labels: { "app.kubernetes.io/managed-by": "Helm" }, annotations: owner },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "20Gi" } } },
    };
    await admin.post("/api/v1/namespaces/telemetry/persistentvolumeclaims", claim, within());
    const secret = { metadata: { ...kept, name: "t-secrets" }, stringData: { MASTER_KEY: "of before" } };
    await admin.post("/api/v1/namespaces/telemetry/secrets", secret, within());
    const at = ["-n", "telemetry", `--kubeconfig=${join(apiServer.folder, "kubeconfig.json")}`];
    const run = async (...args: string[]): Promise<string> => {
      const { exitCode, stdout, stderr } = await helm([...args, ...at]);
      expect(exitCode, stderr).toBe(0);
      return stdout;
    };
    expect(await run("install", "t", "backend")).toContain("get secret t-secrets -o jsonpath='{.data.ADMIN_PASSWORD}'");
    const set = ["mode=distributed", "distributed.connectionSecret=c", "distributed.vmalert.queryUrl=http://a"];
    const engines = ["distributed.metrics.writeUrl=http://w", "distributed.metrics.queryUrl=http://q"];
    await run("upgrade", "t", "backend", "--set", [...set, ...engines].join());
    await run("uninstall", "t");
    const { spec } = await admin.get<Manifest>("/api/v1/namespaces/telemetry/persistentvolumeclaims/t-data", within());
    expect(spec.resources.requests.storage).toBe("20Gi");
    const { data } = await admin.get<Manifest>("/api/v1/namespaces/telemetry/secrets/t-secrets", within());
    expect(data).toEqual({ MASTER_KEY: Buffer.from("of before").toString("base64") });
  });
});

/** Calls `visit` with every string, number and so on under `value`, with its key. */
function eachLeaf(value: unknown, visit: (key: string, leaf: unknown) => void, key = ""): void {
  if (typeof value !== "object" || value === null) visit(key, value);
  else for (const [name, child] of Object.entries(value)) eachLeaf(child, visit, Array.isArray(value) ? key : name);
}

describe("names", () => {
  test.each(["my.telemetry", `${"a".repeat(44)}.last-one`])("a release %s has objects whose names Kubernetes accepts", async (release) => {
    for (const [chart, values] of [
      ["backend", "distributed-values.yaml"],
      ["cluster-agent", "everything-values.yaml"],
    ] as const) {
      const all = manifestsIn(await template([chart, "-f", `${chart}/ci/${values}`], release));
      const services = all.filter((manifest) => manifest?.kind === "Service");
      expect(services.length).toBeGreaterThan(0);
      for (const { metadata } of services) expect(metadata.name).toMatch(/^[a-z][-a-z0-9]{0,61}[a-z0-9]$/);
    }
  });

  const COMMON = "secrets.existingSecret firstInstallToken.existingSecret firstInstallToken.key tls.secretName";
  const SCHEDULED = "serviceAccount.name priorityClassName";

  test.each([
    ["backend", "distributed-values.yaml", `${COMMON} ${SCHEDULED} distributed.connectionSecret distributed.api.persistence.storageClass`],
    [
      "backend",
      "all-values.yaml",
      `${COMMON} ${SCHEDULED} persistence.storageClass backup.existingClaim service.loadBalancerClass notification.smtp.existingSecret`,
    ],
    ["backend", "all-values.yaml", "persistence.existingClaim ingress.className ingress.host ingress.tlsSecretName"],
    [
      "cluster-agent",
      "default-values.yaml",
      `${SCHEDULED} installToken.existingSecret installToken.key identity.secretName identity.leaseName`,
    ],
    ["cluster-agent", "default-values.yaml", "backendCa.secret backendCa.key kubelet.ca.configMap kubelet.ca.key proxy.existingSecret"],
  ])("of digits stay strings in %s with %s: %s", async (chart, values, named) => {
    const digits = named.split(" ").map((name) => `${name}=123`);
    const set = chart === "backend" ? "distributed.api.persistence.size=4Gi" : "rbac.create=true";
    const flags = ["-f", `${chart}/ci/${values}`, "--set-string", digits.join(), "--set", `fullnameOverride=b,${set}`];
    const text = await template([chart, "-n", "1e3", ...flags], "2024");
    const numbers: string[] = [];
    for (const document of parseAllDocuments(text))
      eachLeaf(document.toJS(), (key, leaf) => {
        if (typeof leaf !== "string" && /name|key|host|instance|class/i.test(key)) numbers.push(`${key}: ${String(leaf)}`);
      });
    expect(numbers).toEqual([]);
    expect(text.split('"123"').length).toBeGreaterThan(4);
  });
});

describe("labels", () => {
  test("that a policy requires are on every object and pod, also those of `helm test`", async () => {
    for (const [chart, values] of [
      ["backend", "all-values.yaml"],
      ["backend", "distributed-values.yaml"],
      ["cluster-agent", "everything-values.yaml"],
    ] as const) {
      const all = await render(chart, values, "--set", "commonLabels.cost=x,podLabels.unit=y");
      const without = (labels: Record<string, string> | undefined) => labels?.["cost"] !== "x";
      const objects = all.filter(({ kind, metadata }) => kind !== "CustomResourceDefinition" && without(metadata.labels));
      expect(objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
      const pods = all.flatMap((manifest) => (manifest.kind === "Pod" ? manifest : (manifest["spec"]?.template ?? [])));
      expect(pods.length).toBeGreaterThan(1);
      for (const { metadata } of pods) expect(metadata.labels).toMatchObject({ cost: "x", unit: "y" });
    }
  });

  test("of a ServiceMonitor replace those of the chart", async () => {
    const labels = `serviceMonitor={"enabled":true,"labels":{"app.kubernetes.io/instance":"prometheus"}}`;
    expect(one(await backend("--set-json", labels), "ServiceMonitor").metadata.labels["app.kubernetes.io/instance"]).toBe("prometheus");
  });
});

test("a claim without a storage class has an empty one, and a host of an Ingress may be a wildcard", async () => {
  const claim = one(await backend("--set", "persistence.storageClass=-"), "PersistentVolumeClaim");
  expect(claim["spec"].storageClassName).toBe("");
  const ingress = await backend("--set", "ingress.enabled=true,ingress.host=*.example.com,trustedProxies={10.0.0.1}");
  expect(one(ingress, "Ingress")["spec"].rules[0].host).toBe("*.example.com");
});

test("with a quota of CPU limits, every container that the values cannot reach has one", async () => {
  const all = await render("backend", "node-volume-values.yaml");
  const agents = await agent();
  const fixed = [
    podOf(one(all, "Deployment")).initContainers[0],
    one(all, "Pod")["spec"].containers[0],
    one(agents, "Pod")["spec"].containers[0],
  ];
  for (const { resources } of fixed) expect(Object.keys(resources.limits)).toEqual(["cpu", "memory"]);
});

describe("GitOps", () => {
  test("without a Secret, the embedded form generates its secrets on its volume; an earlier version's Secret stays in use", async () => {
    const pod = podOf(one(await backend(), "Deployment"));
    const secrets = pod.volumes.find(({ name }: { name: string }) => name === "secrets").projected.sources;
    expect(secrets).toEqual([{ secret: { name: "t-secrets", optional: true } }]);
    const named = podOf(one(await backend("--set", "secrets.existingSecret=mine"), "Deployment"));
    expect(named.volumes.find(({ name }: { name: string }) => name === "secrets").projected.sources).toEqual([
      { secret: { name: "mine" } },
    ]);
  });

  test("a new version of a chart does not restart its pods", async () => {
    using folder = temporaryFolder();
    for (const chart of ["backend", "cluster-agent"]) {
      const copy = join(folder.path, chart);
      mkdirSync(copy);
      cpSync(join(CHARTS, chart), copy, { recursive: true });
      const file = join(copy, "Chart.yaml");
      writeFileSync(file, readFileSync(file, "utf8").replace(/^version: .*/m, "version: 9.9.9+commit"));
      for (const kind of chart === "backend" ? ["Deployment"] : ["DaemonSet"]) {
        const [before, after] = [await render(chart, "default-values.yaml"), await render(copy, "default-values.yaml")].map((all) =>
          one(all, kind),
        );
        expect(after?.["spec"].template).toEqual(before?.["spec"].template);
        expect(after?.metadata.labels["helm.sh/chart"]).toMatch(/-9\.9\.9_commit$/);
      }
    }
  });

  test("an untagged release has labels and tags that Kubernetes and registries accept", async () => {
    using folder = temporaryFolder();
    for (const chart of ["backend", "cluster-agent"]) {
      await helm(["package", chart, "--version", "0.1.9+abc1234", "--app-version", "0.1.0+abc1234", "--destination", folder.path]);
      const packaged = join(folder.path, readdirSync(folder.path).find((name) => name.includes(chart)) ?? "");
      const text = await template([packaged, "-f", `${chart}/ci/default-values.yaml`]);
      expect(text.match(/image: .*|(?:version|chart): .*\+.*/g)?.map((line) => line.replaceAll('"', ""))).toEqual(
        expect.arrayContaining([expect.stringMatching(/:0\.1\.0-abc1234$/)]),
      );
      expect(text).not.toContain("+abc1234");
    }
  });
});

test("no pod of a node can name the Secret of the backend: the first install token has its own", async () => {
  const [sources] = podOf(one(await backend("--set", "firstInstallToken.existingSecret=first"), "Deployment"))
    .volumes.filter(({ name }: { name: string }) => name === "secrets")
    .map(({ projected }: { projected: { sources: object[] } }) => projected.sources);
  expect(sources).toContainEqual({ secret: { name: "first", optional: true, items: [{ key: "token", path: "FIRST_INSTALL_TOKEN" }] } });
  const readme = readFileSync(join(CHARTS, "backend", "README.md"), "utf8");
  expect(readme).not.toMatch(/installToken\.existingSecret=telemetry-secrets/);
});

test("IPv6: listeners have no host, so that they use both families, and Services have the families of the values", async () => {
  const workloads = [...(await backend()), ...(await distributed())].filter(({ kind }) => kind === "Deployment");
  const listeners = workloads.flatMap((workload) => Object.entries(envOf(workload)).filter(([name]) => name.endsWith("_LISTEN")));
  expect(listeners.length).toBeGreaterThan(9);
  for (const [, address] of listeners) expect(address).toMatch(/^:\d+$/);
  const service = one(await backend("--set", "service.ipFamilyPolicy=RequireDualStack,service.ipFamilies={IPv6,IPv4}"), "Service", "t");
  expect(service["spec"]).toMatchObject({ ipFamilyPolicy: "RequireDualStack", ipFamilies: ["IPv6", "IPv4"] });
});

describe("OpenShift", () => {
  const openshift = ["--api-versions", "security.openshift.io/v1"];

  test("leaves the backend's users to the namespace's range; elsewhere values set or remove each field", async () => {
    expect(podOf(one(await backend(...openshift), "Deployment")).securityContext).not.toHaveProperty("runAsUser");
    expect(podOf(one(await backend(...openshift), "Deployment")).securityContext).not.toHaveProperty("fsGroup");
    expect(podOf(one(await backend(), "Deployment")).securityContext).toMatchObject({ runAsUser: 1000, fsGroup: 1000 });
    const given = await backend("--set", "podSecurityContext.fsGroup=7,podSecurityContext.runAsUser=null,securityContext.runAsUser=8");
    expect(podOf(one(given, "Deployment")).securityContext).toMatchObject({ fsGroup: 7 });
    expect(podOf(one(given, "Deployment")).containers[0].securityContext).toMatchObject({ runAsUser: 8, allowPrivilegeEscalation: false });
  });

  test("creates the agent's constraints only there, and not if openshift.scc is false", async () => {
    const isMade = async (...flags: string[]) => (await agent(...flags)).some(({ kind }) => kind === "SecurityContextConstraints");
    expect(await Promise.all([isMade(...openshift), isMade(), isMade(...openshift, "--set", "openshift.scc=false")])).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe("nodes", () => {
  const VIRTUAL = [
    { key: "eks.amazonaws.com/compute-type", operator: "NotIn", values: ["fargate"] },
    { key: "type", operator: "NotIn", values: ["virtual-kubelet"] },
  ];
  const termsOf = (manifest: Manifest): { matchExpressions: object[] }[] =>
    podOf(manifest).affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;

  test("Fargate and virtual kubelets get no agent, whatever affinity is set", async () => {
    expect(termsOf(one(await agent(), "DaemonSet"))).toEqual([{ matchExpressions: VIRTUAL }]);
    for (const term of termsOf(one(await render("cluster-agent", "all-values.yaml"), "DaemonSet")))
      expect(term.matchExpressions).toEqual([{ key: "disk", operator: "Exists" }, ...VIRTUAL]);
  });

  test("a pool gets a DaemonSet with its own resources, the others exclude its nodes, and all send OTLP to one Service", async () => {
    const all = await render("cluster-agent", "everything-values.yaml");
    const [main, gpu] = all.filter(({ kind }) => kind === "DaemonSet");
    if (!main || !gpu) throw new Error("expected two");
    expect(podOf(gpu)).toMatchObject({
      nodeSelector: { "example.com/accelerator": "gpu", "kubernetes.io/os": "linux" },
      priorityClassName: "system-node-critical",
    });
    expect(envOf(gpu)).toMatchObject({ COLLECTOR_MEMORY_MIB: "1600", QUEUE_MIB: "4096" });
    expect(podOf(gpu).containers[0].resources.limits.memory).toBe("3Gi");
    expect(envOf(main)).not.toHaveProperty("COLLECTOR_MEMORY_MIB");
    expect(termsOf(main)[0]?.matchExpressions).toContainEqual({ key: "example.com/accelerator", operator: "NotIn", values: ["gpu"] });
    expect(termsOf(gpu)[0]?.matchExpressions).toEqual(VIRTUAL);
    const selector = one(all, "Service")["spec"].selector as object;
    for (const { spec } of [main, gpu]) expect(spec.template.metadata.labels).toMatchObject(selector);
    expect(gpu["spec"].selector.matchLabels).not.toEqual(main["spec"].selector.matchLabels);
  });

  test("with hostAccess=none the queue fits its volume, and requests cover the pod's limits, so that it is not evicted first", async () => {
    const pod = podOf(one(await render("cluster-agent", "no-host-values.yaml"), "DaemonSet"));
    const mib = Number.parseInt(pod.volumes.find(({ name }: { name: string }) => name === "state").emptyDir.sizeLimit, 10);
    expect(mib).toBeGreaterThan(5 * 512);
    const { requests, limits } = pod.containers[0].resources;
    expect(requests.memory).toBe(limits.memory);
    expect([requests["ephemeral-storage"], limits["ephemeral-storage"]]).toEqual([`${mib + 256}Mi`, `${mib + 256}Mi`]);
  });
});

describe("replicas", () => {
  test("are spread over nodes and zones by their role's labels, and roles have their own values", async () => {
    for (const role of ["api", "alerting"]) {
      const deployment = one(await distributed(), "Deployment", `t-${role}`);
      const spread = podOf(deployment).topologySpreadConstraints as { topologyKey: string; labelSelector: object }[];
      expect(spread.map(({ topologyKey }) => topologyKey)).toEqual(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
      for (const { labelSelector } of spread) expect(labelSelector).toEqual({ matchLabels: deployment["spec"].selector.matchLabels });
    }
    const all = await render("backend", "distributed-fixed-values.yaml");
    expect(podOf(one(all, "StatefulSet"))).toMatchObject({ nodeSelector: { pool: "api" }, priorityClassName: "api" });
    expect(podOf(one(all, "Deployment"))).not.toHaveProperty("nodeSelector");
  });

  test("of the API have a claim for their journal on request, and otherwise a limited volume that fits it", async () => {
    const stateful = one(await render("backend", "distributed-fixed-values.yaml"), "StatefulSet");
    const [claim] = stateful["spec"].volumeClaimTemplates;
    expect([claim.spec.resources.requests.storage, claim.spec.storageClassName]).toEqual(["4Gi", "fast"]);
    expect(podOf(stateful).containers[0].volumeMounts).toContainEqual({ name: "data", mountPath: "/data" });
    expect(podOf(stateful).volumes.map(({ name }: { name: string }) => name)).not.toContain("data");
    const pod = podOf(one(await distributed(), "Deployment", "t-api"));
    expect(pod.volumes).toContainEqual({ name: "data", emptyDir: { sizeLimit: "3Gi" } });
    expect(pod.containers[0].resources.requests["ephemeral-storage"]).toBe("3Gi");
  });
});

test("a load balancer keeps client addresses, accepts the given fields, and its ports name their protocols", async () => {
  const set =
    "service.type=LoadBalancer,tls.secretName=tls,ingestTokens.enabled=true,ingestTokens.otlpGrpc=true,service.loadBalancerClass=a/b";
  const { spec } = one(await backend("--set", set, "--set", "service.loadBalancerSourceRanges={10.0.0.0/8}"), "Service", "t");
  expect(spec).toMatchObject({ externalTrafficPolicy: "Local", loadBalancerClass: "a/b", loadBalancerSourceRanges: ["10.0.0.0/8"] });
  expect(spec.ports.map(({ appProtocol }: { appProtocol: string }) => appProtocol)).toEqual(["https", "https"]);
  const plain = one(await distributed(), "Service", "t")["spec"];
  expect(plain.ports.map(({ appProtocol }: { appProtocol: string }) => appProtocol)).toEqual(["http", "grpc"]);
  expect(plain).not.toHaveProperty("externalTrafficPolicy");
});

test("the Gateway API has a route for HTTP, and one for gRPC if its port is open", async () => {
  const all = await distributed();
  for (const [kind, port] of [
    ["HTTPRoute", 8080],
    ["GRPCRoute", 4317],
  ] as const)
    expect(one(all, kind)["spec"]).toEqual({
      parentRefs: [{ name: "public", namespace: "gateways" }],
      hostnames: ["telemetry.example.com"],
      rules: [{ backendRefs: [{ name: "t", port }] }],
    });
  const without = await distributed("--set", "ingestTokens.otlpGrpc=false");
  expect(without.some(({ kind }) => kind === "GRPCRoute")).toBe(false);
});

test("egress rules let agents reach the pods that they scrape, and DNS of OpenShift", async () => {
  const egressOf = async (...flags: string[]) =>
    one(await agent("--set", "networkPolicy.enabled=true,networkPolicy.egress.enabled=true", ...flags), "NetworkPolicy")["spec"].egress;
  expect(await egressOf()).toContainEqual({ to: [{ namespaceSelector: {} }] });
  expect(await egressOf("--set", "scrapePods.enabled=false")).toHaveLength(1);
  expect((await egressOf())[0].ports).toContainEqual({ port: 5353, protocol: "UDP" });
});

test("the pages say what the defaults leave open", async () => {
  const readme = (chart: string) => readFileSync(join(CHARTS, chart, "README.md"), "utf8");
  // A policy without peers lets everyone in.
  const [rule] = one(await backend("--set", "networkPolicy.enabled=true"), "NetworkPolicy")["spec"].ingress;
  expect(rule).not.toHaveProperty("from");
  expect(readme("backend")).toMatch(/^\| `networkPolicy\.enabled`.* Empty: all\. .*\|$/m);
  // The root of the node holds every pod's Secrets.
  const volumes = podOf(one(await agent(), "DaemonSet")).volumes as { hostPath?: { path: string } }[];
  expect(volumes.flatMap(({ hostPath }) => hostPath?.path ?? [])).toContain("/");
  expect(readme("cluster-agent")).toMatch(/every file of the node, including the Secrets of its pods and the kubelet's credentials/);
});

test("installs the alert rules of the charts unchanged", async () => {
  for (const [chart, values] of [
    ["backend", "distributed-values.yaml"],
    ["cluster-agent", "everything-values.yaml"],
  ] as const) {
    const rule = one(await render(chart, values), "PrometheusRule");
    const [file] = parseAllDocuments(readFileSync(join(CHARTS, chart, "alerts.yaml"), "utf8"));
    expect(rule["spec"]).toEqual(file?.toJS());
    expect(rule.metadata.labels["release"]).toBe("prometheus");
  }
});

test("a parent chart can turn both charts on and off by a condition, in one release", async () => {
  using folder = temporaryFolder();
  mkdirSync(join(folder.path, "charts"));
  for (const chart of ["backend", "cluster-agent"]) cpSync(join(CHARTS, chart), join(folder.path, "charts", chart), { recursive: true });
  const dependencies = ["atherops-backend", "cluster-agent"].map((name) => ({ name, version: "*", condition: `${name}.enabled` }));
  writeFileSync(join(folder.path, "Chart.yaml"), JSON.stringify({ apiVersion: "v2", name: "parent", version: "1.0.0", dependencies }));
  const values = (on: boolean) =>
    [
      "atherops-backend.enabled=true",
      `cluster-agent.enabled=${on}`,
      "cluster-agent.backendUrl=https://b.example",
      "cluster-agent.clusterName=c",
    ].join();
  const kinds = async (on: boolean) => {
    return manifestsIn(await template([folder.path, "--set", values(on)])).map(({ kind }) => kind);
  };
  expect(await kinds(true)).toEqual(expect.arrayContaining(["Deployment", "DaemonSet"]));
  expect(await kinds(false)).not.toContain("DaemonSet");
});

test("the Pods of `helm test` can be pulled and scheduled, pass the NetworkPolicy, and are absent if there is nothing to ask", async () => {
  for (const [chart, values] of [
    ["backend", "all-values.yaml"],
    ["cluster-agent", "default-values.yaml"],
  ] as const) {
    const flags = ["--set", "networkPolicy.enabled=true,imagePullSecrets[0].name=registry,nodeSelector.disk=ssd"];
    const all = await render(chart, values, ...flags);
    const { metadata, spec } = one(all, "Pod");
    expect(spec).toMatchObject({ imagePullSecrets: [{ name: "registry" }], nodeSelector: { disk: "ssd" } });
    expect(spec.containers[0].resources.limits).toBeDefined();
    const peers = one(all, "NetworkPolicy")["spec"].ingress.flatMap(({ from = [] }: { from?: object[] }) => from);
    const chosen = peers.map((peer: { podSelector?: { matchLabels: object } }) => peer.podSelector?.matchLabels ?? { none: true });
    expect(chosen.some((labels: object) => Object.entries(labels).every(([name, value]) => metadata.labels[name] === value))).toBe(true);
  }
  expect((await agent("--set", "otlpService.enabled=false")).some(({ kind }) => kind === "Pod")).toBe(false);
});

test("the user's annotations replace those of the chart, and the user's variables those that are not settings", async () => {
  const flags = ["ingress.enabled=true", "ingress.host=b.example", "trustedProxies={10.0.0.1}"].flatMap((set) => ["--set", set]);
  const size = "nginx.ingress.kubernetes.io/proxy-body-size";
  const given = await backend(...flags, "--set-json", `ingress.annotations={"${size}":"64m"}`);
  expect(one(given, "Ingress").metadata.annotations).toEqual({ [size]: "64m" });
  const api = one(await distributed("--set", "tls.secretName=tls,extraEnv.NODE_EXTRA_CA_CERTS=/more/ca.crt"), "Deployment", "t-api");
  expect(podOf(api).containers[0].env.filter(({ name }: { name: string }) => name === "NODE_EXTRA_CA_CERTS")).toEqual([
    { name: "NODE_EXTRA_CA_CERTS", value: "/more/ca.crt" },
  ]);
});
