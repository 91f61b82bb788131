// The state of one pod: as in the list of pods, with the workload and node that it belongs to, and the log records that say why it failed.
import { ButtonLink } from "../parts/controls.tsx";
import { Chip, Facts, NameLink, Status } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { useLoaded } from "../state/loaded.ts";
import type { AddressRange } from "../state/time.ts";
import { type ClusterObject, readObjects, TONES, whyAddress } from "./cluster-objects.ts";
import { type Entity, entityAddress } from "./entity.ts";
import { Share } from "./object-list.tsx";

export function PodState({ entity, range, requestKey }: { entity: Entity; range: AddressRange; requestKey: string }) {
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
  const { cluster, namespace, node, owner, state, health, containers, ready, restarts, recent_restarts: recent, last_reason: reason } = pod;
  const why = whyAddress(pod);
  const link = (of: Entity) => <NameLink href={entityAddress(of, range)} text={of.name} />;
  return (
    <div class="row">
      <Facts
        of={[
          ["state", <Chip tone={TONES[health]} text={containers === undefined ? state : `${state} ${ready ?? 0}/${containers}`} />],
          ["restarts", `${restarts}${recent > 0 ? `, ${recent} in the last hour` : ""}`],
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
