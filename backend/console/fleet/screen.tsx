// Fleet: clusters with their nodes, and hosts; who is silent stands first.
import { useSignal } from "@preact/signals";
import { useLoaded } from "../state/loaded.ts";
import { address } from "../state/route.ts";
import { ago, moment } from "../state/time.ts";
import { ThisMachine } from "./this-machine.tsx";
import { Problem, Status, Table } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { wholeList } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;
const SHOWN_NODES = 200;

interface Collector {
  readonly state: string;
  readonly restarts: number;
  readonly last_error?: string;
}

interface Member {
  readonly name: string;
  readonly version: string | null;
  readonly lastHeartbeat: string | null;
  readonly collector: Collector | null;
}

interface Cluster {
  readonly cluster_id: string;
  readonly name: string;
  readonly online: boolean;
  readonly last_heartbeat: string | null;
  readonly key_created_at: string | null;
  readonly nodes: readonly {
    readonly name: string;
    readonly agent_version: string | null;
    readonly last_heartbeat: string | null;
    readonly collector: Collector | null;
  }[];
}

interface Host {
  readonly agent_id: string;
  readonly hostname: string;
  readonly online: boolean;
  readonly last_heartbeat: string | null;
  readonly key_created_at: string | null;
  readonly agent_version: string | null;
  readonly collector: Collector | null;
  readonly config: { readonly error?: string | null };
}

export function Fleet() {
  const found = useLoaded(
    "fleet",
    async (signal) => {
      const [clusters, hosts] = await Promise.all([wholeList<Cluster>("/api/clusters", signal), wholeList<Host>("/api/v1/agents", signal)]);
      return { clusters: joined(clusters.rows), hosts: silentFirst(hosts.rows), atMs: Date.now() };
    },
    { everyMs: EVERY_MS },
  );
  const { clusters = [], hosts = [], atMs = 0 } = found.value.value ?? {};
  const silent = [...clusters, ...hosts].filter(({ online }) => !online).length;
  return (
    <section class="screen fleet" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Fleet</h1>
        <p role="status">
          {counted(clusters.length, "cluster")}, {counted(hosts.length, "host")}
          {silent > 0 ? <strong class="level is-error"> {silent} silent</strong> : ""}
        </p>
        {mayWrite.value && (
          <a class="button primary" href={address("add")}>
            Add a cluster or host
          </a>
        )}
      </div>
      <ThisMachine onReady={found.reload} />
      <Status of={found} empty={clusters.length + hosts.length === 0 && <Nothing />}>
        {clusters.map((cluster) => (
          <ClusterCard cluster={cluster} atMs={atMs} key={cluster.cluster_id} />
        ))}
        {hosts.length > 0 && <Hosts hosts={hosts} atMs={atMs} />}
      </Status>
    </section>
  );
}

function Nothing() {
  return (
    <>
      <p>Nothing reports here yet.</p>
      {mayWrite.value ? (
        <a href={address("add")}>Add the first cluster or host</a>
      ) : (
        <p>An administrator of the organisation can add one.</p>
      )}
    </>
  );
}

function ClusterCard({ cluster, atMs }: { cluster: Cluster; atMs: number }) {
  const filter = useSignal("");
  const nodes = cluster.nodes.map((node) => ({
    name: node.name,
    version: node.agent_version,
    lastHeartbeat: node.last_heartbeat,
    collector: node.collector,
  }));
  const shown = worstFirst(nodes, atMs).filter(({ name }) => name.includes(filter.value));
  return (
    <article class="card">
      <header>
        <h2>
          <Dot isOn={cluster.online} /> <bdi>{visible(cluster.name)}</bdi>
        </h2>
        <span>last heartbeat {ago(cluster.last_heartbeat, atMs)}</span>
        <KeyAge at={cluster.key_created_at} atMs={atMs} />
        <span>{counted(nodes.length, "node")}</span>
        <a href={address("logs", { q: `host_id:${cluster.cluster_id}` })}>logs</a>
      </header>
      {nodes.length > 20 && (
        <input
          type="search"
          aria-label="Nodes with this in their name"
          placeholder="node"
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      )}
      <Members title={`Nodes of ${cluster.name}`} members={shown.slice(0, SHOWN_NODES)} atMs={atMs} />
      {shown.length > SHOWN_NODES && <p class="quiet">{shown.length - SHOWN_NODES} more; the field above finds them by name.</p>}
    </article>
  );
}

