// Keys of the whole console: `/` focuses the query line, `g` and a letter opens a screen, `?` shows help. Invariant: except for Ctrl-K and
// Cmd-K, which open the command palette, keys are ignored in fields, while a dialog or a popover is open or loads, and together with Ctrl, Alt or Meta.
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import { address, go } from "./route.ts";
import { SCREENS } from "./screens.ts";

export const isHelpOpen = signal(false);
export const isPaletteOpen = signal(false);
/** What is typed into the palette, also before it is loaded and shown. */
export const paletteText = signal("");
export const isViewsOpen = signal(false);

type Handler = (event: KeyboardEvent) => void;
const screenKeys = new Map<string, Handler>();
let afterG = false;

/** Keys of the current screen, while it is shown; rebuilt if one of `inputs` changes. */
export function useKeys(make: () => Record<string, Handler>, inputs: readonly unknown[]): void {
  // Synchronously with the page, so that a key that is pressed as soon as a row is shown starts from that row.
  useLayoutEffect(() => {
    const keys = Object.entries(make());
    for (const [key, handler] of keys) screenKeys.set(key, handler);
    return () => {
      for (const [key, handler] of keys) if (screenKeys.get(key) === handler) screenKeys.delete(key);
    };
  }, inputs);
}

/** `j` and `k` move to the next and previous row of a list. `at`: the chosen row, -1 for none. */
export function stepKeys(list: { count: () => number; at: () => number; choose: (at: number) => void }): Record<string, Handler> {
  const step = (by: number) => (): void => {
    const count = list.count();
    if (count > 0) list.choose(Math.max(0, Math.min(count - 1, list.at() + by)));
  };
  return { j: step(1), k: step(-1) };
}

export function listenToKeys(): void {
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      isPaletteOpen.value = true;
      return;
    }
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (isPaletteOpen.peek() && !document.querySelector("dialog[open]")) {
      if (event.key.length === 1) paletteText.value += event.key;
      event.preventDefault();
      return;
    }
    if (isTyping(event)) return;
    if (document.querySelector("dialog[open], :popover-open")) return;
    const screen = afterG ? SCREENS.find(({ key }) => key === event.key) : undefined;
    afterG = event.key === "g" && !afterG;
    if (screen) go(address(screen.name));
    else if (event.key === "?") isHelpOpen.value = true;
    else if (event.key === "/") focusQuery();
    else if (!afterG && screenKeys.has(event.key)) screenKeys.get(event.key)?.(event);
    else return;
    event.preventDefault();
  });
}

function isTyping(event: KeyboardEvent): boolean {
  const [target] = event.composedPath();
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function focusQuery(): void {
  document.querySelector<HTMLElement>("[data-query]")?.focus();
}
