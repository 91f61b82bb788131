// Loads the data of a screen: if the request key changes, the earlier request is aborted and a new one is sent. Invariant: a response is
// shown only while its key is current. While the next request runs, the last response stays; if that request fails, a response for another
// key is cleared, but one for the same key, apart from its `refreshPart`, stays, because it is the latest known.
import { computed, signal, type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { errorMessage } from "./api.ts";

const pending = signal(0);
/** Value of the attribute `data-loading`: empty while the screen waits for a response, else absent. Refreshes by a timer do not count. */
export const loadingAttribute = computed(() => (pending.value > 0 ? "" : undefined));

/** Counts as loading until `work` ends. */
export async function whileLoading<T>(work: Promise<T>): Promise<T> {
  pending.value++;
  try {
    return await work;
  } finally {
    pending.value--;
  }
}

const REFRESH = /⟳\d+/g;

/** The part of a request key that a refresh changes: another number sends the request again, but asks for the same. */
export function refreshPart(count: number): string {
  return `⟳${count}`;
}

export interface Loaded<T> {
  readonly value: ReadonlySignal<T | undefined>;
  readonly error: ReadonlySignal<string | undefined>;
  readonly busy: ReadonlySignal<boolean>;
  /** When `value` was loaded. */
  readonly loadedAt: ReadonlySignal<number | undefined>;
  readonly reload: () => void;
}

interface LoadOptions {
  /** The request is repeated while the page is visible. */
  readonly refreshMs?: number;
  /** The screen does not count as loading during the request. */
  readonly isBackground?: boolean;
}

/** `requestKey`: another key sends another request; undefined sends none. */
export function useLoaded<T>(
  requestKey: string | undefined,
  load: (signal: AbortSignal) => Promise<T>,
  { refreshMs, isBackground = false }: LoadOptions = {},
): Loaded<T> {
  const [{ value, error, busy, loadedAt, refreshes }] = useState(() => ({
    value: signal<T | undefined>(undefined),
    error: signal<string | undefined>(undefined),
    busy: signal(false),
    loadedAt: signal<number | undefined>(undefined),
    refreshes: signal(0),
  }));
  const latestLoad = useRef(load);
  latestLoad.current = load;
  const reloads = refreshes.value;
  const loadedKey = useRef<string | undefined>(undefined);
  // Before the browser paints: otherwise a frame could show the old response for a new key without counting as loading.
  useLayoutEffect(() => {
    if (requestKey === undefined) return undefined;
    const abort = new AbortController();
    const run = async (): Promise<void> => {
      busy.value = true;
      try {
        const response = await latestLoad.current(abort.signal);
        if (abort.signal.aborted) return;
        value.value = response;
        loadedAt.value = Date.now();
        loadedKey.current = requestKey.replace(REFRESH, "");
        error.value = undefined;
      } catch (failure) {
        if (abort.signal.aborted) return;
        if (loadedKey.current !== requestKey.replace(REFRESH, "")) value.value = undefined;
        error.value = errorMessage(failure);
      } finally {
        if (!abort.signal.aborted) busy.value = false;
      }
    };
    void (isBackground ? run() : whileLoading(run()));
    const timer = refreshMs === undefined ? undefined : setInterval(() => void (document.hidden || busy.peek() || run()), refreshMs);
    return () => {
      clearInterval(timer);
      abort.abort();
      busy.value = false;
    };
  }, [requestKey, reloads, refreshMs]);
  return { value, error, busy, loadedAt, reload: () => void refreshes.value++ };
}

const PAUSE_MS = 500;

/** Returns the typed text as of the last pause in typing, so that a request is sent after a pause and not for each key. */
export function useDebounced(text: string): string {
  const debounced = useSignal(text);
  useEffect(() => {
    const timer = setTimeout(() => (debounced.value = text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return debounced.value;
}
