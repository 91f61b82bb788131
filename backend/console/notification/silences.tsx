// Silences: active, pending, and those that expired in the last days. Invariants: the address of a new silence may contain its matchers, so
// that an alert can link to the form that silences it; users who may only read see just the list.
import { useSignal } from "@preact/signals";
import { Removal } from "../parts/removal.tsx";
import { Side } from "../parts/side.tsx";
import { useLoaded } from "../state/loaded.ts";
import { address, choose, route } from "../state/route.ts";
import { moment } from "../state/time.ts";
import { fromSilence } from "../../client/matcher.ts";
import { Matchers } from "./matchers.tsx";
import { type Silence, SilenceForm, SILENCES } from "./silence-form.tsx";
import { Status, Table } from "../parts/common.tsx";
import { visible } from "../parts/text.ts";
import { call } from "../state/api.ts";
import { mayWrite } from "../state/session.ts";

const EVERY_MS = 10_000;
const COLOUR = { active: "is-warn", pending: "is-info", expired: "is-other" } as const;

export function Silences() {
  const found = useLoaded("silences", async (signal) => await call<Silence[]>(SILENCES, { signal }), { everyMs: EVERY_MS });
  const made = useSignal<Silence | undefined>(undefined);
  const { query } = route.value;
  const all = found.value.value ?? [];
  const count = (state: string): number => all.filter(({ status }) => status.state === state).length;
  const hasEnded = query.get("ended") !== null;
  const shown = all.filter(({ status }) => hasEnded || status.state !== "expired");
  const id = query.get("silence");
  const chosen = [...all, made.value].find((silence) => silence?.id === id);
  const isOpen = mayWrite.value && (chosen !== undefined || id === "new");
  const saved = (silence: Silence): string => {
    made.value = silence;
    found.reload();
    return address("alerts", { view: "silences", silence: silence.id });
  };
  return (
    <>
      <div class="bar">
        <p role="status">
          {count("active")} active, {count("pending")} pending
        </p>
        <label class="check">
          <input type="checkbox" checked={hasEnded} onChange={() => choose({ ended: hasEnded ? undefined : "1" })} /> also{" "}
          {count("expired")} that ended in the last five days
        </label>
        {mayWrite.value && (
          <a class="button primary" href={address("alerts", { view: "silences", silence: "new" })}>
            Add a silence
          </a>
        )}
      </div>
      <div class={`split ${isOpen ? "with-side" : ""}`}>
        <div>
          <Status of={found} empty={shown.length === 0 && <Nothing />}>
            {shown.length > 0 && <SilenceTable silences={shown} chosen={id} />}
          </Status>
        </div>
        {isOpen && <SilenceSide silence={chosen} key={`${id} ${query.get("matchers") ?? ""}`} onSaved={saved} onChanged={found.reload} />}
      </div>
    </>
  );
}

function Nothing() {
  return (
    <>
      <p>Nothing is silenced.</p>
      <p>
        {mayWrite.value ? "Silence an alert where it is listed as " : "Alerts are listed as "}
        <a href={address("alerts", { view: "firing" })}>firing</a>
        {mayWrite.value && ", or add a silence for work that is planned"}.
      </p>
    </>
  );
}

function SilenceTable({ silences, chosen }: { silences: readonly Silence[]; chosen: string | null }) {
  return (
    <Table title="Silences" heads={["state", "matchers", "until", "comment", "created by", "from"]}>
      {silences.map((silence) => (
        <tr key={silence.id} class={silence.id === chosen ? "is-chosen" : ""}>
          <td>
            <span class={`level ${COLOUR[silence.status.state]}`}>{silence.status.state}</span>
          </td>
          <th scope="row">
            <Hidden silence={silence} />
          </th>
          <td class="moment">{moment(silence.endsAt)}</td>
          <td>
            <bdi>{visible(silence.comment)}</bdi>
          </td>
          <td>
            <bdi>{visible(silence.createdBy)}</bdi>
          </td>
          <td class="moment">{moment(silence.startsAt)}</td>
        </tr>
      ))}
    </Table>
  );
}

function Hidden({ silence: { id, matchers } }: { silence: Silence }) {
  const words = <Matchers of={matchers.map(fromSilence)} />;
  return mayWrite.value ? <a href={address("alerts", { ...kept(), silence: id })}>{words}</a> : words;
}

function kept(): Record<string, string | undefined> {
  return { view: "silences", ended: route.value.query.get("ended") ?? undefined };
}

interface SilenceSideProps {
  readonly silence: Silence | undefined;
  readonly onSaved: (silence: Silence) => string;
  readonly onChanged: () => void;
}

function SilenceSide({ silence, onSaved, onChanged }: SilenceSideProps) {
  const state = silence?.status.state;
  const title = state === undefined ? "New silence" : state === "expired" ? "Silence again" : "Silence";
  return (
    <Side label={silence ? "Silence" : "New silence"} title={title} closed={address("alerts", kept())}>
      <SilenceForm silence={silence} matchers={route.value.query.get("matchers") ?? ""} onSaved={onSaved} />
      {silence && state !== "expired" && (
        <Removal
          label="End this silence"
          title="End this silence?"
          verb="End it"
          path={`${SILENCES}/${silence.id}`}
          onRemoved={() => (onChanged(), address("alerts", kept()))}
        >
          Channels are notified of the firing alerts that it muted.
        </Removal>
      )}
    </Side>
  );
}
