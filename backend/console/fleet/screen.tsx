// Fleet: clusters with their nodes, and hosts; silent ones first.
import { useSignal } from "@preact/signals";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { ago, moment } from "../state/time.ts";
import { entityAddress } from "../entities/entity.ts";
import { Members as KubernetesMembers } from "../entities/members.tsx";
import { type Cluster, type Collector, type Host, isOld, readFleet } from "./members.ts";
import { ThisMachine } from "./this-machine.tsx";
import { NameLink, Problem, Status, Table, Tabs } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;
const SHOWN_NODES = 200;
const VIEWS = [
  ["agents", "Agents"],
  ["namespace", "Namespaces"],
  ["workload", "Workloads"],
  ["pod", "Pods"],
] as const;

interface NodeRow {
  readonly name: string;
  readonly online: boolean;
  readonly version: string | null;
  readonly lastHeartbeat: string | null;
  readonly collector: Collector | null;
  readonly config: { readonly in_force?: string | null; readonly error?: string | null };
}

export function Fleet() {
  const found = useLoaded(
    "fleet",
    async (signal) => {
      return { ...(await readFleet(signal)), atMs: Date.now() };
    },
    { everyMs: EVERY_MS },
  );
  const { clusters = [], hosts = [], atMs = 0 } = found.value.value ?? {};
  const nodes = clusters.flatMap((cluster) => cluster.nodes);
  const view = VIEWS.find(([name]) => name === route.value.query.get("view"))?.[0] ?? "agents";
  return (
    <section class="screen fleet" aria-labelledby="title">
      <div class="bar">
        <h1 id="title">Fleet</h1>
        <p role="status">
          {counted(clusters.length, "cluster")}
          {nodes.length > 0 && `, ${counted(nodes.length, "node")}`}, {counted(hosts.length, "host")}
          <Silent clusters={clusters} hosts={hosts} />
          <OldKeys members={[...clusters, ...hosts]} atMs={atMs} />
        </p>
        {mayWrite.value && (
          <a class="button primary" href={address("add")}>
            Add a cluster or host
          </a>
        )}
      </div>
      <ThisMachine onReady={found.reload} />
      <Tabs label="Views" tabs={VIEWS} chosen={view} onChoose={(name) => choose({ view: name === "agents" ? undefined : name })} />
      {view === "agents" ? (
        <Status of={found} empty={clusters.length + hosts.length === 0 && <Nothing />}>
          {clusters.map((cluster) => (
            <ClusterCard cluster={cluster} atMs={atMs} key={cluster.cluster_id} />
          ))}
          {hosts.length > 0 && <Hosts hosts={hosts} atMs={atMs} />}
        </Status>
      ) : (
        <KubernetesMembers kind={view} range={{}} asked="" key={view} />
      )}
    </section>
  );
}

/** Number of silent members by kind, because one silent node of a large cluster is easily missed. */
function Silent({ clusters, hosts }: { clusters: readonly Cluster[]; hosts: readonly Host[] }) {
  const kinds = [
    [silentAmong(clusters), "cluster"],
    [silentAmong(clusters.flatMap(({ nodes }) => nodes)), "node"],
    [silentAmong(hosts), "host"],
  ] as const;
  const silent = kinds.filter(([number]) => number > 0).map(([number, kind]) => counted(number, kind));
  return silent.length > 0 ? <strong class="level is-error"> silent: {silent.join(", ")}</strong> : null;
}

function silentAmong(members: readonly { readonly online: boolean }[]): number {
  return members.filter(({ online }) => !online).length;
}

