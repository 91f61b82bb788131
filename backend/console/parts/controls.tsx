// Buttons and form fields with their labels.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId } from "preact/hooks";
import { mayWrite } from "../state/session.ts";
import { Icon, type IconName } from "./icons.tsx";
import { visible } from "./text.ts";

type Labelled<A> = Omit<A, "label"> & { readonly label: string };

/** A button that submits its form only if its `type` is `submit`. */
export function Button({ text, ...attributes }: JSX.ButtonHTMLAttributes & { readonly text: ComponentChildren }) {
  return (
    <button type="button" {...attributes}>
      {text}
    </button>
  );
}

/** A button that shows only an icon; `label` is its name for screen readers. */
export function IconButton({ icon, label, ...attributes }: JSX.ButtonHTMLAttributes & { readonly icon: IconName; readonly label: string }) {
  return <Button {...attributes} aria-label={label} text={<Icon name={icon} />} />;
}

interface ToggleProps extends Omit<JSX.ButtonHTMLAttributes, "onClick" | "onToggle"> {
  readonly text: string;
  readonly isOn: boolean;
  readonly onToggle: (isOn: boolean) => void;
}

export function Toggle({ isOn, onToggle, ...button }: ToggleProps) {
  return <Button {...button} aria-pressed={isOn} onClick={() => onToggle(!isOn)} />;
}

interface LinkProps extends Omit<JSX.AnchorHTMLAttributes, "class"> {
  readonly text: string;
  readonly class?: string;
}

export function ButtonLink({ text, class: name = "", ...attributes }: LinkProps) {
  return (
    <a {...attributes} class={`button ${name}`}>
      {text}
    </a>
  );
}

/** A link to the form for a new resource. Users who may only read do not see it. */
export function CreateLink({ href, text }: { href: string; text: string }) {
  return mayWrite.value ? <ButtonLink class="primary" href={href} text={text} /> : null;
}

function Label({ text, isRequired }: { text: string; isRequired: unknown }) {
  return <span class={isRequired === true ? "required" : undefined}>{text}</span>;
}

interface FieldProps extends Omit<JSX.InputHTMLAttributes, "label" | "onInput" | "onChange"> {
  readonly label: string;
  /** Called for each change while the user types. */
  readonly onType?: (text: string) => void;
  /** Called when the user leaves the changed field. */
  readonly onDone?: (text: string) => void;
}

/** Most fields are for names and expressions, which a browser can neither complete nor spell. */
const PLAIN = { autoComplete: "off", spellcheck: false } as const;

export function Field({ label, onType, onDone, ...attributes }: FieldProps) {
  return (
    <label>
      <Label text={label} isRequired={attributes.required} />
      <input
        {...PLAIN}
        {...attributes}
        onInput={(event) => onType?.(event.currentTarget.value)}
        onChange={(event) => onDone?.(event.currentTarget.value)}
      />
    </label>
  );
}

/** More suggestions than these are neither requested nor shown. */
export const MAX_CHOICES = 200;

interface ChoiceFieldProps extends FieldProps {
  readonly isLabelHidden?: boolean;
  /** Those that contain the typed text are suggested. Other texts are accepted too. */
  readonly choices: readonly string[];
  /** The text, which is replaced if it changes. */
  readonly initial: string;
}

export function ChoiceField({ label, isLabelHidden = false, choices, initial, onType, onDone, ...attributes }: ChoiceFieldProps) {
  const id = useId();
  const typed = useSignal(initial);
  useEffect(() => void (typed.value = initial), [initial]);
  const shown = choices.filter((choice) => choice.includes(typed.value)).slice(0, MAX_CHOICES);
  return (
    <label>
      {isLabelHidden ? <span class="unseen">{label}</span> : <Label text={label} isRequired={attributes.required} />}
      <input
        {...PLAIN}
        {...attributes}
        type="text"
        list={id}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          onType?.(typed.value);
        }}
        onChange={(event) => onDone?.(event.currentTarget.value.trim())}
      />
      <datalist id={id}>
        {shown.map((choice) => (
          <option value={choice} key={choice} />
        ))}
      </datalist>
    </label>
  );
}

export function TextArea({ label, ...attributes }: Labelled<JSX.TextareaHTMLAttributes>) {
  return (
    <label>
      <Label text={label} isRequired={attributes.required} />
      <textarea {...PLAIN} {...attributes} />
    </label>
  );
}

export function Checkbox({ label, ...attributes }: Labelled<JSX.InputHTMLAttributes>) {
  return (
    <label class="check">
      <input type="checkbox" {...attributes} /> <bdi>{label}</bdi>
    </label>
  );
}

/** A value, which is also its text, or a value and its text. */
type Choice<T extends string = string> = T | readonly [value: T, text: string, ...unknown[]];

const valueAndText = <T extends string>(choice: Choice<T>): readonly [value: T, text: string, ...unknown[]] =>
  typeof choice === "string" ? [choice, choice] : choice;

interface SelectProps<T extends string> extends Omit<JSX.SelectHTMLAttributes, "label" | "value" | "onChange"> {
  /** Without it, an `aria-label` is required. */
  readonly label?: string;
  readonly of: readonly Choice<T>[];
  /** The selected value, if the parent controls it. */
  readonly value?: T;
  /** The initially selected value, if the browser keeps the selection. */
  readonly initial?: T | undefined;
  readonly onChoose?: (value: T) => void;
}

export function Select<T extends string>({ label, of, initial, onChoose, ...attributes }: SelectProps<T>) {
  const select = (
    <select
      {...attributes}
      onChange={(event) => {
        const chosen = event.currentTarget.value as T;
        // The list shows the chosen value when `value` has changed; a refused choice does not change it.
        if (attributes.value !== undefined) event.currentTarget.value = attributes.value;
        onChoose?.(chosen);
      }}
    >
      {of.map(valueAndText).map(([value, text]) => (
        <option value={value} key={value} selected={initial === undefined ? undefined : value === initial}>
          {visible(text)}
        </option>
      ))}
    </select>
  );
  if (label === undefined) return select;
  return (
    <label>
      <Label text={label} isRequired={attributes.required} />
      {select}
    </label>
  );
}

interface TabsProps {
  readonly label: string;
  readonly tabs: readonly Choice[];
  readonly chosen: string | undefined;
  readonly onChoose: (name: string) => void;
}

/** A group of buttons, exactly one of which is pressed. */
export function Tabs({ label, tabs, chosen, onChoose }: TabsProps) {
  return (
    <div role="group" aria-label={label} class="tabs">
      {tabs.map(valueAndText).map(([name, text]) => (
        <Button key={name} aria-pressed={name === chosen} onClick={() => onChoose(name)} text={text} />
      ))}
    </div>
  );
}
