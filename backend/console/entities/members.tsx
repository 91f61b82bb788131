// Finds namespaces, workloads and pods in the metrics that agents sent: of a whole organisation, or of one cluster, node, namespace or
// workload.
import { queryInstant } from "../metrics/prometheus.ts";
import { formatValue } from "../metrics/unit.ts";
import { NameLink, Status } from "../parts/common.tsx";
import { Table } from "../parts/table.tsx";
import { useLoaded } from "../state/loaded.ts";
import { type AddressRange, currentRange } from "../state/time.ts";
import { type Entity, entityAddress, metricSelector, WORKLOAD_KINDS } from "./entity.ts";

/** Only the entities with the most memory are listed. */
const MAX_ROWS = 500;

export interface EntityRow {
  readonly entity: Entity;
  readonly memoryBytes: number;
}

export type MemberKind = "namespace" | "workload" | "pod";

const LABELS = {
  namespace: ["k8s_cluster_name", "k8s_namespace_name"],
  workload: ["k8s_cluster_name", "k8s_namespace_name", ...WORKLOAD_KINDS.map((kind) => `k8s_${kind}_name`)],
  pod: ["k8s_cluster_name", "k8s_namespace_name", "k8s_pod_name"],
} as const satisfies Record<MemberKind, readonly string[]>;

/** `within`: only members of this entity. */
export async function readMembers(kind: MemberKind, within: Entity | undefined, signal: AbortSignal): Promise<EntityRow[]> {
  const metric = `k8s_pod_memory_working_set_bytes${within ? metricSelector(within) : ""}`;
  const query = `topk(${MAX_ROWS}, sum by (${LABELS[kind].join(", ")}) (${metric}))`;
  const series = await queryInstant(query, currentRange().toMs, signal);
  return series
    .flatMap(({ labels, value }) => {
      const entity = entityIn(kind, labels);
      return entity ? [{ entity, memoryBytes: Number(value) }] : [];
    })
    .toSorted((a, b) => b.memoryBytes - a.memoryBytes);
}

function entityIn(kind: MemberKind, labels: Readonly<Record<string, string>>): Entity | undefined {
  const workload = WORKLOAD_KINDS.find((known) => labels[`k8s_${known}_name`]);
  const name = labels[`k8s_${kind === "workload" ? workload : kind}_name`];
  if (!name) return undefined;
  const rest = kind === "namespace" ? {} : { namespace: labels["k8s_namespace_name"] };
  return { kind, name, cluster: labels["k8s_cluster_name"], ...rest, ...(kind === "workload" && { workload }) };
}

export function Members({
  kind,
  within,
  range,
  requestKey,
}: {
  kind: MemberKind;
  within?: Entity;
  range: AddressRange;
  requestKey: string;
}) {
  const loaded = useLoaded(`${kind} ${JSON.stringify(within)} ${requestKey}`, async (signal) => await readMembers(kind, within, signal));
  const rows = loaded.value.value ?? [];
  const title = `${kind[0]?.toUpperCase()}${kind.slice(1)}s`;
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Status of={loaded} empty={rows.length === 0 && `No agent reported a ${kind} at the end of this time range.`}>
        <Table
          title={title}
          rows={rows}
          keyOf={({ entity }) => entityAddress(entity)}
          columns={[
            { head: kind, kind: "name", cell: ({ entity }) => <NameLink href={entityAddress(entity, range)} text={entity.name} /> },
            ...(kind === "namespace" ? [] : [{ head: "namespace", cell: ({ entity }: EntityRow) => entity.namespace ?? "–" }]),
            { head: "cluster", cell: ({ entity }) => entity.cluster ?? "–" },
            { head: "memory", kind: "number", cell: ({ memoryBytes }) => formatValue(memoryBytes, "bytes") },
          ]}
        />
      </Status>
      {rows.length === MAX_ROWS && <p class="quiet">Only the {MAX_ROWS} that use the most memory are shown.</p>}
    </section>
  );
}
