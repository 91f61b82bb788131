// Installs both charts in the namespace of the end-to-end tests, and calls the backend, its pod and the agent's pods.
import { randomBytes, randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { versionOf } from "../../hack/version.ts";
import { login } from "../fixtures/backend-process.ts";
import { type Answer, call, eventually, readIfThere, ROOT } from "../fixtures/processes.ts";
import { apply, get, helm, kubectl, NAMESPACE, PortForward } from "./cluster.ts";

export const BACKEND_CHART = join(ROOT, "charts/backend");
export const AGENT_CHART = join(ROOT, "charts/cluster-agent");
export const AGENT_IMAGE = `atherops-agent:${versionOf(ROOT)}`;
export const FIRST_TOKEN = "first-install-token";
const ADMIN = "admin@localhost";

export const AGENT_SET = [
  ...["backendUrl=http://backend:8080", "clusterName=e2e", "allowPlainHttp=true", "metricsInterval=5s"].flatMap((value) => [
    "--set",
    value,
  ]),
  // The agents scrape their own metrics.
  "--set-json",
  'podAnnotations={"prometheus.io/scrape":"true","prometheus.io/port":"9598"}',
  // What this cluster needs beyond that, e.g. `--set hostMountPropagation=None`.
  ...(process.env["E2E_AGENT_FLAGS"] ?? "").split(" ").filter(Boolean),
];
export const WAIT = ["--wait", "--timeout", "3m"];

/** Deletes and creates the namespace, with a claim for the backend. */
export async function makeNamespace(): Promise<void> {
  await removeNamespace();
  await kubectl(["delete", "pv", "-l", `app=${NAMESPACE}`, "--wait=false"]);
  await kubectl(["create", "namespace", NAMESPACE]);
  await makeVolume();
}

export async function removeNamespace(): Promise<void> {
  await kubectl(["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true"]);
}

/** Dynamic if the cluster has a default storage class; otherwise a folder of the node, which belongs to root. */
async function makeVolume(): Promise<void> {
  const classes = JSON.parse(await kubectl(["get", "storageclass", "-o", "json"])).items as {
    metadata: { annotations?: Record<string, string> };
  }[];
  const dynamic = classes.some((item) => item.metadata.annotations?.["storageclass.kubernetes.io/is-default-class"] === "true");
  const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "telemetry", namespace: NAMESPACE } };
  const size = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "5Gi" } } };
  if (dynamic) return await apply({ ...claim, spec: size });
  const volume = `${NAMESPACE}-${randomUUID()}`;
  const folder = `/var/lib/${NAMESPACE}/${volume}`;
  await apply(
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: volume, labels: { app: NAMESPACE } },
      spec: {
        capacity: { storage: "5Gi" },
        accessModes: ["ReadWriteOnce"],
        persistentVolumeReclaimPolicy: "Retain",
        storageClassName: "",
        hostPath: { path: folder, type: "DirectoryOrCreate" },
      },
    },
    { ...claim, spec: { ...size, storageClassName: "", volumeName: volume } },
  );
}

export async function installBackendChart(): Promise<void> {
  const values = ["persistence.existingClaim=telemetry", "persistence.chown=true", "evaluation.interval=5s"];
  values.push(`firstInstallToken.existingSecret=${FIRST_TOKEN}`);
  await makeFirstToken();
  await helm("install", "backend", BACKEND_CHART, ...values.flatMap((value) => ["--set", value]), ...WAIT);
}

/** Stores an install token in the Secret FIRST_TOKEN, for the first start of the backend. */
export async function makeFirstToken(): Promise<void> {
  const stringData = { token: `it_${randomBytes(32).toString("hex")}` };
  await apply({ apiVersion: "v1", kind: "Secret", metadata: { name: FIRST_TOKEN, namespace: NAMESPACE }, stringData });
}

/** number → how often it is stored. */
export type StoredNumbers = Map<number, number>;

export class InstalledBackend implements AsyncDisposable {
  readonly api: PortForward;
  readonly #password: string;
  #token = "";

  private constructor(api: PortForward, password: string) {
    this.api = api;
    this.#password = password;
  }

  static async install(): Promise<InstalledBackend> {
    await installBackendChart();
    return await InstalledBackend.open();
  }

  /** Logs in to a backend that is installed. */
  static async open(): Promise<InstalledBackend> {
    const password = await kubectl(["-n", NAMESPACE, "exec", "deployment/backend", "--", "cat", "/data/secrets/admin-password"]);
    await using opened = new AsyncDisposableStack();
    const api = opened.use(await PortForward.open("backend", 8080));
    const backend = new InstalledBackend(api, password.trim());
    await backend.#login();
    opened.move();
    return backend;
  }

