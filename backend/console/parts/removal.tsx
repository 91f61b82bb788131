// A button that removes a resource after a confirmation. Invariants: the dialog names the consequences; if the backend refuses, the message
// is shown and the resource stays.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Dialog, Problem } from "./common.tsx";
import { call } from "../state/api.ts";
import { useSending } from "../state/sending.ts";

export interface RemovalProps {
  /** Text of the button. */
  readonly label: string;
  /** For screen readers, if several buttons have the same label. */
  readonly fullLabel?: string;
  readonly class?: string;
  /** Path of the DELETE request. */
  readonly path: string;
  readonly title?: string;
  /** Verb on the button of the dialog. */
  readonly verb?: string;
  /** The consequences. */
  readonly children: ComponentChildren;
  /** Called after the removal; returns the address to open, if any. */
  readonly onRemoved: () => string | void;
}

export function Removal({
  label,
  fullLabel,
  class: name = "danger",
  path,
  title = "Remove?",
  verb = "Remove",
  children,
  onRemoved,
}: RemovalProps) {
  const isAsked = useSignal(false);
  const { send, error } = useSending(async () => {
    await call(path, { method: "DELETE" });
    isAsked.value = false;
    return onRemoved();
  });
  const close = (): void => void (isAsked.value = false);
  return (
    <>
      <button type="button" class={name} aria-label={fullLabel} onClick={() => (isAsked.value = true)}>
        {label}
      </button>
      {isAsked.value && (
        <Dialog title={title} onClose={close}>
          <p>{children}</p>
          <Problem words={error} />
          <div class="actions">
            <button type="button" onClick={close}>
              Keep it
            </button>
            <button type="button" class="danger" onClick={() => void send()}>
              {verb}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
