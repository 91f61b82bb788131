// The charts without a cluster: lint, rendered manifests compared with golden files for every documented set of values, useful messages for
// invalid values, and the settings that the charts pass to the programs.
// Update the golden files: npm test -- charts -u
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { CHARTS, helm, type Manifest, manifests, rendered, SETS, valuesOf } from "../fixtures/charts.ts";
import { ROOT } from "../fixtures/processes.ts";

const WORKLOADS = new Set(["DaemonSet", "Deployment", "StatefulSet"]);

/** Standard error of a refused rendering. */
async function refusal(chart: string, flags: readonly string[]): Promise<string> {
  const run = await helm(["template", "t", chart, ...flags]);
  expect(run.exitCode).not.toBe(0);
  return run.stderr;
}

test.each(SETS)("helm lint --strict passes for %s with %s", async (chart, values) => {
  const run = await helm(["lint", "--strict", chart, "-f", `${chart}/ci/${values}`]);
  expect(run.exitCode, run.stdout).toBe(0);
});

test.each(SETS)("%s with %s renders the golden file", async (chart, values) => {
  // Without the chart's version, which changes with each value.
  const text = (await rendered(chart, values)).replaceAll(/^( +helm\.sh\/chart: [a-z-]+)-[\d.]+$/gm, "$1-<version>");
  await expect(text).toMatchFileSnapshot(join(ROOT, "charts", chart, "ci", "golden", values));
});

test.each(CHARTS)("%s rejects an unknown value with its name", async (chart) => {
  expect(await refusal(chart, ["-f", `${chart}/ci/default-values.yaml`, "--set", "retentoin.logsDays=3"])).toContain("retentoin");
});

test.each([
  ["cluster-agent", "--set clusterName=c", "backendUrl is required"],
  ["cluster-agent", "--set backendUrl=https://b.example", "clusterName is required"],
  ["backend", "--set mode=distributed", "secrets.existingSecret is required"],
  ["backend", "--set mode=distributed,secrets.existingSecret=s,distributed.connectionSecret=c", "distributed.metrics.writeUrl is required"],
])("%s with %s names the missing value", async (chart, flags, message) => {
  expect(await refusal(chart, flags.split(" "))).toContain(message);
});

