// Stores the current screen and all selections on it in the URL fragment, so that users can share URLs and use the browser's back button.
// Invariants: a screen has no other state; the fragment is never sent to the server.
import { computed, signal } from "@preact/signals";
import { consoleAddress, type ConsoleQuery } from "../../client/console-address.ts";
import { mayLeave } from "./unsaved.ts";

export interface Route {
  /** First segment of the path, such as `logs` or `traces`. */
  readonly screen: string;
  /** Second segment of the path: the id or name of a resource. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const fragment = signal(location.hash);
// Links and the browser's own buttons change the address first.
window.addEventListener("hashchange", () => {
  if (location.hash === fragment.peek()) return;
  if (isSameScreen(location.hash, fragment.peek()) || mayLeave()) fragment.value = location.hash;
  else history.pushState(null, "", fragment.peek() || "#/");
});

export const route = computed(() => parseRoute(fragment.value));

function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen = "", id] = path.split("/").map(decodeSegment);
  return { screen: screen || "overview", id: id || undefined, query: new URLSearchParams(query) };
}

export { consoleAddress as address };

/** Parameters of the address that name what a form edits. */
const FORM_PARAMETERS = ["view", "part", "rule", "edit", "channel", "route", "silence", "inhibition_rule", "time_interval"] as const;

/** Whether both show the same resource in the same view, so that a form on it stays. */
function isSameScreen(one: string, other: string): boolean {
  const [a, b] = [parseRoute(one), parseRoute(other)];
  const isKept = (name: string): boolean => a.query.get(name) === b.query.get(name);
  return a.screen === b.screen && a.id === b.id && FORM_PARAMETERS.every(isKept) && (a.screen !== "add" || isKept("kind"));
}

/** Opens a URL within the console. `replace`: does not add an entry to the browser's history. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.hash || (!isSameScreen(to, fragment.peek()) && !mayLeave())) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  fragment.value = to;
}

/** The address of the same screen with the given parameters changed. All others stay, also those that occur several times. */
export function changedAddress({ screen, id, query }: Route, changed: ConsoleQuery): string {
  const before = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  return consoleAddress(screen, { ...before, ...changed }, id);
}

export function choose(changed: ConsoleQuery, options?: { replace?: boolean }): void {
  go(changedAddress(route.peek(), changed), options);
}

/** The address within this console of a link that the backend wrote, which begins with PUBLIC_URL if that is set. */
export function fragmentOf(link: string): string {
  return link.slice(Math.max(0, link.indexOf("#/")));
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
