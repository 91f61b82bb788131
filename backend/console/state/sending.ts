// Requests that the user starts, such as saving a form. Invariants: a request is not sent again while it runs; an error is shown until the
// next attempt; a late response does not navigate a user who has left the form.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { errorMessage } from "./api.ts";
import { go } from "./route.ts";
import { sendEdits } from "./unsaved.ts";

export interface Sending<A extends unknown[]> {
  /** Resolves to false if it failed. */
  readonly send: (...args: A) => Promise<boolean>;
  readonly isBusy: boolean;
  /** Why the last attempt failed. */
  readonly error: string | undefined;
}

/** `work` throws an Error whose message is shown to the user, and resolves to the address to open, if any. */
export function useSending<A extends unknown[]>(work: (...args: A) => Promise<string | void>): Sending<A> {
  const error = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const isShown = useRef(true);
  useEffect(() => () => void (isShown.current = false), []);
  const send = async (...args: A): Promise<boolean> => {
    if (isBusy.peek()) return true;
    isBusy.value = true;
    error.value = undefined;
    try {
      const next = await work(...args);
      // Back would open the form of a resource that now exists, or a removed one.
      if (next && isShown.current) go(next, { replace: true });
      return true;
    } catch (failure) {
      error.value = errorMessage(failure);
      return false;
    } finally {
      isBusy.value = false;
    }
  };
  return { send, isBusy: isBusy.value, error: error.value };
}

/** A handler that sends a form by script, so that the page stays. */
export function submitBy(send: (form: HTMLFormElement) => unknown) {
  return (event: Event & { readonly currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    void sendEdits(event.currentTarget, send);
  };
}

/** Reads the text fields of a form by name; a missing field is empty. */
export function formReader(form: HTMLFormElement): (name: string) => string {
  const data = new FormData(form);
  return (name) => {
    const value = data.get(name);
    return typeof value === "string" ? value : "";
  };
}