/** What the agent or the backend would end with, or no one would notice: refused with the value's name and what to do. */
test.each([
  ["cluster-agent", "--set backendUrl=http://b.example", "backendUrl: with plain http", "allowPlainHttp=true"],
  ["cluster-agent", "--set backendUrl=https://u:p@b.example", "backendUrl: scheme, host and port only", ""],
  ["cluster-agent", "--set backendUrl=https://b.example/path", "backendUrl: scheme, host and port only", ""],
  ["cluster-agent", "--set backendUrl=https://b.example:99999", "backendUrl: must be a URL", ""],
  ["cluster-agent", "--set backendUrl=b.example", "backendUrl: must be a URL", ""],
  ["cluster-agent", "--set metricsInterval=banana", "/metricsInterval", ""],
  ["cluster-agent", "--set metricsInterval=100ms", "metricsInterval: must be a duration of at least 1s", ""],
  ["cluster-agent", "--set logs.multilineStart=[", "logs.multilineStart must be a regular expression", "missing closing ]"],
  ["cluster-agent", "--set redact={([}", "redact must hold regular expressions", "missing closing ]"],
  ["cluster-agent", "--set collector.memoryMib=2000", "is less than the 2110 MiB that a pod may use", "raise the limit or lower these"],
  ["cluster-agent", "--set resources.limits.memory=64Mi", "resources.limits.memory: 64Mi is less than", "collector.memoryMib (400)"],
  ["cluster-agent", "--set resources.limits.memory=0.1Gi", "resources.limits.memory: 0.1Gi is less than", ""],
  ["cluster-agent", `--set clusterName=${"n".repeat(201)}`, "/clusterName", "200"],
  ["cluster-agent", "--set identity.secretName=Bad_Name", "/identity/secretName", ""],
  ["cluster-agent", "--set identity.leaseName=-x", "/identity/leaseName", ""],
  [
    "cluster-agent",
    "--set stateHostPath=/var/lib/kubelet",
    "stateHostPath: /var/lib/kubelet belongs to the node",
    "/var/lib/atherops-agent",
  ],
  ["cluster-agent", "--set stateHostPath=/var/lib/x/../kubelet/pods", "belongs to the node", ""],
  ["cluster-agent", "--set stateHostPath=/x/..", "belongs to the node", ""],
  ["cluster-agent", "--set collector.queueMib=1", "/collector/queueMib", "16"],
  ["cluster-agent", "--set installToken.value=it_x", "installToken: existingSecret and value are both set", ""],
  ["cluster-agent", "--set identity.workload=true", "identity.workload: set identity.audience", ""],
  ["cluster-agent", "--set backendCa.secret=ca", "backendCa: configMap and secret are both set", ""],
  ["cluster-agent", "--set proxy.httpsProxy=http://p", "proxy: existingSecret and httpsProxy are both set", ""],
  ["cluster-agent", "--set kubelet.ca.secret=ca", "kubelet.ca: configMap and secret are both set", ""],
  ["cluster-agent", "--set kubelet.tls=skip", "kubelet.ca: kubelet.tls is skip", ""],
  ["cluster-agent", "--set hostAccess=none", "logs.dockerContainers: hostAccess is none", ""],
  ["cluster-agent", "--set podRelay.enabled=false", "logs.policies: podRelay.enabled is false", ""],
  ["cluster-agent", "--set hostAccess=some", "/hostAccess", ""],
  ["cluster-agent", "--set extraEnv.HOST_ACCESS=none", "extraEnv.HOST_ACCESS: set the value hostAccess instead", ""],
  ["cluster-agent", "--set collector.extraConfig.exporters.otlp.endpoint=x", "adds the exporter otlp", "allowOtherExporters=true"],
  ["cluster-agent", "--set extraEnv.LOG_LEVEL=debug", "extraEnv.LOG_LEVEL: set the value logLevel instead", ""],
  ["cluster-agent", "--set extraEnv.INSTALL_TOKEN_FILE=/x", "set the value installToken instead", ""],
  ["cluster-agent", "--set extraEnv.NODE_NAME=x", "extraEnv.NODE_NAME: the chart sets this variable itself", ""],
  ["cluster-agent", "--set networkPolicy.egress.enabled=true", "networkPolicy.egress.more: the port of the proxy", ""],
  [
    "cluster-agent",
    "--set-string extraEnv.COLLECTOR_STOP_GRACE=120s",
    "terminationGracePeriodSeconds: must be at least 20 seconds longer",
    "",
  ],
  ["cluster-agent", "--set-string pools[0].nodeSelector.other=x", "/pools/0/nodeSelector", "maxProperties"],
  ["cluster-agent", "--set pools[0].collector.memoryMib=9000", "is less than the", "raise the limit"],
  ["cluster-agent", "--set-json resources.limits.memory=104857600", "resources.limits.memory: 104857600 is less than", ""],
  ["cluster-agent", "--set-string pools[1].name=gpu,pools[1].nodeSelector.other=x", "pools: two are named gpu", ""],
  ["cluster-agent", "--set fullnameOverride=2024-agent", "fullnameOverride: set a name that begins with a letter", "2024-agent"],
  ["cluster-agent", "--set podLabels.app\\.kubernetes\\.io/name=x", "podLabels: the chart sets app.kubernetes.io/name itself", ""],
  ["cluster-agent", "--set pools[0].podLabels.atherops\\.io/pool=x", "podLabels: the chart sets atherops.io/pool itself", ""],
  ["cluster-agent", "--set imagePullSecrets={registry}", "/imagePullSecrets/0", "want object"],
  ["cluster-agent", "--set proxy=null", "missing property 'proxy'", ""],
  ["cluster-agent", "--set image.digest=sha256:12", "/image/digest", ""],
  ["cluster-agent", "--set-string image.repository=a@sha256:00,image.tag=1", "names a digest already", ""],
  ["backend", "--set ingress.enabled=true,ingress.host=b.example,trustedProxies=null", "trustedProxies is required", "ingress controller"],
  ["backend", "--set trustedProxies={10.0.0.0/33}", "trustedProxies:", "is not an address or CIDR"],
  ["backend", "--set retention.metrics=banana", "retention.metrics:", "such as 30d"],
  ["backend", "--set retention.metrics=0d", "retention.metrics:", "such as 30d"],
  ["backend", "--set admin.email=admin", "admin.email:", "is not an e-mail address"],
  ["backend", "--set evaluation.interval=0s", "evaluation.interval: must be a duration of at least 1s", ""],
  ["backend", "--set backup.every=6h", "backup.existingClaim is required", "a claim for the backups"],
  ["backend", "--set backup.every=often,backup.existingClaim=b", "backup.every:", "such as 6h or 1d"],
  ["backend", "--set alertmanagerUrl=alertmanager:9093", "alertmanagerUrl: must be a URL", ""],
  ["backend", "--set ingestTokens.otlpGrpc=true", "ingestTokens.enabled is required", ""],
  ["backend", "--set ingestTokens.enabled=true,ingestTokens.otlpGrpc=true", "refuses tokens without TLS", "tls.secretName"],
  ["backend", "--set service.type=LoadBalancer", "without TLS", "service.allowPlainHttp=true"],
  ["backend", "--set drainDelay=55s", "drainDelay:", "terminationGracePeriodSeconds"],
  ["backend", "--set drainDelay=banana", "/drainDelay", ""],
  ["backend", "--set mode=distributed", "openssl rand -base64 32", "secrets.existingSecret=t-secrets"],
  ["backend", "--set distributed.api.replicas=10", "distributed.api.autoscaling.maxReplicas: 6 is less than replicas (10)", ""],
  ["backend", "--set gateway.enabled=true", "gateway.parentRefs is required", ""],
  ["backend", "--set fullnameOverride=2024-telemetry", "fullnameOverride: set a name that begins with a letter", "2024-telemetry"],
  ["backend", `--set distributed.api.persistence.size=4Gi,fullnameOverride=${"n".repeat(49)}`, "is too long", "fullnameOverride"],
  ["backend", "--set podLabels.app\\.kubernetes\\.io/component=x", "podLabels: the chart sets app.kubernetes.io/component itself", ""],
  [
    "backend",
    "--set distributed.api.podLabels.app\\.kubernetes\\.io/name=x",
    "podLabels: the chart sets app.kubernetes.io/name itself",
    "",
  ],
  ["backend", "--set persistence.chown=true --api-versions security.openshift.io/v1", "persistence.chown: on OpenShift", "leave it false"],
  ["backend", "--set persistence.size=50GB", "/persistence/size", "50GB"],
  ["backend", "--set global.imageRegistry=https://images.example.com", "/global/imageRegistry", ""],
  ["backend", "--set networkPolicy.ingressFrom={10.0.0.0/8}", "/networkPolicy/ingressFrom/0", "want object"],
  ["backend", "--set extraEnv.A.valueFrom.secretKeyRef.name=s", "/extraEnv/A", "'valueFrom' not allowed"],
  ["backend", "--set tls=null", "missing property 'tls'", ""],
  ["backend", "--set-string extraEnv.OTLP_GRPC_LISTEN=x", "set the value ingestTokens.otlpGrpc instead", ""],
  ["backend", "--set extraEnv.MASTER_KEY_FILE=/x", "set the value secrets.existingSecret instead", ""],
  ["backend", "--set extraEnv.API_LISTEN=x", "extraEnv.API_LISTEN: the chart sets this variable itself", ""],
])("%s with %s is rejected: %s … %s", async (chart, flags, message, advice) => {
  const values = chart === "backend" ? "default" : "everything";
  const words = await refusal(chart, ["-f", `${chart}/ci/${values}-values.yaml`, ...flags.split(" ")]);
  expect(words).toContain(message);
  expect(words).toContain(advice);
});

