// Shows where a service runs, according to the attributes of its newest spans, and which alerts about it are firing.
import type { ApiResponses } from "../../client/api.ts";
import { type Entity, entityAddress } from "../entities/entity.ts";
import { FiringLinks, readFiringAlerts } from "../entities/links.tsx";
import { visible } from "../parts/text.ts";
import { call, useLoaded, type AddressRange, currentRange, rangeQuery } from "../state/index.ts";

type Facet = ApiResponses["GET /query/traces/facets"][number];

const SHOWN = 20;

export function RunsOn({ service, requestKey, range }: { service: string; requestKey: string; range: AddressRange }) {
  const loaded = useLoaded(`${service} ${requestKey}`, async (signal) => {
    const query = { service, ...rangeQuery(currentRange()) };
    const [facets, firing] = await Promise.all([call<Facet[]>("/query/traces/facets", { query, signal }), readFiringAlerts(signal)]);
    return { entities: entitiesOf(facets), firing: firing.filter(({ labels }) => isAbout(service, labels)) };
  });
  const { entities = [], firing = [] } = loaded.value.value ?? {};
  return (
    <>
      <FiringLinks alerts={firing} />
      {entities.length > 0 && (
        <p class="links">
          Runs on
          {entities.map((entity) => (
            <a href={entityAddress(entity, range)} key={entityAddress(entity)}>
              <span class="quiet">{entity.kind}</span> <bdi>{visible(entity.name)}</bdi>
            </a>
          ))}
        </p>
      )}
    </>
  );
}

function isAbout(service: string, labels: Readonly<Record<string, string>>): boolean {
  return [labels["service"], labels["source"], labels["service_name"]].includes(service);
}

/** If there are several clusters or namespaces, the facets do not show which pod is in which, so the pod is linked by its name alone. */
function entitiesOf(facets: readonly Facet[]): Entity[] {
  const values = (name: string): string[] =>
    facets.find((facet) => facet.name === `attribute.${name}`)?.values.map(({ value }) => value) ?? [];
  const only = (name: string): string | undefined => (values(name).length === 1 ? values(name)[0] : undefined);
  const [cluster, namespace] = [only("k8s.cluster.name"), only("k8s.namespace.name")];
  return [
    ...values("k8s.namespace.name").map((name): Entity => ({ kind: "namespace", name, cluster })),
    ...values("k8s.node.name").map((name): Entity => ({ kind: "node", name, cluster })),
    ...values("k8s.pod.name").map((name): Entity => ({ kind: "pod", name, cluster, namespace })),
  ].slice(0, SHOWN);
}
