// Silences: active, pending, and those that expired in the last days. Invariants: the address of a new silence may contain its matchers, so
// that an alert can link to the form that silences it; users who may only read see just the list.
import { EditableList, EditLink } from "../parts/editable-list.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { timestampText } from "../state/time.ts";
import { fromSilence } from "../../client/matcher.ts";
import { Matchers } from "./matchers.tsx";
import { type Silence, SilenceForm, SILENCES } from "./silence-form.tsx";
import { Checkbox } from "../parts/controls.tsx";
import type { Column } from "../parts/table.tsx";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const REFRESH_MS = 10_000;
const COLOUR = { active: "is-warn", pending: "is-info", expired: "is-other" } as const;

export function Silences() {
  const loaded = useLoaded("silences", async (signal) => await call<Silence[]>(SILENCES, { signal }), { refreshMs: REFRESH_MS });
  const all = loaded.value.value ?? [];
  const count = (state: string): number => all.filter(({ status }) => status.state === state).length;
  const areExpiredShown = route.value.query.get("ended") !== null;
  const shown = all.filter(({ status }) => areExpiredShown || status.state !== "expired");
  return (
    <EditableList
      noun="silence"
      list={listParameters()}
      loaded={loaded}
      rows={shown}
      all={all}
      title="Silences"
      columns={COLUMNS}
      status={`${count("active")} active, ${count("pending")} pending`}
      extras={
        <Checkbox
          label={`Show ${count("expired")} expired (last 5 days)`}
          checked={areExpiredShown}
          onChange={() => choose({ ended: areExpiredShown ? undefined : "1" })}
        />
      }
      empty={shown.length === 0 && <EmptyState />}
      headingOf={({ status }) => (status.state === "expired" ? "Recreate silence" : "Silence")}
      removal={({ id, status }) =>
        status.state !== "expired" && {
          label: "Expire silence",
          path: `${SILENCES}/${id}`,
          text: "Firing alerts that it mutes are sent to their channels again.",
        }
      }
      form={(silence, saved) => <SilenceForm silence={silence} matchers={route.value.query.get("matchers") ?? ""} onSaved={saved} />}
    />
  );
}

const COLUMNS: readonly Column<Silence>[] = [
  { head: "state", cell: ({ status }) => <span class={`level ${COLOUR[status.state]}`}>{status.state}</span> },
  { head: "matchers", kind: "name", cell: (silence) => <SilenceMatchers silence={silence} /> },
  { head: "until", kind: "timestamp", cell: ({ endsAt }) => timestampText(endsAt) },
  { head: "comment", cell: ({ comment }) => comment },
  { head: "created by", cell: ({ createdBy }) => createdBy },
  { head: "from", kind: "timestamp", cell: ({ startsAt }) => timestampText(startsAt) },
];

function EmptyState() {
  return (
    <>
      <p>No silences.</p>
      <p>
        {mayWrite.value ? "To mute an alert, open the " : "Alerts are listed as "}
        <a href={address("alerts", { view: "firing" })}>firing</a>
        {mayWrite.value && " alerts. To mute alerts during planned work, create a silence"}.
      </p>
    </>
  );
}

function SilenceMatchers({ silence: { id, matchers } }: { silence: Silence }) {
  return (
    <EditLink href={address("alerts", { ...listParameters(), silence: id })}>
      <Matchers of={matchers.map(fromSilence)} />
    </EditLink>
  );
}

/** Parameters of the address that the list and an open silence share. */
function listParameters(): Record<string, string | undefined> {
  return { view: "silences", ended: route.value.query.get("ended") ?? undefined };
}
