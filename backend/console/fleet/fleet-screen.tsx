// Fleet: clusters with their nodes, and hosts; silent ones first.
import { Bar, Card, NameLink, Problem, Status, type Column, Table, CreateLink, counted, visible } from "../parts/index.ts";
import { useSignal } from "@preact/signals";
import { useLoaded, address, ago, timestampText, mayWrite } from "../state/index.ts";
import { type Entity, entityAddress } from "../entities/entity.ts";
import { type Cluster, type Collector, type Host, isOldKey, readFleet } from "./members.ts";
import { ThisMachine } from "./this-machine.tsx";

const REFRESH_MS = 10_000;
const MAX_NODES = 200;
const MAX_HOSTS = 1000;

type Node = Cluster["nodes"][number];

/** With the time of the answer, to which ages refer. */
const read = async (signal: AbortSignal) => ({ ...(await readFleet(signal)), atMs: Date.now() });

export function Fleet() {
  const loaded = useLoaded("fleet", read, { refreshMs: REFRESH_MS });
  const { clusters = [], hosts = [], atMs = 0 } = loaded.value.value ?? {};
  const nodes = clusters.flatMap((cluster) => cluster.nodes);
  return (
    <section class="screen fleet" aria-labelledby="title">
      <Bar title="Fleet">
        <p role="status">
          {loaded.value.value &&
            [counted(clusters.length, "cluster"), nodes.length > 0 && counted(nodes.length, "node"), counted(hosts.length, "host")]
              .filter(Boolean)
              .join(", ")}
          <Silent clusters={clusters} hosts={hosts} />
          <OldKeys clusters={clusters} atMs={atMs} />
        </p>
        <CreateLink href={address("add")} text="Add cluster or host" />
      </Bar>
      <ThisMachine onReady={loaded.reload} />
      <Status of={loaded} empty={clusters.length + hosts.length === 0 && <EmptyState />}>
        {clusters.map((cluster) => (
          <ClusterCard cluster={cluster} atMs={atMs} key={cluster.cluster_id} />
        ))}
        {hosts.length > 0 && <Hosts hosts={hosts} atMs={atMs} />}
      </Status>
    </section>
  );
}

/** Counts silent clusters, nodes and hosts separately, because one silent node of a large cluster is easily missed. */
function Silent({ clusters, hosts }: { clusters: readonly Cluster[]; hosts: readonly Host[] }) {
  const kinds = [
    [countSilent(clusters), "cluster"],
    [countSilent(clusters.flatMap(({ nodes }) => nodes)), "node"],
    [countSilent(hosts), "host"],
  ] as const;
  const silent = kinds.filter(([number]) => number > 0).map(([number, kind]) => counted(number, kind));
  return silent.length > 0 ? <strong class="level is-error"> silent: {silent.join(", ")}</strong> : null;
}

function countSilent(members: readonly { readonly online: boolean }[]): number {
  return members.filter(({ online }) => !online).length;
}

function OldKeys({ clusters, atMs }: { clusters: readonly Cluster[]; atMs: number }) {
  const old = clusters.filter(({ key_created_at: at }) => isOldKey(at, atMs)).length;
  return old > 0 ? <strong class="level is-warn"> {counted(old, "old key")}</strong> : null;
}

function EmptyState() {
  return (
    <>
      <p>No clusters or hosts.</p>
      {mayWrite.value ? (
        <a href={address("add")}>Add your first cluster or host</a>
      ) : (
        <p>An administrator of your organisation can add one.</p>
      )}
    </>
  );
}

function ClusterCard({ cluster, atMs }: { cluster: Cluster; atMs: number }) {
  const filter = useSignal("");
  const { name, nodes, config } = cluster;
  const silent = countSilent(nodes);
  const shown = worstFirst(nodes).filter((node) => node.name.includes(filter.value));
  return (
    <article class="card">
      <header>
        <h2>
          <Name isOn={cluster.online} of={{ kind: "cluster", name }} />
        </h2>
        <span>last heartbeat {ago(cluster.last_heartbeat, atMs)}</span>
        <span>
          key <KeyAge at={cluster.key_created_at} atMs={atMs} />
        </span>
        <span>{counted(nodes.length, "node")}</span>
        {silent > 0 && <strong class="level is-error">{silent} silent</strong>}
        <a href={address("logs", { q: `host_id:${cluster.cluster_id}` })}>logs</a>
      </header>
      {config?.stopped && <Problem message={`The rollout of configuration ${config.version} is stopped: ${visible(config.stopped)}`} />}
      {nodes.length > 20 && (
        <input
          type="search"
          aria-label="Filter nodes by name"
          placeholder="node"
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      )}
      {shown.length > 0 && <NodeTable cluster={name} nodes={shown.slice(0, MAX_NODES)} atMs={atMs} />}
      {shown.length > MAX_NODES && <p class="quiet">{shown.length - MAX_NODES} more nodes. Use the field above to find them by name.</p>}
    </article>
  );
}

