// A request that the user starts, such as saving a form. Invariants: it is not sent again while it runs; a refusal is shown as a message
// until the next try.
import { useSignal } from "@preact/signals";
import { wordsOf } from "./api.ts";

export interface Sending<A extends unknown[]> {
  readonly send: (...args: A) => Promise<void>;
  readonly isBusy: boolean;
  /** Why the last try was refused. */
  readonly error: string | undefined;
}

/** `work` throws an Error whose message is shown to the user. */
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
