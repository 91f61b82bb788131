// A button that removes a resource, or replaces its secret, after a confirmation. Invariants: the dialog names the consequences; if the backend refuses, the message
// is shown and the resource stays.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Dialog, Problem } from "./common.tsx";
import { Button } from "./controls.tsx";
import { call } from "../state/api.ts";
import { useSending } from "../state/sending.ts";

export interface RemoveButtonProps {
  /** Text of the button, such as `Remove rule`; the dialog asks `Remove rule?`. */
  readonly label: string;
  /** For screen readers, if several buttons have the same label. */
  readonly fullLabel?: string;
  readonly class?: string;
  readonly path: string;
  readonly method?: "DELETE" | "POST";
  /** Runs before the request, which is not sent if it throws. */
  readonly before?: (() => Promise<void>) | undefined;
  /** The consequences. */
  readonly children: ComponentChildren;
  /** Called with the response; returns the address to open, if any. */
  readonly onRemoved: (response: unknown) => string | void;
}

export function RemoveButton(props: RemoveButtonProps) {
  const { label, fullLabel, class: name = "danger", path, method = "DELETE", before, children, onRemoved } = props;
  const isConfirming = useSignal(false);
  const { send, error } = useSending(async () => {
    await before?.();
    const response = await call(path, { method });
    isConfirming.value = false;
    return onRemoved(response);
  });
  const close = (): void => void (isConfirming.value = false);
  return (
    <>
      <Button class={name} aria-label={fullLabel} onClick={() => (isConfirming.value = true)} text={label} />
      {isConfirming.value && (
        <Dialog title={`${label}?`} onClose={close}>
          <p>{children}</p>
          <Problem message={error} />
          <div class="actions">
            <Button onClick={close} text="Cancel" />
            <Button class="danger" onClick={() => void send()} text={label.split(" ")[0]} />
          </div>
        </Dialog>
      )}
    </>
  );
}
