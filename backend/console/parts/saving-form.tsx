// A form that sends what was typed. Invariants: a refusal is shown and what was typed stays; the form is not sent again while a request runs.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "./common.tsx";
import { Button } from "./controls.tsx";
import { submitBy, useSending } from "../state/sending.ts";
import { useUnsaved } from "../state/unsaved.ts";

export interface SavingFormProps {
  /** Label of the button. */
  readonly label: string;
  /** Shown after a save. A form that is replaced by its result needs none. */
  readonly saved?: string;
  /** Throws an Error whose message is shown to the user; resolves to the address to open, if any. */
  readonly save: (form: HTMLFormElement) => Promise<string | void>;
  /** Shown instead of the button to a user who may not save. */
  readonly refusal?: string | undefined;
  /** Focus the first field that must be filled in, for a form that the user has just opened. */
  readonly takesFocus?: boolean;
  readonly children: ComponentChildren;
}

export function SavingForm({ label, saved, save, refusal, takesFocus, children }: SavingFormProps) {
  const element = useRef<HTMLFormElement>(null);
  const isSaved = useSignal(false);
  const unsaved = useUnsaved();
  const { send, error } = useSending(async (form: HTMLFormElement) => {
    const next = await unsaved.save(() => save(form));
    isSaved.value = true;
    return next;
  });
  const onInput = (): void => {
    isSaved.value = false;
    unsaved.changed();
  };
  useEffect(() => {
    const fields = [...(element.current?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea") ?? [])];
    if (takesFocus) (fields.find(({ required, value }) => required && value === "") ?? fields[0])?.focus();
  }, []);
  return (
    <form class="stack" ref={element} onInput={onInput} onSubmit={submitBy(send)}>
      {children}
      <Problem message={error} />
      {refusal ? <p class="quiet">{refusal}</p> : <Button type="submit" class="primary" text={label} />}
      {saved && isSaved.value && <p role="status">{saved}</p>}
    </form>
  );
}
