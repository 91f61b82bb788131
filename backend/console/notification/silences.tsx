// Silences: active, pending, and those that expired in the last days. Invariants: the address of a new silence may contain its matchers, so
// that an alert can link to the form that silences it; users who may only read see just the list.
import { useSignal } from "@preact/signals";
import { RemoveButton } from "../parts/removal.tsx";
import { Side, Split } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { timestampText } from "../state/time.ts";
import { fromSilence } from "../../client/matcher.ts";
import { Matchers } from "./matchers.tsx";
import { type Silence, SilenceForm, SILENCES } from "./silence-form.tsx";
import { Checkbox, CreateLink } from "../parts/controls.tsx";
import { Status } from "../parts/common.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const REFRESH_MS = 10_000;
const COLOUR = { active: "is-warn", pending: "is-info", expired: "is-other" } as const;

export function Silences() {
  const loaded = useLoaded("silences", async (signal) => await call<Silence[]>(SILENCES, { signal }), { refreshMs: REFRESH_MS });
  const created = useSignal<Silence | undefined>(undefined);
  const { query } = route.value;
  const all = loaded.value.value ?? [];
  const count = (state: string): number => all.filter(({ status }) => status.state === state).length;
  const areExpiredShown = query.get("ended") !== null;
  const shown = all.filter(({ status }) => areExpiredShown || status.state !== "expired");
  const id = query.get("silence");
  const chosen = [...all, created.value].find((silence) => silence?.id === id);
  const isOpen = mayWrite.value && (chosen !== undefined || id === "new");
  const saved = (silence: Silence): string => {
    created.value = silence;
    loaded.reload();
    return address("alerts", { view: "silences", silence: silence.id });
  };
  return (
    <>
      <div class="bar">
        <p role="status">
          {count("active")} active, {count("pending")} pending
        </p>
        <Checkbox
          label={`Show ${count("expired")} expired (last 5 days)`}
          checked={areExpiredShown}
          onChange={() => choose({ ended: areExpiredShown ? undefined : "1" })}
        />
        <CreateLink href={address("alerts", { view: "silences", silence: "new" })} text="Create silence" />
      </div>
      <Split
        side={
          isOpen && <SilenceSide silence={chosen} key={`${id} ${query.get("matchers") ?? ""}`} onSaved={saved} onChanged={loaded.reload} />
        }
      >
        <Status of={loaded} empty={shown.length === 0 && <EmptyState />}>
          <Table title="Silences" rows={shown} columns={COLUMNS} isChosen={(silence) => silence.id === id} />
        </Status>
      </Split>
    </>
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
  const list = <Matchers of={matchers.map(fromSilence)} />;
  return mayWrite.value ? <a href={address("alerts", { ...listParameters(), silence: id })}>{list}</a> : list;
}

/** Parameters of the address that the list and an open silence share. */
function listParameters(): Record<string, string | undefined> {
  return { view: "silences", ended: route.value.query.get("ended") ?? undefined };
}

interface SilenceSideProps {
  readonly silence: Silence | undefined;
  readonly onSaved: (silence: Silence) => string;
  readonly onChanged: () => void;
}

function SilenceSide({ silence, onSaved, onChanged }: SilenceSideProps) {
  const state = silence?.status.state;
  const title = state === undefined ? "New silence" : state === "expired" ? "Recreate silence" : "Silence";
  return (
    <Side label={silence ? "Silence" : "New silence"} title={title} onClose={address("alerts", listParameters())}>
      <SilenceForm silence={silence} matchers={route.value.query.get("matchers") ?? ""} onSaved={onSaved} />
      {silence && state !== "expired" && (
        <RemoveButton
          label="Expire silence"
          path={`${SILENCES}/${silence.id}`}
          onRemoved={() => (onChanged(), address("alerts", listParameters()))}
        >
          Firing alerts that it mutes are sent to their channels again.
        </RemoveButton>
      )}
    </Side>
  );
}
