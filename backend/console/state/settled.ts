// What a user types, as of the last pause in typing, so that a request is sent after a pause and not for each key.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

const PAUSE_MS = 500;

export function useSettled(text: string): string {
  const settled = useSignal(text);
  useEffect(() => {
    const timer = setTimeout(() => (settled.value = text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled.value;
}
