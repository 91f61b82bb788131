// Small components that every screen uses.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Loaded } from "../state/loaded.ts";
import { visible } from "./text.ts";

export function Problem({ words, retry }: { words: string | undefined; retry?: (() => void) | undefined }) {
  if (!words) return null;
  return (
    <p class="problem" role="alert">
      <span>{words}</span>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

/** Shows that a request is running, or its error; its result is shown by the children. */
export function Status({ of, empty, children }: { of: Loaded<unknown>; empty?: ComponentChildren; children?: ComponentChildren }) {
  const isFirst = of.value.value === undefined && of.busy.value;
  return (
    <>
      <Problem words={of.error.value} retry={of.reload} />
      {isFirst ? <p class="quiet">Loading …</p> : (children ?? null)}
      {!isFirst && empty && of.value.value !== undefined ? <div class="empty">{empty}</div> : null}
    </>
  );
}

/** A native modal dialog; Escape closes it. */
export function Dialog({ title, onClose, children }: { title: string; onClose?: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
    >
      <header>
        <h2>{title}</h2>
        {onClose && (
          <button type="button" class="plain" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const isDone = useSignal(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      isDone.value = true;
      setTimeout(() => (isDone.value = false), 2000);
    } catch {
      // Without a secure context there is no clipboard: the text can be selected by hand.
      isDone.value = false;
    }
  };
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      <span aria-live="polite">{isDone.value ? "Copied" : label}</span>
    </button>
  );
}

/** Text to be copied into a shell. */
export function Command({ text, label }: { text: string; label: string }) {
  return (
    <figure class="command">
      <figcaption>
        {label} <Copy text={text} />
      </figcaption>
      <pre tabIndex={0}>{text}</pre>
    </figure>
  );
}

/** Text that a sender wrote: control characters are made visible, and its direction does not affect the surrounding text. */
export function Foreign({ text, class: name }: { text: string; class?: string }) {
  return (
    <bdi class={name} dir="auto">
      {visible(text)}
    </bdi>
  );
}

/** A link whose text a sender or a user wrote. */
export function NameLink({ href, text }: { href: string; text: string }) {
  return (
    <a href={href}>
      <bdi>{visible(text)}</bdi>
    </a>
  );
}

/** A value, or a value with its text. */
type Choice = string | readonly [value: string, text: string, ...unknown[]];

const textOf = (choice: Choice): readonly [value: string, text: string, ...unknown[]] =>
  typeof choice === "string" ? [choice, choice] : choice;

export interface TabsProps {
  readonly label: string;
  readonly tabs: readonly Choice[];
  readonly chosen: string | undefined;
  readonly onChoose: (name: string) => void;
}

/** A group of buttons, exactly one of which is pressed. */
export function Tabs({ label, tabs, chosen, onChoose }: TabsProps) {
  return (
    <div role="group" aria-label={label} class="tabs">
      {tabs.map(textOf).map(([name, text]) => (
        <button type="button" key={name} aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** The choices of a `select`. `chosen`: the initial value of a form's field; a `select` with its own `value` leaves it out. */
export function Options({ of, chosen }: { of: readonly Choice[]; chosen?: string }) {
  return (
    <>
      {of.map(textOf).map(([value, text]) => (
        <option value={value} key={value} selected={chosen === undefined ? undefined : value === chosen}>
          {visible(text)}
        </option>
      ))}
    </>
  );
}

export interface TableProps {
  readonly title: string;
  readonly heads: readonly ComponentChildren[];
  readonly children: ComponentChildren;
}

/** A table with column heads, a caption for screen readers, and a frame that scrolls sideways if it is wider than the window. */
export function Table({ title, heads, children }: TableProps) {
  return (
    <div class="wide" tabIndex={0}>
      <table class="rows">
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            {heads.map((head, at) => (
              <th scope="col" key={at}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
