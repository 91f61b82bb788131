// Small components that every screen uses.
import { Button, IconButton } from "./controls.tsx";
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Loaded } from "../state/loaded.ts";
import { timeText } from "../state/time.ts";
import { mayLeave } from "../state/unsaved.ts";
import { Icon, type IconName } from "./icons.tsx";
import { visible } from "./text.ts";

interface ProblemProps {
  readonly message: string | undefined;
  readonly retry?: (() => void) | undefined;
  /** When the data that is still shown was loaded, if the request that failed was to refresh it. */
  readonly shownSince?: number | undefined;
}

export function Problem({ message, retry, shownSince }: ProblemProps) {
  if (!message) return null;
  return (
    <p class="problem" role="alert">
      <Icon name="warning" />
      <span>
        {message}
        {shownSince !== undefined && ` Showing the data of ${timeText(new Date(shownSince), { withMs: false })}.`}
      </span>
      {retry && <Button class="small" onClick={retry} text="Try again" />}
    </p>
  );
}

export type Tone = "error" | "warn" | "good" | "info";

/** A state or a short fact. */
export function Chip({ tone, text, title }: { tone?: Tone | undefined; text: string; title?: string | undefined }) {
  return (
    <span class={`chip ${tone ? `is-${tone}` : ""}`} title={title}>
      <bdi>{visible(text)}</bdi>
    </span>
  );
}

/** Grey bars in place of what is loading. */
export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div class="skeleton">
      <span class="unseen">Loading …</span>
      {Array.from({ length: lines }, (_, at) => (
        <div key={at} />
      ))}
    </div>
  );
}

interface StatusProps {
  readonly of: Loaded<unknown>;
  /** Shown instead of the children if it is not falsy. */
  readonly empty?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** Shows that a request is running, or its error. The children show its result. */
export function Status({ of, empty, children }: StatusProps) {
  const isLoaded = of.value.value !== undefined;
  return (
    <>
      <Problem message={of.error.value} retry={of.reload} shownSince={isLoaded ? of.loadedAt.value : undefined} />
      {!isLoaded && of.busy.value && <Skeleton />}
      {isLoaded && (empty ? <div class="empty">{empty}</div> : children)}
    </>
  );
}

/** A native modal dialog; Escape closes it. An element with `data-first` gets the focus. */
export function Dialog({ title, onClose, children }: { title: string; onClose?: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  const close = (): void => {
    const dialog = element.current;
    if (!dialog?.isConnected) return;
    if (onClose && mayLeave(dialog)) onClose();
    // A browser closes a dialog at the second Escape without asking.
    else if (!dialog.open) dialog.showModal();
  };
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
    dialog?.querySelector<HTMLElement>("[data-first]")?.focus();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClose={close}
    >
      <header>
        <h2>{title}</h2>
        {onClose && <IconButton icon="close" class="plain" label="Close" onClick={close} />}
      </header>
      {children}
    </dialog>
  );
}

/** `icon`: shown instead of the label. */
export function Copy({ text, label = "Copy", icon }: { text: string; label?: string; icon?: IconName }) {
  const isCopied = useSignal(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      isCopied.value = true;
      setTimeout(() => (isCopied.value = false), 2000);
    } catch {
      // Without a secure context there is no clipboard: the text can be selected by hand.
      isCopied.value = false;
    }
  };
  return (
    <button type="button" class={icon ? "square" : "small"} title={icon && label} onClick={() => void copy()}>
      {icon && <Icon name={isCopied.value ? "check" : icon} />}
      <span class={icon && "unseen"} aria-live="polite">
        {isCopied.value ? "Copied" : label}
      </span>
    </button>
  );
}

export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <figure class="command">
      <figcaption>
        {label} <Copy text={text} />
      </figcaption>
      <pre tabIndex={0}>{text}</pre>
    </figure>
  );
}

interface FactsProps {
  /** A name with its value; entries that are not true are left out. */
  readonly of: readonly (readonly [name: ComponentChildren, value: ComponentChildren] | false | "" | null | undefined)[];
  readonly class?: string;
}

/** Names above their values, or next to them with the class `keys`. */
export function Facts({ of, class: name = "facts" }: FactsProps) {
  return (
    <dl class={name}>
      {of.map(
        (fact, at) =>
          fact && (
            <div key={at}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** Text that a sender wrote: control characters are made visible, and its direction does not affect the surrounding text. */
export function SenderText({ text, class: name }: { text: string; class?: string }) {
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
