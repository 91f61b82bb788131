// A text field of the builder that suggests values.
import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { visible } from "../parts/text.ts";

/** Maximum number of suggestions that are requested and shown. */
export const MAX_CHOICES = 200;

interface TextWithChoicesProps {
  readonly label: string;
  readonly isLabelHidden?: boolean;
  readonly isDisabled?: boolean;
  readonly value: string;
  readonly choices: readonly string[];
  readonly onChoice: (value: string) => void;
}

/** Suggests the choices that contain the typed text. */
export function TextWithChoices({ label, isLabelHidden = false, isDisabled = false, value, choices, onChoice }: TextWithChoicesProps) {
  const id = useId();
  const typed = useSignal(value);
  useEffect(() => void (typed.value = value), [value]);
  const shown = choices.filter((choice) => choice.includes(typed.value)).slice(0, MAX_CHOICES);
  return (
    <label>
      <span class={isLabelHidden ? "unseen" : ""}>{visible(label)}</span>
      <input
        type="text"
        list={id}
        size={isLabelHidden ? 14 : 34}
        value={typed.value}
        disabled={isDisabled}
        spellcheck={false}
        onInput={(event) => (typed.value = event.currentTarget.value)}
        onChange={(event) => onChoice(event.currentTarget.value.trim())}
      />
      <datalist id={id}>
        {shown.map((choice) => (
          <option value={choice} key={choice} />
        ))}
      </datalist>
    </label>
  );
}
