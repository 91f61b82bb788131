// Where the reader is: the screen, what it shows, and every choice that was made on it, all in the fragment of the address. So an address
// can be shared, and the browser's back button works. Invariant: nothing else keeps the state of a screen; the server never sees it.
import { computed, signal } from "@preact/signals";

export interface Route {
  /** `logs`, `traces`, …; the first part of the path. */
  readonly screen: string;
  /** The second part: of which thing. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const fragment = signal(location.hash);
window.addEventListener("hashchange", () => (fragment.value = location.hash));

export const route = computed(() => routeOf(fragment.value));

export function routeOf(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [screen = "", id] = path.split("/").map(decoded);
  return { screen: screen || "fleet", id: id || undefined, query: new URLSearchParams(query) };
}

/** An address within the console, for `href`. Empty and absent values are left out. */
export function address(screen: string, query: Record<string, string | undefined> = {}, id?: string): string {
  const kept = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const asked = kept.length > 0 ? `?${new URLSearchParams(kept)}` : "";
  return `#/${encodeURIComponent(screen)}${id ? `/${encodeURIComponent(id)}` : ""}${asked}`;
}

/** `replace`: no step of its own for the back button. */
export function go(to: string, { replace = false } = {}): void {
  if (to === location.hash) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  fragment.value = to;
}

/** Changes some choices of this screen and keeps the others. */
export function choose(changed: Record<string, string | undefined>, options?: { replace?: boolean }): void {
  const { screen, id, query } = route.peek();
  go(address(screen, { ...Object.fromEntries(query), ...changed }, id), options);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
