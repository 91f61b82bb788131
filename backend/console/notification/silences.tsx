// Silences: active, pending, and those that expired in the last days. Invariants: the address of a new silence may contain its matchers, so
// that an alert can link to the form that silences it; users who may only read see just the list.
import { EditableList, EditLink, Checkbox, Button, Field, type Column, SavingForm } from "../parts/index.ts";
import { useLoaded, address, choose, route, call, mayWrite, formReader, noteEdit } from "../state/index.ts";
import { fieldMs, forField, timestampText } from "../state/time.ts";
import { fromSilence, toSilence } from "../../client/matcher.ts";
import { Matchers, MatchersField } from "./matchers.tsx";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { parseMatchers, formatMatchers } from "./matcher.ts";

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
  return <EditLink href={address("alerts", { ...listParameters(), silence: id })} text={<Matchers of={matchers.map(fromSilence)} />} />;
}

/** Parameters of the address that the list and an open silence share. */
function listParameters(): Record<string, string | undefined> {
  return { view: "silences", ended: route.value.query.get("ended") ?? undefined };
}

const SILENCES = "/alerting/silences";

type Silence = ApiResponses["GET /alerting/silences"][number];

const HOUR_MS = 3_600_000;
const LENGTHS = [
  ["1 h", HOUR_MS],
  ["2 h", 2 * HOUR_MS],
  ["8 h", 8 * HOUR_MS],
  ["1 day", 24 * HOUR_MS],
  ["1 week", 168 * HOUR_MS],
] as const;

interface SilenceFormProps {
  /** Undefined: a new silence. An expired one is created again. */
  readonly silence: Silence | undefined;
  readonly matchers: string;
  readonly onSaved: (silence: Silence) => string;
}

/** Invariants: a silence has an end and a reason; times are in the time zone of the console. */
function SilenceForm({ silence, matchers, onSaved }: SilenceFormProps) {
  const state = silence?.status.state;
  const isNew = state === undefined || state === "expired";
  /** Undefined: now. */
  const startMs = useSignal(state === "pending" ? Date.parse(silence?.startsAt ?? "") : undefined);
  const endMs = useSignal(isNew ? Date.now() + 2 * HOUR_MS : Date.parse(silence?.endsAt ?? ""));
  const save = async (form: HTMLFormElement): Promise<string> => {
    const text = formReader(form);
    const body = {
      ...(silence && !isNew && { id: silence.id }),
      matchers: parseMatchers(text("matchers")).map(toSilence),
      ...(startMs.value !== undefined && { startsAt: new Date(startMs.value).toISOString() }),
      endsAt: new Date(endMs.value).toISOString(),
      comment: text("comment"),
    };
    return onSaved(await call<Silence>(SILENCES, { method: "POST", body }));
  };
  return (
    <SavingForm label={isNew ? "Create" : "Save"} saved="Saved." save={save} takesFocus={isNew}>
      <MatchersField initial={silence ? formatMatchers(silence.matchers.map(fromSilence)) : matchers} />
      {state !== "active" && (
        <Field {...MOMENT} label="Start (empty: now)" value={textOf(startMs.value)} onDone={(text) => (startMs.value = fieldMs(text))} />
      )}
      <Field
        {...MOMENT}
        label="End"
        required
        value={textOf(endMs.value)}
        onDone={(text) => (endMs.value = fieldMs(text) ?? endMs.peek())}
      />
      <div role="group" aria-label="Duration" class="tabs">
        {LENGTHS.map(([words, ms]) => (
          <Button
            key={words}
            onClick={({ currentTarget }) => {
              endMs.value = (startMs.peek() ?? Date.now()) + ms;
              noteEdit(currentTarget);
            }}
            text={words}
          />
        ))}
      </div>
      <Field label="Comment" name="comment" required maxLength={2000} defaultValue={silence?.comment} />
    </SavingForm>
  );
}

const MOMENT = { type: "datetime-local", step: "1" };
const textOf = (ms: number | undefined): string => (ms === undefined ? "" : forField(ms));
