// Kubernetes at a glance: pods, workloads, namespaces, nodes and clusters of the organisation, unhealthy ones first.
import { Bar, Tabs, useScreenRange } from "../parts/index.ts";
import { choose, route } from "../state/route.ts";
import { OBJECT_KINDS } from "./cluster-objects.ts";
import { ObjectList } from "./object-list.tsx";

export function KubernetesScreen() {
  const { query } = route.value;
  const { range, refresh, rangeKey } = useScreenRange();
  const kind = OBJECT_KINDS.find(([name]) => name === query.get("view"))?.[0] ?? "pod";
  return (
    <section class="screen" aria-labelledby="title">
      <Bar title="Kubernetes" onNow={refresh}>
        <Tabs
          label="Objects"
          tabs={OBJECT_KINDS}
          chosen={kind}
          onChoose={(name) => choose({ view: name === "pod" ? undefined : name, by: undefined, name: undefined })}
        />
      </Bar>
      <ObjectList kind={kind} range={range} requestKey={rangeKey} key={kind} />
    </section>
  );
}