function OldKeys({ members, atMs }: { members: readonly { readonly key_created_at: string | null }[]; atMs: number }) {
  const old = members.filter(({ key_created_at: at }) => isOld(at, atMs)).length;
  return old > 0 ? <strong class="level is-warn"> {counted(old, "old key")}</strong> : null;
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
    online: node.online,
    version: node.agent_version,
    lastHeartbeat: node.last_heartbeat,
    collector: node.collector,
    config: node.config,
  }));
  const silent = silentAmong(nodes);
  const shown = worstFirst(nodes).filter(({ name }) => name.includes(filter.value));
  return (
    <article class="card">
      <header>
        <h2>
          <Dot isOn={cluster.online} /> <NameLink href={entityAddress({ kind: "cluster", name: cluster.name })} text={cluster.name} />
        </h2>
        <span>last heartbeat {ago(cluster.last_heartbeat, atMs)}</span>
        <KeyAge at={cluster.key_created_at} atMs={atMs} />
        <span>{counted(nodes.length, "node")}</span>
        {silent > 0 && <strong class="level is-error">{silent} silent</strong>}
        <a href={address("logs", { q: `host_id:${cluster.cluster_id}` })}>logs</a>
      </header>
      {cluster.config?.stopped && (
        <Problem words={`The rollout of configuration ${cluster.config.version} is stopped: ${visible(cluster.config.stopped)}`} />
      )}
      {nodes.length > 20 && (
        <input
          type="search"
          aria-label="Nodes with this in their name"
          placeholder="node"
          onInput={(event) => (filter.value = event.currentTarget.value)}
        />
      )}
      <Members cluster={cluster.name} members={shown.slice(0, SHOWN_NODES)} atMs={atMs} />
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
              <NameLink href={entityAddress({ kind: "host", name: host.hostname, hostId: host.agent_id })} text={host.hostname} />
            </th>
            <td title={host.last_heartbeat ?? ""} class={`moment ${host.online ? "" : "level is-error"}`}>
              {host.online ? ago(host.last_heartbeat, atMs) : `silent, ${ago(host.last_heartbeat, atMs)}`}
            </td>
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

function Members({ cluster, members, atMs }: { cluster: string; members: readonly NodeRow[]; atMs: number }) {
  if (members.length === 0) return null;
  return (
    <Table title={`Nodes of ${visible(cluster)}`} heads={["node", "last heartbeat", "version", "collector", "configuration"]}>
      {members.map(({ name, online, version, lastHeartbeat, collector, config }) => (
        <tr key={name}>
          <th scope="row">
            <Dot isOn={online} /> <NameLink href={entityAddress({ kind: "node", name, cluster })} text={name} />
          </th>
          <td title={lastHeartbeat ? moment(lastHeartbeat) : ""} class={`moment ${online ? "" : "level is-error"}`}>
            {online ? ago(lastHeartbeat, atMs) : `silent, ${ago(lastHeartbeat, atMs)}`}
          </td>
          <td>{visible(version ?? "")}</td>
          <td>
            <CollectorState of={collector} />
          </td>
          <td>
            {visible(config.in_force ?? "–")}
            {config.error && <span class="level is-error last-error"> {visible(config.error.slice(0, 300))}</span>}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function CollectorState({ of }: { of: Collector | null }) {
  if (!of) return <span class="quiet">not reported</span>;
  return (
    <>
      <span class={of.state === "running" ? "" : "level is-error"}>{visible(of.state ?? "unknown")}</span>
      {(of.restarts ?? 0) > 0 && <span class="quiet"> {counted(of.restarts ?? 0, "restart")}</span>}
      {(of.failing ?? []).length > 0 && <span class="level is-error"> not delivered: {of.failing?.map(visible).join(", ")}</span>}
      {(of.queue_percent ?? 0) >= 25 && <span class="level is-warn"> disk queue {of.queue_percent} % full</span>}
      {of.last_error && <span class="quiet last-error"> {visible(of.last_error.slice(0, 300))}</span>}
    </>
  );
}

function KeyAge({ at, atMs }: { at: string | null; atMs: number }) {
  if (!at) return <span class="quiet">no key</span>;
  return (
    <span title={`created ${moment(at)}`} class={isOld(at, atMs) ? "level is-warn" : ""}>
      key {ago(at, atMs).replace(" ago", "")} old
      {isOld(at, atMs) && ", not renewed"}
    </span>
  );
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

function worstFirst(members: readonly NodeRow[]): NodeRow[] {
  const rank = ({ collector, online }: NodeRow): number => (online ? (collector && collector.state !== "running" ? 1 : 2) : 0);
  return members.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
