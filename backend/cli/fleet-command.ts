// `atherops fleet`: lists all agents of the organisation, on hosts and on nodes of clusters, with their versions and problems.
import type { Command } from "commander";
import { FULL_QUEUE_PERCENT, type Heartbeat } from "../../common/protocol/enrolment.ts";
import { listClusters, type Cluster, collectorText } from "./enrolment-commands.ts";
import type { Console } from "./output.ts";
import { type Row, truncate, visible } from "./text-table.ts";

interface Agent {
  readonly kind: "host" | "node";
  readonly name: string;
  readonly cluster: string | null;
  readonly agent_version: string;
  readonly last_heartbeat: string | null;
  readonly problem: string | null;
}

type Report = Row & { agent_version?: string | null; config?: { error?: string | null } };

export function addFleetCommand(program: Command, console: Console): void {
  program
    .command("fleet")
    .description("every agent, on hosts and on nodes of clusters: its version and its problem")
    .option("--problems", "only agents that have a problem")
    .action(async ({ problems }: { problems?: true }) => {
      const clusters = await listClusters(console);
      const agents = await readFleet(console, clusters);
      const shown = problems ? agents.filter(({ problem }) => problem !== null) : agents;
      console.print(shown, ["kind", "name", "cluster", "agent_version", "last_heartbeat", "problem"]);
      if (console.json) return;
      console.note(summary(agents));
      for (const { name, config } of clusters)
        if (config?.stopped)
          console.note(visible(`cluster ${String(name)}: the rollout of configuration ${config.version} is stopped: ${config.stopped}`));
    });
}

/** Agents with a problem first, then by cluster and name. */
async function readFleet(console: Console, clusters: readonly Cluster[]): Promise<Agent[]> {
  const hosts = await console.client().rows<Report>("/api/v1/agents");
  const reports = [
    ...clusters.flatMap(({ name, nodes }) =>
      (nodes as Report[]).map((node) => ({ kind: "node", cluster: String(name), name: node["name"], report: node }) as const),
    ),
    ...hosts.map((host) => ({ kind: "host", cluster: null, name: host["hostname"], report: host }) as const),
  ];
  const newest = reports.map(({ report }) => report.agent_version ?? "").reduce(newerOf, "");
  const agents = reports.map(({ kind, cluster, name, report }) => ({
    kind,
    name: String(name),
    cluster,
    agent_version: report.agent_version ?? "",
    last_heartbeat: (report["last_heartbeat"] ?? null) as string | null,
    problem: problemOf(report, newest),
  }));
  const order = ({ problem, cluster, name }: Agent): string => [problem === null ? "1" : "0", cluster ?? "", name].join("\n");
  return agents.toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
}

function problemOf(report: Report, newest: string): string | null {
  const { online, agent_version: version, collector, config } = report;
  const { state, queue_percent: queued = 0, failing = [] } = (collector ?? {}) as NonNullable<Heartbeat["collector"]>;
  const problems = [
    online === true ? undefined : "offline",
    online === true && collector && state !== "running" ? `collector: ${collectorText(collector)}` : undefined,
    online === true && failing.length > 0 ? `not delivered: ${failing.join(", ")}` : undefined,
    online === true && queued >= FULL_QUEUE_PERCENT ? `disk queue ${queued} % full` : undefined,
    config?.error ? `configuration rejected: ${truncate(config.error, 60)}` : undefined,
    version === null || version === newest ? undefined : `older than ${newest}`,
  ].filter((problem) => problem !== undefined);
  return problems.length === 0 ? null : problems.join("; ");
}

/** Versions such as 1.2.3; text after the numbers does not count. */
function newerOf(a: string, b: string): string {
  const [numbersA, numbersB] = [numbersOf(a), numbersOf(b)];
  const index = numbersB.findIndex((number, i) => number !== (numbersA[i] ?? -1));
  return index !== -1 && (numbersB[index] ?? 0) > (numbersA[index] ?? -1) ? b : a;
}

function numbersOf(version: string): number[] {
  return version.split(/[-+]/)[0]?.split(".").map(Number) ?? [];
}

function summary(agents: readonly Agent[]): string {
  const counts = new Map<string, number>();
  for (const { agent_version: version } of agents) counts.set(version, (counts.get(version) ?? 0) + 1);
  const versions = [...counts].toSorted(([a], [b]) => (a < b ? 1 : -1)).map(([version, count]) => `${count} of version ${version}`);
  const problems = agents.filter(({ problem }) => problem !== null).length;
  return `${agents.length} agents${versions.length > 0 ? `: ${versions.join(", ")}` : ""}; ${problems} with a problem`;
}
