// The dialog before a resource is removed. Invariant: it names the consequences; if the backend refuses, the message is shown and the resource stays.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Dialog, Problem } from "./common.tsx";
import { call, wordsOf } from "../state/api.ts";

export interface RemovalProps {
  /** Path of the DELETE request. */
  readonly path: string;
  readonly title: string;
  /** Verb on the button. */
  readonly verb?: string;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
  readonly onRemoved: () => void;
}

export function Removal({ path, title, verb = "Remove", children, onClose, onRemoved }: RemovalProps) {
  const error = useSignal<string | undefined>(undefined);
  const remove = async (): Promise<void> => {
    try {
      await call(path, { method: "DELETE" });
      onClose();
      onRemoved();
    } catch (failure) {
      error.value = wordsOf(failure);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{children}</p>
      <Problem words={error.value} />
      <div class="actions">
        <button type="button" onClick={onClose}>
          Keep it
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
