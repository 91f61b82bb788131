// The form of a silence. Invariants: a silence has an end and a reason; times are in the time zone of the console.
import { Button, Field } from "../parts/controls.tsx";
import type { ApiResponses } from "../../client/api.ts";
import { useSignal } from "@preact/signals";
import { SavingForm } from "../parts/saving-form.tsx";
import { fieldMs, forField } from "../state/time.ts";
import { fromSilence, toSilence } from "../../client/matcher.ts";
import { parseMatchers, formatMatchers } from "./matcher.ts";
import { MatchersField } from "./matchers.tsx";
import { call } from "../state/api.ts";
import { formReader } from "../state/sending.ts";

export const SILENCES = "/alerting/silences";

export type Silence = ApiResponses["GET /alerting/silences"][number];

const HOUR_MS = 3_600_000;
const LENGTHS = [
  ["1 h", HOUR_MS],
  ["2 h", 2 * HOUR_MS],
  ["8 h", 8 * HOUR_MS],
  ["1 day", 24 * HOUR_MS],
  ["1 week", 168 * HOUR_MS],
] as const;

export interface SilenceFormProps {
  /** Undefined: a new silence. An expired one is created again. */
  readonly silence: Silence | undefined;
  /** Typed matchers of a new silence. */
  readonly matchers: string;
  /** Returns the address of the saved one. */
  readonly onSaved: (silence: Silence) => string;
}

export function SilenceForm({ silence, matchers, onSaved }: SilenceFormProps) {
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
          <Button key={words} onClick={() => (endMs.value = (startMs.peek() ?? Date.now()) + ms)} text={words} />
        ))}
      </div>
      <Field label="Comment" name="comment" required maxLength={2000} autoComplete="off" defaultValue={silence?.comment} />
    </SavingForm>
  );
}

const MOMENT = { type: "datetime-local", step: "1" };
const textOf = (ms: number | undefined): string => (ms === undefined ? "" : forField(ms));
