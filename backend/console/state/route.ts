// Stores the current screen, what it shows, and every choice on it in the fragment of the address, so that an address can be shared and the
// browser's back button works. Invariants: a screen has no other state; the server never sees it.
import { computed, signal } from "@preact/signals";

export interface Route {
  /** `logs`, `traces`, …; the first part of the path. */
  readonly screen: string;
  /** The second part: the id or name of the resource. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const fragment = signal(location.hash);
window.addEventListener("hashchange", () => (fragment.value = location.hash));

export const route = computed(() => routeOf(fragment.value));

export function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen = "", id] = path.split("/").map(decoded);
  return { screen: screen || "overview", id: id || undefined, query: new URLSearchParams(query) };
}

/** Values of parameters; a list for one that occurs several times. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** An address within the console, for `href`. Empty and absent values are omitted. */
export function address(screen: string, query: Query = {}, id?: string): string {
  const kept = Object.entries(query).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value): [string, string][] => (value ? [[name, value]] : [])),
  );
  const asked = kept.length > 0 ? `?${new URLSearchParams(kept)}` : "";
  return `#/${encodeURIComponent(screen)}${id ? `/${encodeURIComponent(id)}` : ""}${asked}`;
}

/** `replace`: does not add an entry to the browser's history. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.hash) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  fragment.value = to;
}

/** Changes some choices of this screen and keeps the others. */
export function choose(changed: Query, options?: { replace?: boolean }): void {
  const { screen, id, query } = route.peek();
  const before = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  go(address(screen, { ...before, ...changed }, id), options);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