function Hosts({ hosts, atMs }: { hosts: readonly Host[]; atMs: number }) {
  return (
    <Card title="Hosts">
      <Table
        title="Hosts"
        rows={hosts.slice(0, MAX_HOSTS)}
        keyOf={(host) => host.agent_id}
        columns={[
          {
            head: "host",
            kind: "name",
            cell: ({ online, hostname: name, agent_id: hostId }) => <Name isOn={online} of={{ kind: "host", name, hostId }} />,
          },
          heartbeatColumn(atMs),
          { head: "version", cell: (host) => host.agent_version ?? "" },
          { head: "key", cell: (host) => <KeyAge at={host.key_created_at} atMs={atMs} isHost /> },
          { head: "collector", cell: ({ collector, config }) => <CollectorState collector={collector} configError={config.error} /> },
        ]}
      />
    </Card>
  );
}

function heartbeatColumn(atMs: number): Column<Pick<Host, "online" | "last_heartbeat">> {
  return {
    head: "last heartbeat",
    kind: "timestamp",
    cell: ({ online, last_heartbeat: at }) => <Heartbeat online={online} at={at} atMs={atMs} />,
  };
}

export function Heartbeat({ online, at, atMs }: { online: boolean; at: string | null; atMs: number }) {
  return (
    <span class={online ? "" : "level is-error"} title={at ? timestampText(at) : ""}>
      {!online && "silent, "}
      {ago(at, atMs)}
    </span>
  );
}

function NodeTable({ cluster, nodes, atMs }: { cluster: string; nodes: readonly Node[]; atMs: number }) {
  return (
    <Table
      title={`Nodes of ${visible(cluster)}`}
      rows={nodes}
      keyOf={({ name }) => name}
      columns={[
        { head: "node", kind: "name", cell: ({ name, online }) => <Name isOn={online} of={{ kind: "node", name, cluster }} /> },
        heartbeatColumn(atMs),
        { head: "version", cell: (node) => node.agent_version ?? "" },
        { head: "collector", cell: ({ collector }) => <CollectorState collector={collector} /> },
        { head: "configuration", cell: ({ config }) => <NodeConfig config={config} /> },
      ]}
    />
  );
}

function NodeConfig({ config: { in_force: version, error } }: Pick<Node, "config">) {
  return (
    <>
      {visible(version ?? "–")}
      {error && <span class="level is-error last-error"> {visible(error.slice(0, 300))}</span>}
    </>
  );
}

export function CollectorState({ collector, configError }: { collector: Collector | null; configError?: string | null }) {
  const { state = "unknown", restarts = 0, failing = [], queue_percent: queuePercent = 0, last_error: lastError } = collector ?? {};
  return (
    <>
      {collector ? (
        <span class={state === "running" ? "" : "level is-error"}>{visible(state)}</span>
      ) : (
        <span class="quiet">not reported</span>
      )}
      {restarts > 0 && <span class="quiet"> {counted(restarts, "restart")}</span>}
      {failing.length > 0 && <span class="level is-error"> not delivered: {failing.map(visible).join(", ")}</span>}
      {queuePercent >= 25 && <span class="level is-warn"> disk queue {queuePercent}% full</span>}
      {lastError && <span class="quiet last-error"> {visible(lastError.slice(0, 300))}</span>}
      {configError && <Problem message={visible(configError)} />}
    </>
  );
}

export function KeyAge({ at, atMs, isHost = false }: { at: string | null; atMs: number; isHost?: boolean }) {
  if (!at) return <span class="quiet">none</span>;
  const isOld = !isHost && isOldKey(at, atMs);
  return (
    <span title={`created ${timestampText(at)}`} class={isOld ? "level is-warn" : ""}>
      {ago(at, atMs).replace(" ago", "")} old
      {isOld && ", not renewed"}
    </span>
  );
}

function Name({ isOn, of }: { isOn: boolean; of: Entity }) {
  const text = isOn ? "online" : "silent";
  return (
    <>
      <span class={`dot ${isOn ? "is-on" : "is-off"}`} role="img" aria-label={text} title={text} />{" "}
      <NameLink href={entityAddress(of)} text={of.name} />
    </>
  );
}

function worstFirst(nodes: readonly Node[]): Node[] {
  const rank = ({ collector, online }: Node): number => (online ? (collector && collector.state !== "running" ? 1 : 2) : 0);
  return nodes.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
