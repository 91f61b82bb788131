// Knows for whom the current code runs, for queues that are too deep to be told (engines/relational/fair-driver.ts): an organisation, or one
// network of clients without a credential.
// Invariant: work that is done for several organisations together has no owner.
import { AsyncLocalStorage } from "node:async_hooks";

const owners = new AsyncLocalStorage<string>();

/** Calls `work`. It, and everything that it begins, runs for this owner. */
export function runFor<T>(owner: string, work: () => T): T {
  return owners.run(owner, work);
}

/** For work of the backend itself, and of several organisations. */
export const NO_OWNER = "";

/** The owner of the request that is being served. */
export function currentOwner(): string {
  return owners.getStore() ?? NO_OWNER;
}
