// Forms with edits that are not saved. Invariant: while there is one, nothing that leaves its screen happens without a question: a link, the
// browser's buttons, a reload, or closing the tab.
import { useEffect, useState } from "preact/hooks";

const QUESTION = "Discard your unsaved changes?";

const edited = new Set<object>();

export interface Unsaved {
  /** Call at each edit. */
  readonly changed: () => void;
  /** Sends the edits. The user may leave the screen during the request without a question. */
  readonly save: <T>(send: () => Promise<T>) => Promise<T>;
}

/** The edits of one form, while it is shown. */
export function useUnsaved(): Unsaved {
  const form = useForm();
  const changed = (): void => void edited.add(form);
  return {
    changed,
    async save(send) {
      edited.delete(form);
      try {
        return await send();
      } catch (error) {
        changed();
        throw error;
      }
    },
  };
}

function useForm(): object {
  const [form] = useState(() => ({}));
  useEffect(() => () => void edited.delete(form), []);
  return form;
}

/** True if there are no unsaved edits, or the user discards them. */
export function mayLeave(): boolean {
  if (edited.size > 0 && !confirm(QUESTION)) return false;
  edited.clear();
  return true;
}

export function guardUnload(): void {
  window.addEventListener("beforeunload", (event) => {
    if (edited.size > 0) event.preventDefault();
  });
}
