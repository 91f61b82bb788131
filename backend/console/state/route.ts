// Stores the current screen and all selections on it in the URL fragment, so that users can share URLs and use the browser's back button.
// Invariants: a screen has no other state; the fragment is never sent to the server.
import { computed, signal } from "@preact/signals";

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

/** Parameter values; a list if a parameter occurs several times. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Builds a URL within the console, for `href`. Omits empty and undefined values. */
export function address(screen: string, query: Query = {}, id?: string): string {
  const parameters = Object.entries(query).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value): [string, string][] => (value ? [[name, value]] : [])),
  );
  const search = parameters.length > 0 ? `?${new URLSearchParams(parameters)}` : "";
  return `#/${encodeURIComponent(screen)}${id ? `/${encodeURIComponent(id)}` : ""}${search}`;
}

/** Opens a URL within the console. `replace`: does not add an entry to the browser's history. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.hash) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  fragment.value = to;
}

/** Changes the given parameters of this screen and keeps all others. */
export function choose(changed: Query, options?: { replace?: boolean }): void {
  const { screen, id, query } = route.peek();
  const before = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  go(address(screen, { ...before, ...changed }, id), options);
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
