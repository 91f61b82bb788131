// The agent of a cluster, a node or a host: version, heartbeat, age of its key, and the state and last error of its collector.
import type { ComponentChildren } from "preact";
import { type Collector, isOld, readFleet } from "../fleet/members.ts";
import { Status } from "../parts/common.tsx";
import { counted, visible } from "../parts/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { ago, moment } from "../state/time.ts";
import type { Entity } from "./entity.ts";

const EVERY_MS = 10_000;

interface Agent {
  readonly online: boolean;
  readonly version: string | null;
  readonly lastHeartbeat: string | null;
  readonly keyCreatedAt: string | null;
  readonly collector: Collector | null;
  /** Why a host does not use its newest configuration. */
  readonly configError: string | null;
  /** The nodes of a cluster. */
  readonly nodes?: { readonly all: number; readonly silent: number };
}

export function AgentOf({ entity }: { entity: Entity }) {
  const found = useLoaded(
    JSON.stringify(entity),
    async (signal) => ({ agent: findAgent(entity, await readFleet(signal)), atMs: Date.now() }),
    { everyMs: EVERY_MS },
  );
  const { agent, atMs = 0 } = found.value.value ?? {};
  return (
    <section class="card" aria-label="Agent">
      <h2>Agent</h2>
      <Status of={found} empty={!agent && "No agent has registered under this name; the data came from another sender."}>
        {agent && <AgentFacts agent={agent} atMs={atMs} />}
      </Status>
    </section>
  );
}

function findAgent(entity: Entity, { clusters, hosts }: Awaited<ReturnType<typeof readFleet>>): Agent | undefined {
  if (entity.kind === "host") {
    const host = hosts.find(({ agent_id: id }) => id === entity.hostId);
    return (
      host && {
        online: host.online,
        version: host.agent_version,
        lastHeartbeat: host.last_heartbeat,
        keyCreatedAt: host.key_created_at,
        collector: host.collector,
        configError: host.config.error ?? null,
      }
    );
  }
  const cluster = clusters.find(({ name }) => name === (entity.kind === "cluster" ? entity.name : entity.cluster));
  if (!cluster) return undefined;
  const shared = { keyCreatedAt: cluster.key_created_at, configError: null };
  if (entity.kind === "cluster") {
    const silent = cluster.nodes.filter(({ online }) => !online).length;
    const nodes = { all: cluster.nodes.length, silent };
    return { ...shared, online: cluster.online, version: null, lastHeartbeat: cluster.last_heartbeat, collector: null, nodes };
  }
  const node = cluster.nodes.find(({ name }) => name === entity.name);
  return (
    node && {
      ...shared,
      online: node.online,
      version: node.agent_version,
      lastHeartbeat: node.last_heartbeat,
      collector: node.collector,
    }
  );
}

function AgentFacts({ agent, atMs }: { agent: Agent; atMs: number }) {
  const { online, version, lastHeartbeat, keyCreatedAt, collector, configError, nodes } = agent;
  return (
    <dl class="facts">
      <Fact name="heartbeat">
        <span class={online ? "" : "level is-error"} title={lastHeartbeat ? moment(lastHeartbeat) : ""}>
          {online ? ago(lastHeartbeat, atMs) : `silent, ${ago(lastHeartbeat, atMs)}`}
        </span>
      </Fact>
      {nodes && (
        <Fact name="nodes">
          {counted(nodes.all, "node")}
          {nodes.silent > 0 && <strong class="level is-error"> {nodes.silent} silent</strong>}
        </Fact>
      )}
      {version && <Fact name="version">{visible(version)}</Fact>}
      <Fact name="key">
        {keyCreatedAt ? (
          <span class={isOld(keyCreatedAt, atMs) ? "level is-warn" : ""} title={moment(keyCreatedAt)}>
            {ago(keyCreatedAt, atMs).replace(" ago", " old")}
          </span>
        ) : (
          "none"
        )}
      </Fact>
      {collector && (
        <Fact name="collector">
          <span class={collector.state === "running" ? "" : "level is-error"}>{visible(collector.state ?? "unknown")}</span>
          {(collector.restarts ?? 0) > 0 && `, ${counted(collector.restarts ?? 0, "restart")}`}
        </Fact>
      )}
      {collector?.last_error && (
        <Fact name="last error">
          <bdi class="level is-error">{visible(collector.last_error.slice(0, 2000))}</bdi>
        </Fact>
      )}
      {configError && (
        <Fact name="configuration">
          <bdi class="level is-error">{visible(configError)}</bdi>
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