test("with TLS, the API of the distributed form reaches the alerting service over TLS", async () => {
  const text = await rendered("backend", "distributed-values.yaml", "--set", "tls.secretName=telemetry-tls");
  expect(text).toContain('"https://t-alerting:8082"');
  expect(text).not.toContain('"http://t-alerting:8082"');
});

test.each([
  ["default-values.yaml", "all"],
  ["distributed-values.yaml", "api"],
])("with %s, OTLP over gRPC is open on the pods of the API alone, on their Service and in the NetworkPolicy", async (values, component) => {
  const enabled = "ingestTokens.enabled=true,ingestTokens.otlpGrpc=true,tls.secretName=telemetry-tls,networkPolicy.enabled=true";
  const all = await manifests("backend", values, "--set", enabled);
  const pods = all.filter(({ kind }) => kind === "Deployment").map(({ spec }) => spec.template);
  const open = pods.filter(({ spec }) => JSON.stringify(spec.containers[0].ports).includes("4317"));
  expect(open.map(({ metadata }) => metadata.labels["app.kubernetes.io/component"])).toEqual([component]);
  expect(open[0].spec.containers[0].ports).toContainEqual({ name: "otlp-grpc", containerPort: 4317 });
  expect(open[0].spec.containers[0].env).toContainEqual({ name: "OTLP_GRPC_LISTEN", value: ":4317" });
  expect(open[0].spec.containers[0].env).toContainEqual({ name: "INGEST_TOKENS", value: "true" });
  const service = all.find(({ kind, metadata }) => kind === "Service" && metadata.name === "t");
  expect(service?.spec.ports).toContainEqual({ name: "otlp-grpc", port: 4317, targetPort: "otlp-grpc", appProtocol: "https" });
  const policy = all.find(({ kind }) => kind === "NetworkPolicy");
  expect(policy?.spec.ingress[0].ports).toContainEqual({ port: "otlp-grpc" });
});

