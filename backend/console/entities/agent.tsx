// The agent of a cluster, a node or a host: version, heartbeat, age of its key, and the state and last error of its collector.
import { Card, Facts, Status, RemoveButton, counted, visible } from "../parts/index.ts";
import { CollectorState, Heartbeat, KeyAge } from "../fleet/fleet-screen.tsx";
import { type Cluster, type Host, readFleet } from "../fleet/members.ts";
import { useLoaded, address, mayWrite } from "../state/index.ts";
import type { Entity } from "./entity.ts";

const REFRESH_MS = 10_000;

interface Agent extends Pick<Host, "online" | "agent_version" | "last_heartbeat" | "key_created_at" | "collector"> {
  /** Why a host does not use its newest configuration. */
  readonly configError?: string | null;
  /** The nodes of a cluster; undefined for a node or host. */
  readonly nodes?: Cluster["nodes"];
  /** DELETE removes it and revokes its keys; undefined for a node. */
  readonly path?: string;
}

export function AgentCard({ entity }: { entity: Entity }) {
  const loaded = useLoaded(
    JSON.stringify(entity),
    async (signal) => ({ agent: findAgent(entity, await readFleet(signal)), atMs: Date.now() }),
    { refreshMs: REFRESH_MS },
  );
  const { agent, atMs = 0 } = loaded.value.value ?? {};
  return (
    <Card title="Agent">
      <Status of={loaded} empty={!agent && "No agent is registered under this name. The data came from another sender."}>
        {agent && <AgentFacts agent={agent} isHost={entity.kind === "host"} atMs={atMs} />}
        {agent?.path !== undefined && mayWrite.value && (
          <RemoveButton label={`Remove ${entity.kind}`} path={agent.path} onRemoved={() => address("fleet")}>
            Its keys are revoked within 5 seconds, so its agents can send nothing more. Stored telemetry stays. To connect it again, install
            the agent with a new install token.
          </RemoveButton>
        )}
      </Status>
    </Card>
  );
}

function findAgent(entity: Entity, { clusters, hosts }: Awaited<ReturnType<typeof readFleet>>): Agent | undefined {
  if (entity.kind === "host") {
    const host = hosts.find(({ agent_id: id }) => id === entity.hostId);
    return host && { ...host, configError: host.config.error ?? null, path: `/api/v1/agents/${host.agent_id}` };
  }
  const cluster = clusters.find(({ name }) => name === (entity.kind === "cluster" ? entity.name : entity.cluster));
  if (!cluster || entity.kind === "cluster")
    return cluster && { ...cluster, agent_version: null, collector: null, path: `/api/clusters/${cluster.cluster_id}` };
  const node = cluster.nodes.find(({ name }) => name === entity.name);
  return node && { ...node, key_created_at: cluster.key_created_at };
}

function AgentFacts({ agent, isHost, atMs }: { agent: Agent; isHost: boolean; atMs: number }) {
  const { online, agent_version: version, last_heartbeat: heartbeat, key_created_at: keyCreatedAt, collector, configError, nodes } = agent;
  const silent = nodes?.filter((node) => !node.online).length ?? 0;
  return (
    <Facts
      of={[
        ["heartbeat", <Heartbeat online={online} at={heartbeat} atMs={atMs} />],
        nodes && [
          "nodes",
          <>
            {counted(nodes.length, "node")}
            {silent > 0 && <strong class="level is-error"> {silent} silent</strong>}
          </>,
        ],
        version && ["version", visible(version)],
        ["key", <KeyAge at={keyCreatedAt} atMs={atMs} isHost={isHost} />],
        (collector || configError) && ["collector", <CollectorState collector={collector} configError={configError ?? null} />],
      ]}
    />
  );
}
