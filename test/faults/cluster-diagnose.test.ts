// The command `diagnose` of the cluster agent as `kubectl exec` runs it in a pod: every check failing and passing, and for each failure
// what to do. Real kube-apiserver with only the chart's RBAC, real backend over TLS, real agent with its collector; only the kubelet is a
// stand-in. Invariant: no output contains a secret: each is searched for the values of all secrets. It is one file, because all checks need
// one cluster, backend and agent.
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setDefaultCACertificates } from "node:tls";
import { gunzipSync } from "node:zlib";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canMount, SmallDisk } from "../../agent/collector/supervision/small-disk.fixture.ts";
import type { Finding } from "../../agent/commands/diagnose/check.ts";
import type { KubernetesAccess } from "../../agent/kubernetes/transport.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { freshAddress, Kubelet, makeCertificate } from "../fixtures/kubelet.ts";
import { adminPassword, type BackendPlace, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import {
  baseEnvironment,
  call,
  eventually,
  freeAddresses,
  readIfThere,
  ROOT,
  temporaryFolder,
  TestProcess,
} from "../fixtures/processes.ts";

const PROGRAM = "agent/bin/atherops-k8s-otel-agent.ts";
const WITHIN = () => AbortSignal.timeout(60_000);
const PROXY_PASSWORD = `pass|${randomBytes(8).toString("hex")}`;
const OUTGOING_PROXY = `http://proxy-user:${encodeURIComponent(PROXY_PASSWORD)}@127.0.0.1:1`;

const folder = temporaryFolder();
const file = (name: string) => join(folder.path, name);
/** Secrets that no output may contain; tests add each secret that they create. */
const secrets = new Set([PROXY_PASSWORD, encodeURIComponent(PROXY_PASSWORD)]);
const caFile = file("backend.crt");
let kube: KubeApiServer;
let kubelet: Kubelet;
let place: BackendPlace;
let apiUrl: string;
let backend: TestProcess;
let session: string;
let agent: TestProcess;
/** The environment of the pod whose agent runs. */
let pod: NodeJS.ProcessEnv;

function secret(value: string): string {
  // Every text contains the empty one.
  if (!value) throw new Error("there is no secret here");
  for (const form of [value, Buffer.from(value).toString("base64"), encodeURIComponent(value)]) secrets.add(form);
  return value;
}

beforeAll(async () => {
  kube = await KubeApiServer.start(folder.path);
  kubelet = await Kubelet.start(folder.path, folder.path);
  await makeCertificate(caFile, file("backend.key"), "IP:127.0.0.1");
  setDefaultCACertificates([readFileSync(caFile, "utf8")]);
  const masterKeys = { MASTER_KEY: secret(randomBytes(32).toString("base64")), JWT_SECRET: secret(randomBytes(32).toString("base64")) };
  place = await backendPlace(folder.path, { TLS_CERT_FILE: caFile, TLS_KEY_FILE: file("backend.key"), ...masterKeys });
  apiUrl = place.apiUrl.replace("http:", "https:");
  backend = await startBackend(place);
  session = secret(await login(apiUrl, "admin@localhost", secret(adminPassword(place))));
  pod = await newPod("telemetry");
  agent = new TestProcess([PROGRAM, "run"], pod, file("agent.out"));
  await agent.ready(`http://${pod["HEALTH_LISTEN"]}/readyz`);
  secret((await keyIn("telemetry"))!);
});

afterAll(async () => {
  await agent?.end();
  await backend?.end();
  await kubelet?.[Symbol.asyncDispose]();
  await kube?.[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** A namespace with the chart, and the environment that it gives to a pod; its install token is new. */
async function newPod(namespace: string, values: string[] = []): Promise<NodeJS.ProcessEnv> {
  // Without collection for the whole cluster, which needs further rules (test/contract/permissions.test.ts).
  await kube.installChart(namespace, ["clusterState.enabled=false", "events.enabled=false", ...values]);
  const access: KubernetesAccess = await kube.agentAccess(namespace);
  secret(readFileSync(access.tokenFile, "utf8"));
  const tokenFile = file(`install-token-${namespace}`);
  writeFileSync(tokenFile, secret(await installToken()), { mode: 0o600 });
  // The collector's own access to the API server is at a fixed place, which this machine does not have.
  writeFileSync(file("overlay.yaml"), "processors: {k8s_attributes: null, k8s_attributes/files: null}\nreceivers: {kubeletstats: null}\n");
  const { hostname, port } = new URL(kube.url);
  return {
    BACKEND_URL: apiUrl,
    BACKEND_CA_FILE: caFile,
    CLUSTER_NAME: "test",
    NODE_NAME: "node-1",
    NODE_IP: kubelet.ip,
    POD_NAMESPACE: namespace,
    ...(await ownOfPod()),
    QUEUE_MIB: "16",
    LOG_LEVEL: "debug",
    INSTALL_TOKEN_FILE: tokenFile,
    HTTPS_PROXY: OUTGOING_PROXY,
    KUBERNETES_SERVICE_HOST: hostname,
    KUBERNETES_SERVICE_PORT: port,
    SERVICE_ACCOUNT_DIR: dirname(access.tokenFile),
    HOST_ROOT: "/",
    COLLECTOR_CONFIG_FILE: file("overlay.yaml"),
    OTELCOL_PATH: await toolPath("otelcol-contrib"),
  };
}

/** Settings that differ for every pod, whichever node it runs on. */
async function ownOfPod(): Promise<NodeJS.ProcessEnv> {
  const [health, grpc, http, proxy] = await freeAddresses(4);
  const uid = randomUUID();
  return {
    POD_UID: uid,
    STATE_DIR: file(`state-${uid}`),
    HEALTH_LISTEN: health,
    OTLP_GRPC_LISTEN: grpc,
    OTLP_HTTP_LISTEN: http,
    PROXY_LISTEN: proxy,
  };
}

async function installToken(): Promise<string> {
  return (await call("POST", `${apiUrl}/api/install-tokens`, { bearer: session, body: {} })).json.token as string;
}

const secretPath = (namespace: string) => `/api/v1/namespaces/${namespace}/secrets/cluster-agent-credentials`;

async function keyIn(namespace: string): Promise<string | undefined> {
  const { data } = await kube.admin.get<{ data?: Record<string, string> }>(secretPath(namespace), WITHIN());
  return data?.["api-key"] && Buffer.from(data["api-key"], "base64").toString();
}

/** Enrols a separate cluster at the backend, with its key in the Secret of `namespace`. Returns its id. */
async function enrolled(namespace: string): Promise<string> {
  const body = { cluster_name: namespace, cluster_uid: randomUUID(), agent_version: "1" };
  const headers = { "idempotency-key": randomUUID() };
  const answer = await call("POST", `${apiUrl}/api/clusters/register`, { bearer: secret(await installToken()), body, headers });
  expect(answer.status).toBe(201);
  const { cluster_id, api_key, key_created_at } = answer.json as Record<string, string>;
  const stringData = { "cluster-id": cluster_id, "api-key": secret(api_key!), "key-created-at": key_created_at };
  await kube.admin.mergePatch(secretPath(namespace), { stringData }, WITHIN());
  return cluster_id!;
}

interface Report {
  exitCode: number | undefined;
  text: string;
  bundle: { findings: Finding[] } & Record<string, unknown>;
  /** Findings of one check, each `status: detail | advice`. */
  of: (name: string) => string[];
}

/** Runs the command, and makes sure that it shows no secret. */
async function diagnose(env: NodeJS.ProcessEnv): Promise<Report> {
  const bundleFile = file(`bundle-${randomUUID()}.json.gz`);
  const child = execa(process.execPath, [PROGRAM, "diagnose", "--bundle", bundleFile], {
    cwd: ROOT,
    env: { ...baseEnvironment(), ...env },
    extendEnv: false,
    reject: false,
  });
  const commandLines = new Set<string>();
  const look = setInterval(() => commandLinesNow().forEach((line) => commandLines.add(line)), 50);
  const { exitCode, stdout, stderr } = await child;
  clearInterval(look);
  const bundleText = gunzipSync(readFileSync(bundleFile)).toString("utf8");
  expect([...commandLines].some((line) => line.includes(bundleFile))).toBe(true);
  expect(stderr).toBe("");
  expectNoSecret({ stdout, bundle: bundleText, "command lines": [...commandLines].join("\n") });
  const bundle = JSON.parse(bundleText) as Report["bundle"];
  const of = (wanted: string) =>
    bundle.findings.filter(({ name }) => name === wanted).map(({ status, detail, advice = "" }) => `${status}: ${detail} | ${advice}`);
  const failed = bundle.findings.filter(({ status }) => status === "fail");
  expect(exitCode).toBe(failed.length === 0 ? 0 : 1);
  // Each problem has advice for the operator.
  for (const { status, advice } of bundle.findings) expect(status === "ok" || Boolean(advice)).toBe(true);
  for (const { detail, advice } of bundle.findings)
    expect(stdout).toContain(advice === undefined ? detail : `${detail}\n        ${advice}`);
  return { exitCode, text: stdout, bundle, of };
}

/** Command lines of all processes of this machine. */
function commandLinesNow(): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readIfThere(`/proc/${pid}/cmdline`).replaceAll("\0", " "));
}

function expectNoSecret(shown: Record<string, string>): void {
  for (const [where, text] of Object.entries(shown)) {
    expect(text, where).not.toBe("");
    // Compared by length: a failing assertion must not show it either.
    for (const value of secrets) expect(text.includes(value), `${where} shows a secret of ${value.length} characters`).toBe(false);
  }
}

describe("diagnose in a pod", () => {
  it("passes every check in a healthy cluster, with exit code 0", async () => {
    const { exitCode, text, bundle, of } = await diagnose(pod);
    expect(bundle.findings.map(({ name, status }) => `${status} ${name}`)).toEqual([
      "ok settings",
      "ok DNS",
      "ok backend",
      "ok clock",
      "ok permissions",
      "ok credentials",
      "ok key",
      "ok kubelet",
      "skipped older agent",
      "ok disk",
      "ok collector",
      // This machine has no /var/log/pods with this pod.
      "warn log files",
      "ok running agent",
    ]);
    expect(of("backend")).toEqual([expect.stringMatching(/^ok: answers over TLS/)]);
    expect(of("key")).toEqual([expect.stringMatching(/accepted by the backend; 0 days old/)]);
    expect(text).toContain("nothing is wrong");
    expect(exitCode).toBe(0);
  });

  it("reports a name that cannot be resolved, or leaves it to the outgoing proxy", async () => {
    const unknown = { ...pod, BACKEND_URL: "https://backend.invalid" };
    const direct = await diagnose({ ...unknown, HTTPS_PROXY: undefined });
    expect(direct.exitCode).toBe(1);
    expect(direct.of("DNS")).toEqual([
      expect.stringMatching(/^fail: backend\.invalid cannot be resolved: .* \| .*BACKEND_URL.*resolv\.conf/),
    ]);
    const proxied = await diagnose(unknown);
    expect(proxied.of("DNS")).toEqual([expect.stringMatching(/^skipped: .*outgoing proxy/)]);
    expect(proxied.of("backend")).toEqual([expect.stringMatching(/^fail: .*ECONNREFUSED.* \| .*HTTPS_PROXY/)]);
  });

  it("reports an untrusted backend certificate, or one for another name", async () => {
    const untrusted = await diagnose({ ...pod, BACKEND_CA_FILE: undefined });
    expect(untrusted.of("backend")).toEqual([expect.stringMatching(/^fail: .*SELF_SIGNED.* \| set BACKEND_CA_FILE/)]);
    expect(untrusted.of("key")).toEqual([expect.stringMatching(/^fail: .* \| see the backend checks/)]);
    const misnamed = await diagnose({ ...pod, BACKEND_URL: apiUrl.replace("127.0.0.1", "localhost") });
    expect(misnamed.of("backend")).toEqual([expect.stringMatching(/^fail: .*ALTNAME.* \| use a host name of the certificate/)]);
  });

  it("reports that no backend listens on the address", async () => {
    const { of } = await diagnose({ ...pod, BACKEND_URL: "https://127.0.0.1:1" });
    expect(of("backend")).toEqual([expect.stringMatching(/^fail: .*ECONNREFUSED.* \| no server listens there/)]);
  });

  it("reports a wrong clock, while the key still signs and Kubernetes works", async () => {
    const shifted = (seconds: number) => `--import=data:text/javascript,const{now}=Date;Date.now=()=>now()+${seconds}e3`;
    const off = await diagnose({ ...pod, NODE_OPTIONS: shifted(3600) });
    expect(off.of("clock")).toEqual([
      expect.stringMatching(/^fail: (3599|3600|3601) s ahead of the backend's \| synchronise this machine's clock/),
    ]);
    expect(off.bundle.findings.filter(({ status }) => status === "fail").map(({ name }) => name)).toEqual(["clock"]);
    expect((await diagnose({ ...pod, NODE_OPTIONS: shifted(-100) })).of("clock")).toEqual([expect.stringMatching(/^warn: \d+ s behind/)]);
  });

  it("reports invalid settings without their values", async () => {
    const { of, exitCode } = await diagnose({ ...pod, BACKEND_URL: `https://user:${encodeURIComponent(PROXY_PASSWORD)}@backend.example` });
    expect(of("settings")).toEqual([expect.stringMatching(/^fail: [^]*BACKEND_URL: must have only scheme, host and port/)]);
    expect(exitCode).toBe(1);
  });

  it("reports a missing or empty Secret, and a revoked key in it", async () => {
    const env = await newPod("credentials");
    const noToken = { ...env, INSTALL_TOKEN_FILE: undefined };
    const where = "Secret credentials/cluster-agent-credentials";
    expect((await diagnose(env)).of("credentials")).toEqual([
      `warn: ${where} has no key yet | the agents enrol with INSTALL_TOKEN; see the running agent`,
    ]);
    expect((await diagnose(noToken)).of("credentials")).toEqual([
      expect.stringMatching(
        /^fail: .* has no key, and there is no INSTALL_TOKEN \(it is not set, .*\) \| create an install token \(`atherops tokens create`\)/,
      ),
    ]);
    const id = await enrolled("credentials");
    const good = await diagnose(noToken);
    expect(good.of("credentials")).toEqual([`ok: ${where} has the key of cluster ${id} | `]);
    expect(good.of("key")).toEqual([expect.stringMatching(/^ok/)]);
    expect((await call("DELETE", `${apiUrl}/api/clusters/${id}`, { bearer: session })).status).toBeLessThan(300);
    expect((await diagnose(noToken)).of("key")).toEqual([expect.stringMatching(/^fail: .*key.* \| create an install token .* chart/)]);
    await kube.admin.delete(secretPath("credentials"), WITHIN());
    expect((await diagnose(noToken)).of("credentials")).toEqual([expect.stringMatching(/^fail: .* does not exist \| .*helm upgrade/)]);
  });

  it("reports the free space relative to the queues' limits", async () => {
    const { of, exitCode } = await diagnose({ ...pod, QUEUE_MIB: "1048576" });
    expect(of("disk")).toEqual([expect.stringMatching(/^warn: .* \| free space, or set QUEUE_MIB/)]);
    expect(exitCode).toBe(0);
  });

  it.skipIf(!canMount)("reports a full or read-only disk (needs root)", async () => {
    using disk = new SmallDisk(file("small-disk"), "160m");
    const env = { ...pod, STATE_DIR: disk.path };
    expect((await diagnose(env)).of("disk")).toEqual([expect.stringMatching(/^ok: (159|160) MiB free/)]);
    disk.fill();
    const full = await diagnose(env);
    expect(full.of("disk")).toEqual([expect.stringMatching(/^fail: full: 0 MiB free .* \| free space/)]);
    expect(full.exitCode).toBe(1);
    await execa("mount", ["-o", "remount,ro", disk.path]);
    expect((await diagnose(env)).of("disk")).toEqual([expect.stringMatching(/^fail: .* cannot be written: EROFS \| .*STATE_DIR/)]);
  });

  it("reports why the kubelet does not respond as expected", async () => {
    const of = async (env: NodeJS.ProcessEnv) => (await diagnose({ ...pod, ...env })).of("kubelet");
    await using own = await Kubelet.start(folder.path, folder.path);
    await using selfSigned = await Kubelet.start(folder.path, undefined);
    expect(await of({ NODE_IP: own.ip })).toEqual([`ok: ${own.ip}:10250 answers | `]);
    expect([...own.authorizations]).toEqual([`Bearer ${readFileSync(join(pod["SERVICE_ACCOUNT_DIR"]!, "token"), "utf8")}`]);
    own.status = 401;
    expect(await of({ NODE_IP: own.ip })).toEqual([expect.stringMatching(/^fail: .* answers 401 \| .*webhook/)]);
    own.status = 403;
    expect(await of({ NODE_IP: own.ip })).toEqual([expect.stringMatching(/^fail: .* answers 403 \| grant: .*nodes\/stats/)]);
    own.status = 500;
    expect(await of({ NODE_IP: own.ip })).toEqual([expect.stringMatching(/^fail: .* answers 500 \| see the kubelet's own log/)]);
    expect(await of({ NODE_IP: selfSigned.ip })).toEqual([expect.stringMatching(/^fail: .*certificate.* \| .*KUBELET_TLS/)]);
    expect(await of({ NODE_IP: selfSigned.ip, KUBELET_TLS: "skip" })).toEqual([expect.stringMatching(/^warn: .*not verified/)]);
    expect(await of({ NODE_IP: selfSigned.ip, KUBELET_TLS: file(`kubelet-${selfSigned.ip}.crt`) })).toEqual([expect.stringMatching(/^ok/)]);
    expect(await of({ NODE_IP: freshAddress() })).toEqual([expect.stringMatching(/^fail: .*ECONNREFUSED.* \| no server listens there/)]);
    expect(await of({ NODE_IP: freshAddress(), SIGNALS: "logs,traces" })).toEqual([]);
  });

  it("reports a collector that cannot run, or rejects its configuration", async () => {
    const of = async (env: NodeJS.ProcessEnv) => (await diagnose({ ...pod, ...env })).of("collector");
    expect(await of({ OTELCOL_PATH: file("none") })).toEqual([expect.stringMatching(/^fail: OTELCOL_PATH: .*cannot be executed/)]);
    writeFileSync(file("wrong.yaml"), "receivers: {otlp: {protocol: {}}}");
    expect(await of({ COLLECTOR_CONFIG_FILE: file("wrong.yaml") })).toEqual([
      expect.stringMatching(/^fail: [^]*protocol[^]*COLLECTOR_CONFIG_FILE/),
    ]);
  });

  it("reports that no agent runs, or why its collector does not", async () => {
    const env = { ...pod, ...(await ownOfPod()) };
    expect((await diagnose(env)).of("running agent")).toEqual([expect.stringMatching(/^fail: no agent responds at .* \| .*kubectl logs/)]);
    const taken = createServer().listen(Number(env["OTLP_HTTP_LISTEN"]!.split(":")[1]), "127.0.0.1");
    await once(taken, "listening");
    const crashing = new TestProcess([PROGRAM, "run"], env, file("crashing.out"));
    try {
      const readyz = `http://${env["HEALTH_LISTEN"]}/readyz`;
      await eventually("it has crashed", async () => (await call("GET", readyz)).text.includes("address already in use"));
      expect((await diagnose(env)).of("running agent")).toEqual([
        expect.stringMatching(/^fail: the collector is [^]*address already in use[^]* \| the agent restarts it/),
      ]);
    } finally {
      await crashing.end();
      taken.close();
    }
    expectNoSecret({ log: crashing.log });
  });

  it("names the other release that has this cluster's key", async () => {
    const env = await newPod("second");
    const second = new TestProcess([PROGRAM, "run"], env, file("second.out"));
    try {
      const readyz = `http://${env["HEALTH_LISTEN"]}/readyz`;
      await eventually("it is refused", async () => (await call("GET", readyz)).text.includes("cluster_in_use"));
      const { of } = await diagnose(env);
      expect(of("running agent")).toContainEqual(
        expect.stringMatching(/^fail: .*\(telemetry\/cluster-agent-credentials\) has this cluster's key: uninstall one of the two/),
      );
      expect(of("credentials")).toEqual([expect.stringMatching(/^warn: Secret second\/cluster-agent-credentials has no key yet \| /)]);
    } finally {
      await second.end();
    }
    expectNoSecret({ log: second.log });
  });

  it("warns of a frozen older agent in the cluster, if it has the permission", async () => {
    const env = await newPod("older", ["rbac.diagnose=true"]);
    const mayNot = await diagnose(pod);
    expect(mayNot.of("older agent")).toEqual([
      expect.stringMatching(
        /^skipped: .*may not list DaemonSets \(chart: clusterState and rbac\.diagnose are off\) \| helm upgrade --set rbac\.diagnose=true/,
      ),
    ]);
    expect((await diagnose(env)).of("older agent")).toEqual([
      "ok: no DaemonSet atherops-agent in the cluster (other kinds are not checked) | ",
    ]);
    const labels = { app: "atherops-agent" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "agent", image: "older" }] } };
    const spec = { selector: { matchLabels: labels }, template };
    const older = { apiVersion: "apps/v1", kind: "DaemonSet", metadata: { name: "atherops-agent" }, spec };
    await kube.admin.post("/apis/apps/v1/namespaces/kube-system/daemonsets", older, WITHIN());
    expect((await diagnose(env)).of("older agent")).toEqual([
      "warn: there is a DaemonSet atherops-agent in namespace kube-system | it is discontinued, and this agent replaces it: kubectl -n kube-system delete daemonset atherops-agent",
    ]);
  });
});

interface Rule {
  apiGroups: string[];
  resources: string[];
  resourceNames?: string[];
  verbs: string[];
}

/** For each: its name, the kind of role with its rules, the resources whose rules are removed, and the findings that are then reported. */
const RULES: [string, "Role" | "ClusterRole", string[], string[]][] = [
  [
    "the Secret",
    "Role",
    ["secrets"],
    ["get", "update", "patch", "watch"].map((verb) => named("", "secrets", "cluster-agent-credentials", verb)),
  ],
  [
    "the Lease",
    "Role",
    ["leases"],
    [
      ...["get", "update", "patch", "watch"].map((verb) => named("coordination.k8s.io", "leases", "cluster-agent", verb)),
      '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}',
    ],
  ],
  ["kubelet stats", "ClusterRole", ["nodes/stats"], [anywhere("nodes/stats", "get")]],
  ["cAdvisor", "ClusterRole", ["nodes/metrics"], [anywhere("nodes/metrics", "get")]],
  ["kube-system", "ClusterRole", ["namespaces"], [named("", "namespaces", "kube-system", "get")]],
  ["attributes", "ClusterRole", ["pods"], attributes()],
];

function named(group: string, resource: string, name: string, verb: string): string {
  return `{apiGroups: ["${group}"], resources: ["${resource}"], resourceNames: ["${name}"], verbs: ["${verb}"]}`;
}

function anywhere(resource: string, verb: string): string {
  return `{apiGroups: [""], resources: ["${resource}"], verbs: ["${verb}"]}`;
}

function attributes(): string[] {
  return ["list", "watch"].map((verb) => anywhere("pods", verb));
}

describe("diagnose of permissions", () => {
  const rolePath = (kind: "Role" | "ClusterRole", namespace: string) =>
    `/apis/rbac.authorization.k8s.io/v1/${kind === "Role" ? `namespaces/${namespace}/roles/cluster-agent` : `clusterroles/${namespace}-cluster-agent`}`;
  const rulesOf = async (kind: "Role" | "ClusterRole", namespace: string) =>
    (await kube.admin.get<{ rules: Rule[] }>(rolePath(kind, namespace), WITHIN())).rules;

  it("checks every rule of the chart", async () => {
    const granted = [...(await rulesOf("Role", "telemetry")), ...(await rulesOf("ClusterRole", "telemetry"))];
    expect(new Set(granted.flatMap(({ resources }) => resources))).toEqual(new Set(RULES.flatMap(([, , resources]) => resources)));
  });

  const namespace = "rules";
  let podOfRules: NodeJS.ProcessEnv;
  beforeAll(async () => void (podOfRules = await newPod(namespace)));

  it.for(RULES)(
    "without the rule for %s names only the missing permission, with the line that grants it",
    async ([, kind, resources, lines]) => {
      const granted = await rulesOf(kind, namespace);
      const rules = granted.filter((rule) => !rule.resources.some((resource) => resources.includes(resource)));
      await kube.admin.mergePatch(rolePath(kind, namespace), { rules }, WITHIN());
      const where = kind === "Role" ? `Role in namespace ${namespace}` : "ClusterRole";
      const wanted = `grant them, for example with helm upgrade of charts/cluster-agent:\n        ${lines.map((line) => `${where}: ${line}`).join("\n        ")}`;
      const report = await eventually("the API server has the news, and all is named", async () => {
        const now = await diagnose(podOfRules);
        return now.of("permissions")[0]?.endsWith(` | ${wanted}`) && now;
      });
      const credentials = resources.includes("secrets") ? /^fail: cannot read .*403.* \| see the permission check/ : /^warn: .* no key yet/;
      expect(report.of("credentials")).toEqual([expect.stringMatching(credentials)]);
      await kube.admin.mergePatch(rolePath(kind, namespace), { rules: granted }, WITHIN());
    },
  );

  it("reports that the API server does not know the service account, or does not respond", async () => {
    const env = await newPod("strange");
    const strange = file("serviceaccount-strange");
    writeFileSync(
      join(strange, "token"),
      secret(`eyJ${randomBytes(12).toString("hex")}.eyJ${randomBytes(12).toString("hex")}.${randomUUID()}`),
    );
    const unknown = await diagnose(env);
    expect(unknown.of("permissions")).toEqual([expect.stringMatching(/^fail: .*401.* \| .*token is invalid/)]);
    expect(unknown.of("credentials")).toEqual([expect.stringMatching(/^fail: cannot read /)]);
    const away = await diagnose({ ...env, KUBERNETES_SERVICE_PORT: "1" });
    expect(away.of("permissions")).toEqual([expect.stringMatching(/^fail: .*ECONNREFUSED.* \| .*KUBERNETES_SERVICE_HOST/)]);
    const outside = await diagnose({ ...env, SERVICE_ACCOUNT_DIR: file("none") });
    expect(outside.of("permissions")).toEqual([expect.stringMatching(/^fail: .*ENOENT.* \| .*run in the agent's pod/)]);
    expect(outside.of("kubelet")).toEqual([expect.stringMatching(/^fail: .*ENOENT/)]);
  });
});

describe("the bundle", () => {
  it("contains findings, settings, and the running agent's status and metrics, and no secret; nor does a log or response", async () => {
    const { bundle } = await diagnose(pod);
    expect(Object.keys(bundle)).toEqual(["program", "version", "node", "findings", "settings", "status", "metrics"]);
    expect(bundle["settings"]).toMatchObject({ backendUrl: apiUrl, cluster: { podNamespace: "telemetry", kubeletTls: "verify" } });
    expect(bundle["status"]).toContain('"state": "running"');
    expect(bundle["metrics"]).toContain("atherops_agent_key_age_days 0");
    const health = `http://${pod["HEALTH_LISTEN"]}`;
    const [status, metrics] = [(await call("GET", `${health}/status`)).text, (await call("GET", `${health}/metrics`)).text];
    expectNoSecret({
      status,
      metrics,
      "agent's log": agent.log,
      "backend's log": backend.log,
      "command lines": commandLinesNow().join("\n"),
    });
    const key = (await keyIn("telemetry"))!;
    expect(secrets.has(key) && secrets.has(readFileSync(join(pod["SERVICE_ACCOUNT_DIR"]!, "token"), "utf8"))).toBe(true);
  });

  it("that cannot be written is reported, with a path where it can", async () => {
    const { exitCode, stdout } = await execa(process.execPath, [PROGRAM, "diagnose", "--bundle", "/proc/bundle"], {
      cwd: ROOT,
      env: { ...pod },
      reject: false,
    });
    expect(stdout).toMatch(/cannot write the bundle: ENOENT.*\n.*\/tmp\/bundle\.json\.gz$/);
    expect(exitCode).toBe(1);
  });
});