test("OTLP over gRPC is closed by default", async () => {
  expect(await rendered("backend", "default-values.yaml")).not.toMatch(/4317|INGEST_TOKENS/);
});

test("the cluster agent accepts durations of several units, and http within one cluster if it is allowed", async () => {
  const flags = ["--set", "metricsInterval=1m30s", "--set", "backendUrl=http://telemetry:8080", "--set", "allowPlainHttp=true"];
  expect(await rendered("cluster-agent", "default-values.yaml", ...flags)).toContain('"1m30s"');
});

test.each(CHARTS)("%s accepts an image with a digest, next to the repository or in it", async (chart) => {
  const digest = `sha256:${"ab".repeat(32)}`;
  for (const set of [`image.digest=${digest}`, `image.repository=registry.example.com/it@${digest}`]) {
    const image = /image: "?([^\s"]+)/.exec(await rendered(chart, "default-values.yaml", "--set-string", set))?.[1];
    expect(image).toMatch(new RegExp(`^[a-z./-]+@${digest}$`));
  }
});

test.each(CHARTS)("%s uses the registry that all charts of an installation share", async (chart) => {
  const flags = ["--set", "global.imageRegistry=registry.example.com/mirror/"];
  const images = [...(await rendered(chart, "default-values.yaml", ...flags)).matchAll(/image: "?([^\s"]+)/g)].map(([, image]) => image);
  expect(images.length).toBeGreaterThan(0);
  for (const image of images) expect(image).toMatch(/^registry\.example\.com\/mirror\/atherops-/);
});

