// `atherops tokens`, `clusters`, `hosts` and `keys`.
import type { Command } from "commander";
import { Problem } from "./cli-error.ts";
import { addList, addRemoval, type Console } from "./output.ts";
import { type Row, truncate } from "./text-table.ts";
import { parseJson, readInput } from "./text-files.ts";

export function addEnrolmentCommands(program: Command, console: Console): void {
  addTokens(program, console);
  addClusters(program, console);
  addHosts(program, console);
  addKeys(program, console);
}

function addTokens(program: Command, console: Console): void {
  const tokens = program.command("tokens").description("install tokens; each registers one cluster or host");
  const description = "install tokens; a token itself is shown only when it is created";
  addList(tokens, console, { description, path: "/api/install-tokens", columns: ["id", "created_at", "expires_at", "used_at"] });
  tokens
    .command("create")
    .description("create a token; prints only the token to stdout")
    .option("--ttl <duration>", "lifetime, such as 30m, 24h, 7d", "24h")
    .addHelpText(
      "after",
      `
Examples:
  atherops tokens create --ttl 1h > install-token
  atherops tokens create | kubectl create secret generic install-token --from-file=token=/dev/stdin`,
    )
    .action(async ({ ttl }: { ttl: string }) => {
      const created = await console.call<{ token: string; expires_at: string }>("POST", "/api/install-tokens", { body: { ttl } });
      console.result(created.token, `valid once, until ${created.expires_at}; not shown again`, created);
    });
  addRemoval(tokens, console, "revoke an unused token", (id) => `/api/install-tokens/${id}`);
}

function addClusters(program: Command, console: Console): void {
  const clusters = program.command("clusters").description("clusters and their nodes");
  clusters
    .command("list", { isDefault: true })
    .description("clusters and whether they are online")
    .action(async () => {
      const rows = await listClusters(console);
      const columns = ["name", "online", "nodes", "last_heartbeat", "key_created_at", "config", "cluster_id"];
      console.print(rows, columns, (row) => ({ ...row, nodes: row.nodes.length, config: rolloutText(row) }));
    });
  clusters
    .command("nodes <cluster>")
    .description("the nodes of one cluster (by name or id), with the state of their collectors")
    .action(async (cluster: string) => {
      const { nodes: reports } = await findCluster(console, cluster);
      const columns = ["name", "online", "agent_version", "last_heartbeat", "collector", "config", "refused"];
      console.print(reports, columns, (node) => {
        const config = node["config"] as { in_force: string | null; error: string | null } | undefined;
        const collector = collectorText(node["collector"]);
        return { ...node, collector, config: config?.in_force ?? "-", refused: config?.error ?? "" };
      });
    });
  clusters
    .command("configure <cluster> <file>")
    .description("write a cluster's remote configuration from a JSON file, or from stdin with -")
    .option("--percent <share>", "share of the nodes that use it, from 1 to 100", "100")
    .addHelpText(
      "after",
      `
It can set only intervals, signals and log_level. Example, for 10% of the nodes first:
  echo '{"intervals": {"metrics": "15s"}}' | atherops clusters configure demo - --percent 10`,
    )
    .action(async (cluster: string, file: string, { percent }: { percent: string }) => {
      const id = (await findCluster(console, cluster))["cluster_id"] as string;
      const config = parseJson("the configuration", await readInput(file, console.world.stdin));
      const body = { config, percent: Number(percent) };
      const { version } = await console.call<{ version: string }>("PUT", `/api/clusters/${encodeURIComponent(id)}/config`, { body });
      console.note(`version ${version} written for ${percent} % of the nodes; \`atherops clusters nodes\` shows which of them use it`);
    });
  addRemoval(
    clusters,
    console,
    "remove a cluster and revoke its keys; normally refused everywhere within 5 seconds",
    (id) => `/api/clusters/${id}`,
  );
}

