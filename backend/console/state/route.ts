// Stores the current screen and all selections on it in the URL fragment, so that users can share URLs and use the browser's back button.
// Invariants: a screen has no other state; the fragment is never sent to the server.
import { computed, signal } from "@preact/signals";
import { consoleAddress, type ConsoleQuery } from "../../client/console-address.ts";

export interface Route {
  /** First segment of the path, such as `logs` or `traces`. */
  readonly screen: string;
  /** Second segment of the path: the id or name of a resource. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const fragment = signal(location.hash);
window.addEventListener("hashchange", () => (fragment.value = location.hash));

export const route = computed(() => parseRoute(fragment.value));

function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen = "", id] = path.split("/").map(decodeSegment);
  return { screen: screen || "overview", id: id || undefined, query: new URLSearchParams(query) };
}

export { consoleAddress as address };

/** Opens a URL within the console. `replace`: does not add an entry to the browser's history. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.hash) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  fragment.value = to;
}

/** Changes the given parameters of this screen and keeps all others. */
export function choose(changed: ConsoleQuery, options?: { replace?: boolean }): void {
  const { screen, id, query } = route.peek();
  const before = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  go(consoleAddress(screen, { ...before, ...changed }, id), options);
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