test.each(CHARTS)("%s rejects each variable that it sets in extraEnv", async (chart) => {
  const checks = readFileSync(join(ROOT, "charts", chart, "templates", "_check.tpl"), "utf8");
  const settings = JSON.parse(readFileSync(join(ROOT, "charts", chart, "settings.json"), "utf8")) as object;
  const unknown: string[] = [];
  for (const values of valuesOf(chart)) {
    const { extraEnv = {} } = (valuesIn(chart, "ci", values) ?? {}) as { extraEnv?: object };
    const pods = (await manifests(chart, values)).filter(({ kind }) => WORKLOADS.has(kind));
    for (const { name } of pods.flatMap(({ spec }) => spec.template.spec.containers[0].env as { name: string }[])) {
      if (Object.hasOwn(extraEnv, name)) continue;
      const plain = name.replace(/_FILE$/, "");
      const isSetting = Object.hasOwn(settings, name) || Object.hasOwn(settings, plain);
      if (!isSetting && !new RegExp(`\\(list[^)]*"${plain}"`).test(checks)) unknown.push(name);
    }
  }
  // Not a setting: a variable of Node.js, for which the user's own takes precedence.
  expect([...new Set(unknown)].filter((name) => name !== "NODE_EXTRA_CA_CERTS")).toEqual([]);
});

test.each(CHARTS)("%s accepts the values of a release without egress rules (helm upgrade --reuse-values)", async (chart) => {
  const flags = ["--set", "networkPolicy.enabled=true,networkPolicy.egress=null"];
  const policy = (await manifests(chart, "default-values.yaml", ...flags)).find(({ kind }) => kind === "NetworkPolicy");
  expect(policy?.spec.policyTypes).toEqual(["Ingress"]);
});

/** As in `tls:` with `secretName:` and nothing after it, in a file of values. */
test("the backend takes an empty value for the default", async () => {
  const ingress = ["--set", "ingress.enabled=true,ingress.host=b.example,trustedProxies={10.0.0.1}"];
  const emptied = ["tls.secretName", "ingress.tlsSecretName", "ingress.annotations", "secrets.existingSecret", "persistence.storageClass"];
  const nulls = emptied.flatMap((name) => ["--set", `${name}=null`]);
  expect(await rendered("backend", "default-values.yaml", ...ingress, ...nulls)).toBe(
    await rendered("backend", "default-values.yaml", ...ingress),
  );
  const scaling = await manifests("backend", "distributed-values.yaml", "--set", "distributed.api.autoscaling=null");
  expect(scaling.filter(({ kind, metadata }) => kind === "HorizontalPodAutoscaler" && metadata.name === "t-api")).toEqual([]);
});

test("backend accepts the values of a release without backups", async () => {
  const pod = (await manifests("backend", "default-values.yaml", "--set", "backup=null")).find(({ kind }) => kind === "Deployment");
  expect(JSON.stringify(pod)).not.toContain("BACKUP_");
});

test.each(CHARTS)("%s allows its pods out of a namespace that denies egress, on request", async (chart) => {
  const more = `networkPolicy.egress.more=[{"ports":[{"port":5432}]}]`;
  const flags = ["--set", "networkPolicy.enabled=true,networkPolicy.egress.enabled=true", "--set-json", more];
  const policy = (await manifests(chart, "default-values.yaml", ...flags)).find(({ kind }) => kind === "NetworkPolicy");
  expect(policy?.spec.policyTypes).toEqual(["Ingress", "Egress"]);
  const ports = policy?.spec.egress.flatMap((rule: { ports?: { port: number }[] }) => (rule.ports ?? []).map(({ port }) => port));
  expect(ports).toEqual(expect.arrayContaining(chart === "backend" ? [53, 8082, 5432] : [53, 443, 6443, 10250, 5432]));
});

type Values = Record<string, unknown>;

const isMap = (value: unknown): value is Values =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
/** `["retention", "metrics"]` and so on: what is no map, or an empty one. */
const leavesOf = (values: Values, under: string[] = []): string[][] =>
  Object.entries(values).flatMap(([name, value]) => (isMap(value) ? leavesOf(value, [...under, name]) : [[...under, name]]));
const isOf = (leaf: string[], name: string): boolean => `${leaf.join(".")}.`.startsWith(`${name.replace(/\.\*$/, "")}.`);

function valuesIn(...path: string[]): Values {
  return parse(readFileSync(join(ROOT, "charts", ...path), "utf8")) as Values;
}