export type Cluster = Row & { nodes: Row[]; config?: { version: string; percent: number; stopped?: string | null } };

function rolloutText({ config }: Cluster): string {
  if (!config) return "-";
  return config.stopped ? `${config.version} stopped` : `${config.version}${config.percent < 100 ? ` on ${config.percent} %` : ""}`;
}

async function findCluster(console: Console, cluster: string): Promise<Cluster> {
  const match = (await listClusters(console)).find((row) => row["cluster_id"] === cluster || row["name"] === cluster);
  if (!match) throw new Problem(`cluster ${cluster} not found: \`atherops clusters\` lists all`);
  return match;
}

/** Joins the parts of clusters with many nodes, which the API returns on several pages. */
export async function listClusters(console: Console): Promise<Cluster[]> {
  const clusters = new Map<unknown, Cluster>();
  for (const row of await console.client().rows<Cluster>("/api/clusters")) {
    const known = clusters.get(row["cluster_id"]);
    if (known) known.nodes.push(...row.nodes);
    else clusters.set(row["cluster_id"], row);
  }
  return [...clusters.values()];
}

function addHosts(program: Command, console: Console): void {
  const hosts = program.command("hosts").description("hosts and their remote configuration");
  addList(hosts, console, {
    description: "hosts and whether they are online",
    path: "/api/v1/agents",
    columns: ["hostname", "online", "agent_version", "last_heartbeat", "key_created_at", "collector", "config", "refused", "agent_id"],
    toCells: (host) => {
      const config = host["config"] as { version: string; in_force: string | null; error: string };
      const inForce = `${config.in_force ?? "-"} of ${config.version}`;
      return { ...host, config: inForce, refused: config.error, collector: collectorText(host["collector"]) };
    },
  });
  hosts
    .command("configure <id> <file>")
    .description("write a host's remote configuration from a JSON file, or from stdin with -")
    .addHelpText(
      "after",
      `
It can set only intervals, log_paths, signals and log_level. Example:
  echo '{"log_paths": ["/var/log/nginx/*.log"], "intervals": {"metrics": "15s"}}' | atherops hosts configure <id> -`,
    )
    .action(async (id: string, file: string) => {
      const body = parseJson("the configuration", await readInput(file, console.world.stdin));
      const { version } = await console.call<{ version: string }>("PUT", `/api/v1/agents/${encodeURIComponent(id)}/config`, { body });
      console.note(`version ${version} written; the host applies it at its next poll, and \`atherops hosts\` shows when it has`);
    });
  addRemoval(
    hosts,
    console,
    "remove a host and revoke its keys; normally refused everywhere within 5 seconds",
    (id) => `/api/v1/agents/${id}`,
  );
}

/** `running`, or the state with its restarts and last error. */
export function collectorText(report: unknown): string {
  const { state, restarts, last_error: error } = (report ?? {}) as { state?: string; restarts?: number; last_error?: string };
  return [state ?? "", restarts ? `${restarts} restarts` : "", error ? truncate(error, 60) : ""].filter(Boolean).join(", ");
}

function addKeys(program: Command, console: Console): void {
  const keys = program.command("keys").description("API keys for sending telemetry without an agent (docs/direct-ingest.md)");
  addList(keys, console, {
    description: "valid keys; a key itself is shown only when it is created",
    path: "/api/keys",
    columns: ["name", "created_at", "first_used_at", "key_id"],
  });
  keys
    .command("create <name>")
    .description("create a key; prints only the key to stdout; <name> becomes the `node` of all data that it sends")
    .action(async (name: string) => {
      const created = await console.call<{ api_key: string; key_id: string }>("POST", "/api/keys", { body: { name } });
      console.result(created.api_key, `key ${name} (${created.key_id}) created; it is not shown again`, created);
    });
  addRemoval(keys, console, "revoke a key; normally refused everywhere within 5 seconds", (id) => `/api/keys/${id}`);
}
