// Fields of the builder: a list to choose from, and a text that suggests values.
import { Options } from "../parts/common.tsx";
import { useSignal } from "@preact/signals";
import { useEffect, useId } from "preact/hooks";
import { visible } from "../parts/text.ts";

/** The limit of suggestions that are shown, and of those that a request asks for. */
export const MOST_CHOICES = 200;

interface SelectProps<T extends string> {
  readonly label: string;
  readonly choices: readonly T[];
  readonly value: T;
  readonly names: Readonly<Record<string, string>>;
  readonly onChoice: (choice: T) => void;
}

export function Select<T extends string>({ label, choices, value, names, onChoice }: SelectProps<T>) {
  return (
    <label>
      {label}
      <select
        value={value}
        onChange={(event) => {
          const chosen = event.currentTarget.value as T;
          // A list that adds shows its first choice again.
          event.currentTarget.value = value;
          onChoice(chosen);
        }}
      >
        <Options of={choices.map((choice) => [choice, names[choice] ?? choice])} />
      </select>
    </label>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly isUnseen?: boolean;
  readonly isDisabled?: boolean;
  readonly value: string;
  readonly choices: readonly string[];
  readonly onChoice: (value: string) => void;
}

/** A text with the choices that contain what is typed. */
export function Choice({ label, isUnseen = false, isDisabled = false, value, choices, onChoice }: ChoiceProps) {
  const id = useId();
  const typed = useSignal(value);
  useEffect(() => void (typed.value = value), [value]);
  const shown = choices.filter((choice) => choice.includes(typed.value)).slice(0, MOST_CHOICES);
  return (
    <label>
      <span class={isUnseen ? "unseen" : ""}>{visible(label)}</span>
      <input
        type="text"
        list={id}
        size={isUnseen ? 14 : 34}
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
