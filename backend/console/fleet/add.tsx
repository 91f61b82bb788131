// Connects clusters, hosts, and programs without an agent (add-program.tsx). For a cluster or a host: creates a token, shows the commands with
// everything filled in, and then waits for the first heartbeat and the first record.
import { Bar, CopyBlock, Problem, Button, Field, Tabs } from "../parts/index.ts";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { AddProgram, TokenForm } from "./add-program.tsx";
import type { Cluster, Host } from "./members.ts";
import { useLoaded, address, choose, route, timestampText, call, mayWrite } from "../state/index.ts";

const POLL_MS = 3000;
const KINDS = [
  ["cluster", "Kubernetes cluster"],
  ["host", "Linux host"],
  ["sdk", "OpenTelemetry SDK"],
  ["prometheus", "Prometheus"],
  ["grafana", "Grafana"],
] as const;

type InstallToken = ApiResponses["POST /api/install-tokens"];

interface Target {
  readonly kind: string;
  readonly name: string;
  readonly url: string;
}

export function Connect() {
  const kind = KINDS.find(([name]) => name === route.value.query.get("kind"))?.[0] ?? "cluster";
  const created = useSignal<Created | undefined>(undefined);
  if (!mayWrite.value) return <p class="empty">To connect clusters, hosts and programs, you need the role admin.</p>;
  return (
    <section class="screen" aria-labelledby="title">
      <Bar title="Connect">
        <a href={address("fleet")}>Fleet</a>
      </Bar>
      {created.value ? (
        <Steps {...created.value} onAgain={() => (created.value = undefined)} />
      ) : (
        <>
          <Tabs label="Type" tabs={KINDS} chosen={kind} onChoose={(name) => choose({ kind: name }, { replace: true })} />
          {kind === "cluster" || kind === "host" ? (
            <AddForm kind={kind} onCreated={(target, installToken) => (created.value = { ...target, installToken, sinceMs: Date.now() })} />
          ) : (
            <AddProgram kind={kind} key={kind} />
          )}
        </>
      )}
    </section>
  );
}

function AddForm({ kind, onCreated }: { kind: "cluster" | "host"; onCreated: (target: Target, installToken: InstallToken) => void }) {
  const create = async (name: string, url: string): Promise<void> =>
    onCreated({ kind, name, url }, await call<InstallToken>("/api/install-tokens", { method: "POST", body: { ttl: "1h" } }));
  return (
    <TokenForm program={`the ${kind}`} create={create}>
      {kind === "cluster" && (
        <Field
          label="Name of the cluster"
          name="name"
          required
          pattern="[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?"
          title="lower-case letters, digits and dashes"
        />
      )}
    </TokenForm>
  );
}

interface Created extends Target {
  readonly installToken: InstallToken;
  readonly sinceMs: number;
}

function Steps({ kind, name, url, installToken, sinceMs, onAgain }: Created & { onAgain: () => void }) {
  const plain = url.startsWith("http://");
  return (
    <>
      <p>
        The token is not shown again. It registers one {kind} and expires {timestampText(installToken.expires_at)}.
      </p>
      {kind === "cluster" ? (
        <>
          <CopyBlock label="Create the namespace, and a Secret with the token" text={clusterSecret(installToken.token)} />
          <CopyBlock label="Install the agent, from a checkout of the repository" text={clusterInstall(name, url, plain)} />
        </>
      ) : (
        <CopyBlock
          label="As root, after installing the package (docs/install-host.md)"
          text={hostInstall(url, installToken.token, plain)}
        />
      )}
      <Waiting kind={kind} name={name} sinceMs={sinceMs} />
      <Button onClick={onAgain} text="Connect another" />
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
  const loaded = useLoaded(
    `${kind} ${name}`,
    async (signal) => {
      const member = kind === "cluster" ? await findNewCluster(name, sinceMs, signal) : await findNewHost(sinceMs, signal);
      if (!member) return { member, hasRecord: false };
      const rows = await call<unknown[]>("/query/logs", { query: { host_id: member.id, limit: 1 }, signal });
      return { member, hasRecord: rows.length > 0 };
    },
    { refreshMs: POLL_MS },
  );
  const { member, hasRecord } = loaded.value.value ?? {};
  return (
    <ol class="steps" role="status">
      <li class={member ? "is-done" : ""}>{member ? `${member.name} is connected` : "Waiting for the first heartbeat …"}</li>
      <li class={hasRecord ? "is-done" : ""}>
        {hasRecord && member ? (
          <a href={address("logs", { q: `host_id:${member.id}` })}>Log records have arrived</a>
        ) : (
          "Waiting for the first log record …"
        )}
      </li>
      <Problem message={loaded.error.value} />
    </ol>
  );
}

interface Member {
  readonly id: string;
  readonly name: string;
}

async function findNewCluster(name: string, sinceMs: number, signal: AbortSignal): Promise<Member | undefined> {
  const clusters = await call<Cluster[]>("/api/clusters", { signal });
  const cluster = clusters.find((row) => row.name === name && Date.parse(row.last_heartbeat ?? "") > sinceMs);
  return cluster && { id: cluster.cluster_id, name };
}

async function findNewHost(sinceMs: number, signal: AbortSignal): Promise<Member | undefined> {
  const hosts = await call<Host[]>("/api/v1/agents", { signal });
  const host = hosts.find((row) => row.last_heartbeat && Date.parse(row.key_created_at ?? "") > sinceMs - 5000);
  return host && { id: host.agent_id, name: host.hostname };
}
