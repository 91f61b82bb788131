// Kubernetes at a glance: lists of its objects, unhealthy ones first; and the page of one cluster, node, host, namespace, workload or pod:
// firing alerts, its agent, charts of its main metrics, its logs, events and traces, and what runs in it.
import { Bar, Tabs, Card, NameLink, Status, Facts, visible, useScreenRange, ButtonLink } from "../parts/index.ts";
import { Panels } from "../dashboards/board.tsx";
import { LogList, TraceList } from "../dashboards/panel.tsx";
import { readShipped } from "../dashboards/shipped.ts";
import { FiringLinks, readFiringAlerts } from "./links.tsx";
import { useLoaded, address, choose, route, type AddressRange } from "../state/index.ts";
import { AgentCard } from "./agent.tsx";
import { dashboardOf, type Entity, entityAddress, parseEntity, eventQuery, isAbout, logQuery, traceQuery } from "./entity.ts";
import { OBJECT_KINDS, type ObjectKind, type ClusterObject, readObjects, whyAddress } from "./cluster-objects.ts";
import { ObjectList, Share, StateChip } from "./object-list.tsx";

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

export function EntityScreen() {
  const { id, query } = route.value;
  const entity = parseEntity(id, query);
  return entity ? (
    <Page entity={entity} key={JSON.stringify(entity)} />
  ) : (
    <p class="empty">Page not found: this URL does not identify a cluster, host or pod.</p>
  );
}

function Page({ entity }: { entity: Entity }) {
  const { range, refresh, rangeKey: requestKey } = useScreenRange();
  return (
    <section class="screen entity" aria-labelledby="title">
      <Bar
        title={
          <>
            <span class="quiet">{entity.kind === "workload" ? (entity.workload ?? entity.kind) : entity.kind}</span>{" "}
            <bdi>{visible(entity.name)}</bdi>
          </>
        }
        onNow={refresh}
      >
        <Parents entity={entity} range={range} />
      </Bar>
      <Firing entity={entity} requestKey={requestKey} />
      {entity.kind === "pod" && <PodState entity={entity} range={range} requestKey={requestKey} />}
      {["cluster", "node", "host"].includes(entity.kind) && <AgentCard entity={entity} />}
      {MEMBERS[entity.kind].map((kind) => (
        <ObjectList kind={kind} within={entity} range={range} requestKey={requestKey} key={kind} />
      ))}
      <Charts entity={entity} requestKey={requestKey} />
      <div class="cards">
        <Logs entity={entity} range={range} requestKey={requestKey} />
        <Traces entity={entity} range={range} requestKey={requestKey} />
      </div>
    </section>
  );
}

const MEMBERS: Readonly<Record<Entity["kind"], readonly ObjectKind[]>> = {
  cluster: ["namespace", "node", "workload", "pod"],
  node: ["pod"],
  host: [],
  namespace: ["workload", "pod"],
  workload: ["pod"],
  pod: [],
};

function Parents({ entity: { kind, cluster, namespace }, range }: { entity: Entity; range: AddressRange }) {
  const parents: Entity[] = [];
  if (cluster && kind !== "cluster") parents.push({ kind: "cluster", name: cluster });
  if (namespace && kind !== "namespace") parents.push({ kind: "namespace", name: namespace, cluster });
  return (
    <>
      {parents.map((parent) => (
        <span key={parent.kind}>
          <span class="quiet">{parent.kind}</span> <NameLink href={entityAddress(parent, range)} text={parent.name} />
        </span>
      ))}
    </>
  );
}

function Firing({ entity, requestKey }: { entity: Entity; requestKey: string }) {
  const loaded = useLoaded(requestKey, readFiringAlerts);
  return <FiringLinks alerts={(loaded.value.value ?? []).filter(({ labels }) => isAbout(entity, labels))} />;
}

function Charts({ entity, requestKey }: { entity: Entity; requestKey: string }) {
  const { id, chosen } = dashboardOf(entity);
  const loaded = useLoaded(id, async () => await readShipped(id));
  const dashboard = loaded.value.value;
  return (
    <Status of={loaded}>
      {dashboard && <Panels panels={dashboard.panels} chosen={chosen} requestKey={requestKey} events={eventQuery(entity)} />}
    </Status>
  );
}

interface PartProps {
  readonly entity: Entity;
  readonly range: AddressRange;
  readonly requestKey: string;
}

function Logs({ entity, range, requestKey }: PartProps) {
  const [logs, events] = [logQuery(entity), eventQuery(entity)];
  return (
    <>
      <Card title="Newest logs" href={address("logs", { q: logs, ...range })}>
        <LogList query={logs} requestKey={`${requestKey} ${logs}`} />
      </Card>
      {events !== undefined && (
        <Card title="Newest Kubernetes events" href={address("logs", { q: events, ...range })}>
          <LogList query={events} requestKey={`${requestKey} ${events}`} />
        </Card>
      )}
    </>
  );
}

function Traces({ entity, range, requestKey }: PartProps) {
  const query = traceQuery(entity);
  return (
    <Card title="Slowest traces" href={address("traces", { attributes: query, sort: "slowest", ...range })}>
      <TraceList query={query} requestKey={`${requestKey} ${query}`} />
    </Card>
  );
}

function PodState({ entity, range, requestKey }: { entity: Entity; range: AddressRange; requestKey: string }) {
  const loaded = useLoaded(`state ${requestKey}`, async (signal) => await readObjects("pod", entity, range, signal));
  const pod = loaded.value.value?.objects[0];
  return (
    <section class="card" aria-label="State">
      <Status of={loaded} empty={!pod && "No agent reported this pod in the last minutes of the range."}>
        {pod && <PodFacts pod={pod} range={range} />}
      </Status>
    </section>
  );
}

function PodFacts({ pod, range }: { pod: ClusterObject; range: AddressRange }) {
  const { cluster, namespace, node, owner, restarts, recent_restarts: recent, last_reason: reason } = pod;
  const why = whyAddress(pod);
  const link = (of: Entity) => <NameLink href={entityAddress(of, range)} text={of.name} />;
  return (
    <div class="row">
      <Facts
        of={[
          ["state", <StateChip of={pod} />],
          ["restarts", `${restarts}${recent > 0 ? ` (${recent} in the last hour)` : ""}`],
          reason !== undefined && ["last reason", visible(reason)],
          ["CPU of request", <Share of={pod.cpu_request ? (pod.cpu ?? 0) / pod.cpu_request : undefined} />],
          ["memory of limit", <Share of={pod.memory_share} />],
          owner && [owner.kind, link({ kind: "workload", name: owner.name, cluster, namespace, workload: owner.kind })],
          node !== undefined && ["node", link({ kind: "node", name: node, cluster })],
        ]}
      />
      {why && (
        <ButtonLink class="primary" href={why.href} text={why.text === "Events" ? "Events of the pod" : "Last lines before it ended"} />
      )}
    </div>
  );
}
