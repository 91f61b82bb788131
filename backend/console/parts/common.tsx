// Small components that every screen uses.
import { Button } from "./controls.tsx";
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Loaded } from "../state/loaded.ts";
import { visible } from "./text.ts";

export function Problem({ message, retry }: { message: string | undefined; retry?: (() => void) | undefined }) {
  if (!message) return null;
  return (
    <p class="problem" role="alert">
      <span>{message}</span>
      {retry && <Button onClick={retry} text="Try again" />}
    </p>
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
      <Problem message={of.error.value} retry={of.reload} />
      {!isLoaded && of.busy.value && <p class="quiet">Loading …</p>}
      {isLoaded && (empty ? <div class="empty">{empty}</div> : children)}
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
        {onClose && <Button class="plain" aria-label="Close" onClick={onClose} text="✕" />}
      </header>
      {children}
    </dialog>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
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
    <button type="button" class="small" onClick={() => void copy()}>
      <span aria-live="polite">{isCopied.value ? "Copied" : label}</span>
    </button>
  );
}

/** Text to be copied into a shell. */
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

export interface Column<R> {
  readonly head: ComponentChildren;
  /** The content of a cell. In text, control characters are made visible. */
  readonly cell: (row: R, at: number) => ComponentChildren;
  /** A `name` is the row's heading, a `number` is aligned to the right, a `timestamp` stays on one line. */
  readonly kind?: "name" | "number" | "timestamp";
  readonly class?: string | ((row: R) => string);
}

export interface TableProps<R> {
  /** The name of the table for screen readers. */
  readonly title: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  /** Default: the `id` of the row, or its index. */
  readonly keyOf?: (row: R) => string;
  readonly isChosen?: (row: R) => boolean;
}

/** A table in a frame that scrolls sideways if the table is wider than the window. */
export function Table<R>({ title, rows, columns, keyOf, isChosen }: TableProps<R>) {
  return (
    <div class="wide" tabIndex={0}>
      <table class="rows">
        <caption class="unseen">{title}</caption>
        <thead>
          <tr>
            {columns.map(({ head, kind }, at) => (
              <th scope="col" class={kind === "number" ? kind : ""} key={at}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={keyOf?.(row) ?? (row as { readonly id?: string }).id ?? at} class={isChosen?.(row) ? "is-chosen" : ""}>
              {columns.map((column, index) => (
                <Cell column={column} row={row} at={at} key={index} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<R>({ column, row, at }: { column: Column<R>; row: R; at: number }) {
  const { cell, kind, class: name } = column;
  const content = cell(row, at);
  const shown = typeof content === "string" ? <bdi>{visible(content)}</bdi> : content;
  if (kind === "name") return <th scope="row">{shown}</th>;
  return <td class={[kind, typeof name === "function" ? name(row) : name].filter(Boolean).join(" ")}>{shown}</td>;
}
