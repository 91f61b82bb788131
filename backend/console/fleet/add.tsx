// Connects clusters, hosts, and programs without an agent (add-program.tsx). For a cluster or a host: creates a token, shows the commands with
// everything filled in, and then waits for the first heartbeat and the first record.
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { AddProgram } from "./add-program.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { moment } from "../state/time.ts";
import { Command, Problem, Tabs } from "../parts/common.tsx";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";
import { TokenForm } from "./token-form.tsx";

const ASK_EVERY_MS = 3000;
const KINDS = [
  ["cluster", "Kubernetes cluster"],
  ["host", "Linux host"],
  ["sdk", "OpenTelemetry SDK"],
  ["prometheus", "Prometheus"],
  ["grafana", "Grafana"],
] as const;

type Minted = ApiResponses["POST /api/install-tokens"];

interface Target {
  readonly kind: string;
  readonly name: string;
  readonly url: string;
}

export function Connect() {
  const kind = KINDS.find(([name]) => name === route.value.query.get("kind"))?.[0] ?? "cluster";
  const made = useSignal<(Target & { minted: Minted; sinceMs: number }) | undefined>(undefined);
  if (!mayWrite.value) return <p class="empty">This needs the role admin. Ask an administrator of your organisation.</p>;
  return (
    <section class="screen narrow" aria-labelledby="title">
      <p>
        <a href="#/fleet">Fleet</a>
      </p>
      <h1 id="title">Connect</h1>
      {made.value ? (
        <Steps {...made.value} onAgain={() => (made.value = undefined)} />
      ) : (
        <>
          <Tabs label="What" tabs={KINDS} chosen={kind} onChoose={(name) => choose({ kind: name }, { replace: true })} />
          {kind === "cluster" || kind === "host" ? (
            <AddForm kind={kind} onMade={(target, minted) => (made.value = { ...target, minted, sinceMs: Date.now() })} />
          ) : (
            <AddProgram kind={kind} key={kind} />
          )}
        </>
      )}
    </section>
  );
}

function AddForm({ kind, onMade }: { kind: "cluster" | "host"; onMade: (target: Target, minted: Minted) => void }) {
  const create = async (name: string, url: string): Promise<void> =>
    onMade({ kind, name, url }, await call<Minted>("/api/install-tokens", { method: "POST", body: { ttl: "1h" } }));
  return (
    <TokenForm program={`the ${kind}`} create={create}>
      {kind === "cluster" && (
        <label>
          Name of the cluster
          <input
            name="name"
            required
            pattern="[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?"
            title="lower-case letters, digits and dashes"
            autoComplete="off"
          />
        </label>
      )}
    </TokenForm>
  );
}

function Steps({ kind, name, url, minted, sinceMs, onAgain }: Target & { minted: Minted; sinceMs: number; onAgain: () => void }) {
  const plain = url.startsWith("http://");
  return (
    <>
      <p>
        The token is shown this once, is good for one {kind === "cluster" ? "cluster" : "host"}, and expires {moment(minted.expires_at)}.
      </p>
      {kind === "cluster" ? (
        <>
          <Command label="The namespace, and the token in a Secret" text={clusterSecret(minted.token)} />
          <Command label="The agent, from a checkout of the product" text={clusterInstall(name, url, plain)} />
        </>
      ) : (
        <Command label="As root, after the package of docs/install-host.md is installed" text={hostInstall(url, minted.token, plain)} />
      )}
      <Waiting kind={kind} name={name} sinceMs={sinceMs} />
      <button type="button" onClick={onAgain}>
        Add another
      </button>
    </>
  );
}

function clusterSecret(token: string): string {
  return [
    "kubectl create namespace telemetry --dry-run=client -o yaml | kubectl apply -f -",
    "kubectl label namespace telemetry pod-security.kubernetes.io/enforce=privileged --overwrite",
    `kubectl -n telemetry create secret generic install-token --from-literal=token=${token}`,
  ].join("\n");
}

function clusterInstall(name: string, url: string, isPlain: boolean): string {
  return [
    "helm install agent charts/cluster-agent -n telemetry \\",
    "  --set image.repository=REGISTRY/atherops-agent \\",
    `  --set backendUrl=${url}${isPlain ? " --set allowPlainHttp=true" : ""} --set clusterName=${name} \\`,
    "  --set installToken.existingSecret=install-token --wait --timeout 5m",
  ].join("\n");
}

function hostInstall(url: string, token: string, isPlain: boolean): string {
  return [
    `printf '%s\\n' 'BACKEND_URL=${url}' 'INSTALL_TOKEN=${token}'${isPlain ? " 'ALLOW_PLAIN_HTTP=true'" : ""} >> /etc/atherops/agent.env`,
    "systemctl enable --now atherops-otel-agent",
  ].join("\n");
}

/** Whether a cluster or host has registered since the token was created, and whether a record of it is stored. */
function Waiting({ kind, name, sinceMs }: { kind: string; name: string; sinceMs: number }) {
  const found = useLoaded(
    `${kind} ${name}`,
    async (signal) => {
      const member = kind === "cluster" ? await newCluster(name, sinceMs, signal) : await newHost(sinceMs, signal);
      if (!member) return { member, hasRecord: false };
      const rows = await call<unknown[]>("/query/logs", {
        query: [
          ["host_id", member.id],
          ["limit", "1"],
        ],
        signal,
      });
      return { member, hasRecord: rows.length > 0 };
    },
    { everyMs: ASK_EVERY_MS },
  );
  const { member, hasRecord } = found.value.value ?? {};
  return (
    <ol class="steps" role="status">
      <li class={member ? "is-done" : ""}>{member ? `${member.name} has reported` : "Waiting for the first heartbeat …"}</li>
      <li class={hasRecord ? "is-done" : ""}>
        {hasRecord && member ? (
          <a href={address("logs", { q: `host_id:${member.id}` })}>Its first log records are here</a>
        ) : (
          "Waiting for the first log record …"
        )}
      </li>
      <Problem words={found.error.value} />
    </ol>
  );
}

interface Member {
  readonly id: string;
  readonly name: string;
}

async function newCluster(name: string, sinceMs: number, signal: AbortSignal): Promise<Member | undefined> {
  const clusters = await call<{ cluster_id: string; name: string; last_heartbeat: string | null }[]>("/api/clusters", { signal });
  const cluster = clusters.find((one) => one.name === name && Date.parse(one.last_heartbeat ?? "") > sinceMs);
  return cluster && { id: cluster.cluster_id, name };
}

async function newHost(sinceMs: number, signal: AbortSignal): Promise<Member | undefined> {
  const hosts = await call<{ agent_id: string; hostname: string; key_created_at: string | null; last_heartbeat: string | null }[]>(
    "/api/v1/agents",
    { signal },
  );
  const host = hosts.find((one) => one.last_heartbeat && Date.parse(one.key_created_at ?? "") > sinceMs - 5000);
  return host && { id: host.agent_id, name: host.hostname };
}
