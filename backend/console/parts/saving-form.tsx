// A form that sends what was typed. Invariants: a refusal is shown and what was typed stays; the form is not sent again while a request runs.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "./common.tsx";
import { Button } from "./controls.tsx";
import { submitBy, useSending } from "../state/sending.ts";

export interface SavingFormProps {
  readonly label: string;
  /** Shown after a save. A form that is replaced by its result needs none. */
  readonly saved?: string;
  /** Throws an Error whose message is shown to the user; resolves to the address to open, if any. */
  readonly save: (form: HTMLFormElement) => Promise<string | void>;
  /** Shown instead of the button to a user who may not save. */
  readonly refusal?: string | undefined;
  /** Focus the first field that must be filled in, for a form that the user has just opened. */
  readonly takesFocus?: boolean;
  /** Shows a button that closes the form without a question. */
  readonly onCancel?: () => void;
  /** `row`: a form in one line. */
  readonly layout?: "stack" | "row";
  readonly children: ComponentChildren;
}

export function SavingForm({ label, saved, save, refusal, takesFocus, onCancel, layout = "stack", children }: SavingFormProps) {
  const element = useRef<HTMLFormElement>(null);
  const isSaved = useSignal(false);
  const { send, error } = useSending(async (form: HTMLFormElement) => {
    isSaved.value = false;
    const next = await save(form);
    isSaved.value = true;
    return next;
  });
  useEffect(() => {
    const fields = [...(element.current?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea") ?? [])];
    if (takesFocus) (fields.find(({ required, value }) => required && value === "") ?? fields[0])?.focus();
  }, []);
  return (
    <form class={layout} ref={element} onInput={() => (isSaved.value = false)} onSubmit={submitBy(send)}>
      {children}
      <Problem message={error} />
      {refusal ? <p class="quiet">{refusal}</p> : <Button type="submit" class="primary" text={label} />}
      {onCancel && <Button onClick={onCancel} text="Cancel" />}
      {saved && isSaved.value && <p role="status">{saved}</p>}
    </form>
  );
}
