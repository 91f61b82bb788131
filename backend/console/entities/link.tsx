// A link from a field of a record or span to the page of the pod, node, namespace, … that the field names.
import { address, route } from "../state/route.ts";
import { type Entity, entityAddress } from "./entity.ts";

export function EntityLink({ entity }: { entity: Entity | undefined }) {
  if (!entity) return null;
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a class="only" href={entityAddress(entity, { from, to })} aria-label={`Open ${entity.kind} ${entity.name.slice(0, 60)}`}>
      {entity.kind}
    </a>
  );
}

export function ServiceLink({ service }: { service: string }) {
  const { from, to } = Object.fromEntries(route.value.query);
  return (
    <a class="only" href={address("services", { from, to }, service)} aria-label={`Open service ${service.slice(0, 60)}`}>
      service
    </a>
  );
}