/** The names in the first column of the README's table; `.b` after `a.c` is `a.b`, and one of a map covers all in it. */
function documentedValues(chart: string): string[] {
  const readme = readFileSync(join(ROOT, "charts", chart, "README.md"), "utf8");
  return [...readme.matchAll(/^\| (?<names>`[^|]+) \|/gm)].flatMap(({ groups }) => {
    const [first = "", ...others] = [...(groups?.["names"] ?? "").matchAll(/`([\w.*]+)`/g)].map(([, name = ""]) => name);
    const parent = first.replace(/\.[^.]*$/, "");
    return [first, ...others.map((name) => (name.startsWith(".") ? parent + name : name))];
  });
}

test.each(CHARTS)("the README of %s lists every value that is no setting's, and nothing else", (chart) => {
  const leaves = leavesOf(valuesIn(chart, "values.yaml"));
  const documented = documentedValues(chart);
  const ofSettings = Object.values(valuesIn(chart, "settings.json") as Record<string, { value: string }>).map(({ value }) => value);
  expect(leaves.filter((leaf) => ![...documented, ...ofSettings].some((name) => isOf(leaf, name)))).toEqual([]);
  expect(documented.filter((name) => !leaves.some((leaf) => isOf(leaf, name)))).toEqual([]);
});

function without(values: Values, [name = "", ...rest]: readonly string[]): Values {
  const { [name]: value, ...others } = values;
  return rest.length === 0 || !isMap(value) ? others : { ...others, [name]: without(value, rest) };
}

async function renderedOf(chart: string, values: Values): Promise<string> {
  const run = await helm(["template", "t", chart, "--namespace", "telemetry", "-f", "-"], JSON.stringify(values));
  return run.exitCode === 0 ? run.stdout : run.stderr;
}

/** A template that forgets a value, or a value that no golden file shows, would be found by an installation. */
test.each(CHARTS)("every documented value of %s changes a rendered object", { timeout: 120_000 }, async (chart) => {
  const untold = new Set(documentedValues(chart));
  for (const set of valuesOf(chart)) {
    const values = valuesIn(chart, "ci", set);
    const whole = await renderedOf(chart, values);
    for (const leaf of leavesOf(values)) {
      const names = [...untold].filter((name) => isOf(leaf, name));
      if (names.length === 0 || (await renderedOf(chart, without(values, leaf))) === whole) continue;
      for (const name of names) untold.delete(name);
    }
  }
  expect([...untold]).toEqual([]);
});

test.each([
  ["cluster-agent", "agent/settings-table.ts"],
  ["backend", "backend/settings-table.ts"],
])("every variable that %s sets is a setting of %s", async (chart, settings) => {
  const known = readFileSync(join(ROOT, settings), "utf8");
  const names = new Set<string>();
  for (const values of valuesOf(chart)) {
    for (const { kind, spec } of await manifests(chart, values)) {
      if (!WORKLOADS.has(kind)) continue;
      for (const { name } of spec.template.spec.containers[0].env) names.add(name.replace(/(?<!CA|CERT|TLS_KEY|CONFIG)_FILE$/, ""));
    }
  }
  expect(names.size).toBeGreaterThan(10);
  for (const name of names) expect(known).toContain(`setting("${name}",`);
});

test("upgrades do not conflict over the identity's Secret and Lease, and uninstall keeps them", async () => {
  const all = await manifests("cluster-agent", "default-values.yaml");
  for (const kind of ["Secret", "Lease"]) {
    const shell = all.find((manifest) => manifest.kind === kind);
    expect(shell?.metadata.annotations?.["helm.sh/resource-policy"]).toBe("keep");
    expect([shell?.data, shell?.spec]).toEqual([undefined, undefined]);
  }
});

/** The pod of the cluster agent. */
async function agentPod(values: string, ...more: string[]): Promise<Manifest["spec"]> {
  const all = await manifests("cluster-agent", values, ...more);
  return all.find(({ kind }) => kind === "DaemonSet")?.spec.template.spec;
}

const hostPathsOf = (pod: { volumes: { hostPath?: { path: string } }[] }): string[] =>
  pod.volumes.flatMap(({ hostPath }) => hostPath?.path ?? []).sort();

test("the cluster agent mounts of its node what hostAccess sets; with none its pods meet the pod security standard restricted", async () => {
  expect(hostPathsOf(await agentPod("default-values.yaml"))).toEqual(["/", "/var/lib/atherops-agent", "/var/log/pods"]);
  expect(hostPathsOf(await agentPod("proc-values.yaml"))).toEqual(["/proc", "/sys", "/var/lib/atherops-agent", "/var/log/pods"]);
  const pod = await agentPod("no-host-values.yaml");
  expect(hostPathsOf(pod)).toEqual([]);
  const kinds = new Set<string>(pod.volumes.flatMap((volume: object) => Object.keys(volume)));
  expect([...kinds].sort()).toEqual(["emptyDir", "name", "secret"]);
  expect(pod.securityContext).toEqual({ runAsNonRoot: true, fsGroup: 1000, seccompProfile: { type: "RuntimeDefault" } });
  expect(pod.containers[0].securityContext).toEqual({
    runAsUser: 1000,
    runAsGroup: 1000,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  expect(pod.hostNetwork ?? false).toBe(false);
});

test("the cluster agent's security context has the values' fields over the chart's own; on OpenShift the SELinux type that reads a node's files", async () => {
  const type = ["--set", "securityContext.seLinuxOptions.type=super_t"];
  const own = (await agentPod("default-values.yaml")).containers[0].securityContext;
  expect(own).not.toHaveProperty("seLinuxOptions");
  const given = (await agentPod("default-values.yaml", ...type)).containers[0].securityContext;
  expect(given).toEqual({ ...own, seLinuxOptions: { type: "super_t" } });
  const openshift = ["--set", "openshift.scc=true"];
  const onOpenshift = (await agentPod("default-values.yaml", ...openshift)).containers[0].securityContext;
  expect(onOpenshift).toEqual({ ...own, seLinuxOptions: { type: "spc_t" } });
  expect((await agentPod("default-values.yaml", ...openshift, ...type)).containers[0].securityContext).toEqual(given);
});

test("on OpenShift the SecurityContextConstraints allow what the pods need, for their service account alone", async () => {
  for (const values of ["default-values.yaml", "no-host-values.yaml"]) {
    const all = await manifests("cluster-agent", values, "--set", "openshift.scc=true");
    const pod = all.find(({ kind }) => kind === "DaemonSet")?.spec.template.spec;
    const scc = all.find(({ kind }) => kind === "SecurityContextConstraints") as Manifest;
    expect(scc.allowHostDirVolumePlugin).toBe(hostPathsOf(pod).length > 0);
    expect(scc.allowedCapabilities).toEqual(pod.containers[0].securityContext.capabilities.add ?? []);
    expect([scc.users, scc.groups, scc.allowPrivilegedContainer, scc.allowHostNetwork]).toEqual([[], [], false, false]);
    for (const volume of pod.volumes as object[]) {
      const [kind] = Object.keys(volume).filter((key) => key !== "name");
      expect(scc.volumes).toContain(kind);
    }
    const use = all.find(({ kind, metadata }) => kind === "Role" && metadata.name.endsWith("-scc"));
    expect(use?.rules).toEqual([
      {
        apiGroups: ["security.openshift.io"],
        resources: ["securitycontextconstraints"],
        resourceNames: [scc.metadata.name],
        verbs: ["use"],
      },
    ]);
  }
  const without = await manifests("cluster-agent", "default-values.yaml");
  expect(without.filter(({ kind }) => kind === "SecurityContextConstraints")).toEqual([]);
});

test("the kubelet's authority is mounted where the agent's settings expect it", async () => {
  for (const values of ["no-host-values.yaml", "everything-values.yaml"]) {
    const { containers, volumes } = await agentPod(values);
    const path = containers[0].env.find(({ name }: { name: string }) => name === "KUBELET_TLS").value as string;
    const mount = containers[0].volumeMounts.find(({ mountPath }: { mountPath: string }) => path.startsWith(`${mountPath}/`));
    const { configMap, secret } = volumes.find(({ name }: { name: string }) => name === mount.name);
    expect(`${mount.mountPath}/${(configMap ?? secret).items[0].path}`).toBe(path);
  }
});

test("the cluster agent accepts the values of a release without host, kubelet authority and OpenShift (--reuse-values)", async () => {
  const none = [
    "hostAccess",
    "kubelet.ca",
    "openshift",
    "securityContext",
    "podSecurityContext",
    "extraVolumes",
    "extraVolumeMounts",
    "global",
    "collector.extraConfig",
  ];
  const flags = none.flatMap((name) => ["--set", `${name}=null`]);
  expect(await rendered("cluster-agent", "default-values.yaml", ...flags)).toBe(await rendered("cluster-agent", "default-values.yaml"));
});

async function notes(chart: string, ...flags: string[]): Promise<string> {
  const values = ["-f", `${chart}/ci/default-values.yaml`, "--namespace", "telemetry", "--dry-run=client", ...flags];
  return (await helm(["install", "t", chart, ...values])).stdout.split("NOTES:")[1] ?? "";
}

test("NOTES show the label that the namespace needs, and none if nothing of the node is mounted", async () => {
  expect(await notes("cluster-agent")).toContain("kubectl label namespace telemetry pod-security.kubernetes.io/enforce=privileged");
  expect(await notes("cluster-agent", "--set", "hostAccess=none")).not.toContain("enforce=privileged");
});

test("NOTES of the backend show how to open its console, unless it is off", async () => {
  const inside = await notes("backend");
  expect(inside).toContain("The console opens in a browser at http://127.0.0.1:8080/");
  const [, service] = /kubectl -n telemetry port-forward service\/(\S+) 8080\n/.exec(inside) ?? [];
  const named = (await manifests("backend", "default-values.yaml")).filter(({ kind }) => kind === "Service");
  expect(named.map(({ metadata }) => metadata.name)).toContain(service);
  const ingress = ["ingress.enabled=true", "ingress.host=telemetry.example.com", "ingress.tlsSecretName=tls", "trustedProxies={10.0.0.1}"];
  expect(await notes("backend", ...ingress.flatMap((value) => ["--set", value]))).toContain(
    "in a browser at https://telemetry.example.com/, with",
  );
  const off = await notes("backend", "--set-string", "extraEnv.CONSOLE=false");
  expect(off).toContain("Log in as the first user");
  expect(off).not.toContain("onsole");
});

test("the backend's pods meet the pod security standard restricted; the agent's exceptions are the listed ones", async () => {
  for (const values of valuesOf("backend")) {
    for (const { kind, spec } of await manifests("backend", values)) {
      if (kind !== "Deployment") continue;
      const pod = spec.template.spec;
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
      expect(pod.containers[0].securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      // The one exception, off by default: a volume that the node owns is given to user 1000.
      for (const init of (pod.initContainers ?? []).slice(0, 1)) {
        expect([values, init.name]).toEqual(["node-volume-values.yaml", "chown"]);
        expect(init.securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"], add: ["CHOWN", "DAC_READ_SEARCH"] },
        });
      }
      expect(pod.volumes.some((volume: object) => "hostPath" in volume)).toBe(false);
    }
  }
  const agent = (await manifests("cluster-agent", "default-values.yaml")).find(({ kind }) => kind === "DaemonSet")?.spec.template.spec;
  expect(agent.hostNetwork ?? false).toBe(false);
  expect(agent.containers[0].securityContext).toEqual({
    runAsUser: 0,
    runAsGroup: 0,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"], add: ["DAC_READ_SEARCH"] },
  });
});

test("the default memory limit covers the agent, its collectors and bodies in progress", async () => {
  const [limit] = /(?<=limits:\n\s+memory: )\d+(?=Mi)/.exec(await rendered("cluster-agent", "default-values.yaml")) ?? [];
  expect(Number(limit)).toBeGreaterThan(400 + 200 + 110 + 64);
});
