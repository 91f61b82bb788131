// The agent of a cluster, a node or a host: version, heartbeat, age of its key, and the state and last error of its collector.
import { Card, Facts, SenderText, Status, RemoveButton, counted, visible } from "../parts/index.ts";
import { type Cluster, type Host, isOldKey, readFleet } from "../fleet/members.ts";
import { useLoaded, address, mayWrite, ago, timestampText } from "../state/index.ts";
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
  const {
    online,
    agent_version: version,
    last_heartbeat: lastHeartbeat,
    key_created_at: keyCreatedAt,
    collector,
    configError,
    nodes,
  } = agent;
  const silent = nodes?.filter((node) => !node.online).length ?? 0;
  return (
    <Facts
      of={[
        [
          "heartbeat",
          <span class={online ? "" : "level is-error"} title={lastHeartbeat ? timestampText(lastHeartbeat) : ""}>
            {online ? ago(lastHeartbeat, atMs) : `silent, ${ago(lastHeartbeat, atMs)}`}
          </span>,
        ],
        nodes && [
          "nodes",
          <>
            {counted(nodes.length, "node")}
            {silent > 0 && <strong class="level is-error"> {silent} silent</strong>}
          </>,
        ],
        version && ["version", visible(version)],
        [
          "key",
          keyCreatedAt ? (
            <span class={!isHost && isOldKey(keyCreatedAt, atMs) ? "level is-warn" : ""} title={timestampText(keyCreatedAt)}>
              {ago(keyCreatedAt, atMs).replace(" ago", " old")}
            </span>
          ) : (
            "none"
          ),
        ],
        collector && [
          "collector",
          <>
            <span class={collector.state === "running" ? "" : "level is-error"}>{visible(collector.state ?? "unknown")}</span>
            {(collector.restarts ?? 0) > 0 && `, ${counted(collector.restarts ?? 0, "restart")}`}
          </>,
        ],
        collector?.last_error && ["last error", <SenderText class="level is-error" text={collector.last_error.slice(0, 2000)} />],
        configError && ["configuration", <SenderText class="level is-error" text={configError} />],
      ]}
    />
  );
}
