// Something that is sent when somebody asks for it. Invariants: while it is under way it is not sent again; a refusal becomes words, which
// the next try takes away.
import { useSignal } from "@preact/signals";
import { wordsOf } from "./api.ts";

export interface Sending<A extends unknown[]> {
  readonly send: (...args: A) => Promise<void>;
  readonly isBusy: boolean;
  /** Why the last try was refused. */
  readonly error: string | undefined;
}

/** `work` throws words for whoever asked. */
export function useSending<A extends unknown[]>(work: (...args: A) => Promise<void>): Sending<A> {
  const error = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const send = async (...args: A): Promise<void> => {
    if (isBusy.peek()) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await work(...args);
    } catch (failure) {
      error.value = wordsOf(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return { send, isBusy: isBusy.value, error: error.value };
}

/** Reads the text fields of a form by name; a missing field is empty. */
export function typedIn(form: HTMLFormElement): (name: string) => string {
  const data = new FormData(form);
  return (name) => {
    const value = data.get(name);
    return typeof value === "string" ? value : "";
  };
}