function Hosts({ hosts, atMs }: { hosts: readonly Host[]; atMs: number }) {
  return (
    <article class="card">
      <header>
        <h2>Hosts</h2>
      </header>
      <Table title="Hosts" heads={["host", "last heartbeat", "version", "key", "collector"]}>
        {hosts.slice(0, SHOWN_NODES * 5).map((host) => (
          <tr key={host.agent_id}>
            <th scope="row">
              <Dot isOn={host.online} />{" "}
              <a href={address("logs", { q: `host_id:${host.agent_id}` })}>
                <bdi>{visible(host.hostname)}</bdi>
              </a>
            </th>
            <td title={host.last_heartbeat ?? ""}>{ago(host.last_heartbeat, atMs)}</td>
            <td>{visible(host.agent_version ?? "")}</td>
            <td>
              <KeyAge at={host.key_created_at} atMs={atMs} />
            </td>
            <td>
              <CollectorState of={host.collector} />
              {host.config.error && <Problem words={visible(host.config.error)} />}
            </td>
          </tr>
        ))}
      </Table>
    </article>
  );
}

function Members({ title, members, atMs }: { title: string; members: readonly Member[]; atMs: number }) {
  if (members.length === 0) return null;
  return (
    <Table title={title} heads={["node", "last heartbeat", "version", "collector"]}>
      {members.map(({ name, version, lastHeartbeat, collector }) => (
        <tr key={name}>
          <th scope="row">
            <a href={address("logs", { q: `node:${name}` })}>
              <bdi>{visible(name)}</bdi>
            </a>
          </th>
          <td title={lastHeartbeat ? moment(lastHeartbeat) : ""}>{ago(lastHeartbeat, atMs)}</td>
          <td>{visible(version ?? "")}</td>
          <td>
            <CollectorState of={collector} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function CollectorState({ of }: { of: Collector | null }) {
  if (!of) return <span class="quiet">not told</span>;
  return (
    <>
      <span class={of.state === "running" ? "" : "level is-error"}>{visible(of.state)}</span>
      {of.restarts > 0 && <span class="quiet"> {of.restarts} restarts</span>}
      {of.last_error && <span class="quiet last-error"> {visible(of.last_error.slice(0, 300))}</span>}
    </>
  );
}

function KeyAge({ at, atMs }: { at: string | null; atMs: number }) {
  return at ? <span title={`made ${moment(at)}`}>key of {ago(at, atMs).replace(" ago", "")}</span> : <span class="quiet">no key</span>;
}

function Dot({ isOn }: { isOn: boolean }) {
  return (
    <span
      class={`dot ${isOn ? "is-on" : "is-off"}`}
      role="img"
      aria-label={isOn ? "online" : "silent"}
      title={isOn ? "online" : "silent"}
    />
  );
}

/** A cluster with many nodes comes in parts, on several pages. */
function joined(clusters: readonly Cluster[]): Cluster[] {
  const byId = new Map<string, Cluster>();
  for (const cluster of clusters) {
    const before = byId.get(cluster.cluster_id);
    byId.set(cluster.cluster_id, before ? { ...cluster, nodes: [...before.nodes, ...cluster.nodes] } : cluster);
  }
  return silentFirst([...byId.values()]);
}

function silentFirst<T extends { readonly online: boolean; readonly last_heartbeat: string | null }>(members: readonly T[]): T[] {
  return members.toSorted((a, b) => Number(a.online) - Number(b.online) || (a.last_heartbeat ?? "").localeCompare(b.last_heartbeat ?? ""));
}

function worstFirst(members: readonly Member[], atMs: number): Member[] {
  const rank = ({ collector, lastHeartbeat }: Member): number =>
    lastHeartbeat === null || atMs - Date.parse(lastHeartbeat) > 120_000 ? 0 : collector && collector.state !== "running" ? 1 : 2;
  return members.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