  get token(): string {
    return this.#token;
  }

  async #login(): Promise<void> {
    this.#token = await eventually("a login", () => login(this.api.url, ADMIN, this.#password), 60_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.api[Symbol.asyncDispose]();
  }

  /** `path` may also be an absolute URL. Logs in again after a 401. */
  async call(method: string, path: string, body?: object): Promise<Answer> {
    const url = new URL(path, this.api.url).href;
    const send = () => call(method, url, { bearer: this.#token, ...(body && { body }) });
    const answer = await send();
    if (answer.status !== 401) return answer;
    await this.#login();
    return await send();
  }

  /** Throws unless the status is 200. */
  async ask(path: string): Promise<Answer> {
    const answer = await this.call("GET", path);
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  async series(query: string): Promise<{ metric: Record<string, string>; value: [number, string] }[]> {
    const answer = await this.call("GET", `/query/prometheus/api/v1/query?query=${encodeURIComponent(query)}`);
    return answer.json?.data?.result ?? [];
  }

  async storedNumbers(sequence: string): Promise<StoredNumbers> {
    const seen: StoredNumbers = new Map();
    for (let next: string | undefined = `/query/logs?limit=500&q=${sequence}`; next;) {
      const answer = await this.ask(next);
      for (const row of answer.json as { message: string }[]) {
        const number = Number(row.message.split(" ")[1]);
        seen.set(number, (seen.get(number) ?? 0) + 1);
      }
      next = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
    }
    return seen;
  }

  /** Waits for `count` numbers, as long as more arrive. */
  async allNumbers(sequence: string, count: number): Promise<StoredNumbers> {
    let seen: StoredNumbers = new Map();
    for (let before = -1; before < seen.size && seen.size < count;) {
      before = seen.size;
      const hasMore = async () => (seen = await this.storedNumbers(sequence)).size > before;
      await eventually("more lines", hasMore, 180_000).catch(() => undefined);
    }
    return seen;
  }

  /** Runs a shell command in its pod. */
  async shell(command: string, input?: string): Promise<string> {
    const inPod = ["exec", "-i", "deployment/backend", "--", "env", "XDG_CONFIG_HOME=/tmp", "sh", "-c", command];
    return await kubectl(["-n", NAMESPACE, ...inPod], input);
  }

  /** Logs `atherops` in its pod in, for 15 minutes. */
  async loginInPod(): Promise<void> {
    await this.shell(`atherops login --email ${ADMIN}`, `${this.#password}\n`);
  }

  /** Stores a fresh install token in the Secret `install-token`. */
  async makeInstallToken(): Promise<void> {
    await this.loginInPod();
    const token = (await this.shell("atherops tokens create --ttl 1h")).trim();
    await apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "install-token", namespace: NAMESPACE }, stringData: { token } });
  }
}

const AGENT_PODS = ["-l", "app.kubernetes.io/name=cluster-agent"];

export async function agentPod(): Promise<string> {
  return (await get("pods", ...AGENT_PODS)).items[0].metadata.name;
}

interface AgentPod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly status: { readonly containerStatuses?: readonly { readonly state: { readonly running?: object } }[] };
}

/** The name of a pod of the agent whose container runs. */
export async function runningAgentPod(): Promise<string> {
  const isRunning = ({ metadata, status }: AgentPod) =>
    metadata.deletionTimestamp === undefined && status.containerStatuses?.[0]?.state.running !== undefined;
  const find = async () => ((await get("pods", ...AGENT_PODS)).items as AgentPod[]).find(isRunning)?.metadata.name;
  return await eventually("an agent that runs", find, 180_000);
}

/** Process id of the agent if the node is this machine (not kind), so that its processes are visible; otherwise undefined. */
export function agentProcess(): number | undefined {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const agent = pids.find((pid) => readIfThere(`/proc/${pid}/cmdline`).includes("/app/atherops-k8s-otel-agent.js\0run"));
  return agent === undefined ? undefined : Number(agent);
}

/** Kills the process of `agentProcess`. False if there is none. */
export function killAgentProcess(): boolean {
  const agent = agentProcess();
  return agent !== undefined && process.kill(agent, "SIGKILL");
}

/** The current key in base64, as the Secret stores it. */
export async function storedKey(): Promise<string> {
  return (await get("secret", "cluster-agent-credentials")).data["api-key"];
}
