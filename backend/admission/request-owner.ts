// Knows for which organisation the current code runs, for queues that are too deep to be told (engines/relational/fair-driver.ts).
// Invariant: work that is done for several organisations together has no owner.
import { AsyncLocalStorage } from "node:async_hooks";

const owners = new AsyncLocalStorage<string>();

/** Calls `work`. It, and everything that it begins, runs for this organisation. */
export function runFor<T>(orgId: string, work: () => T): T {
  return owners.run(orgId, work);
}

/** For work of the backend itself, and of several organisations. */
export const NO_OWNER = "";

/** The organisation whose request is being served. */
export function currentOwner(): string {
  return owners.getStore() ?? NO_OWNER;
}
