// Keeps the owner of the current request: its organisation, or the network of a client without a credential. Queues below many layers, such
// as engines/relational/fair-driver.ts, read it here, so that the layers between do not have to pass it on.
// Invariant: work that is done for several organisations together has no owner.
import { AsyncLocalStorage } from "node:async_hooks";

const owners = new AsyncLocalStorage<string>();

/** Calls `work`. It, and everything that it begins, runs for this owner. */
export function runFor<T>(owner: string, work: () => T): T {
  return owners.run(owner, work);
}

/** For work of the backend itself, and of several organisations. */
export const NO_OWNER = "";

export function currentOwner(): string {
  return owners.getStore() ?? NO_OWNER;
}
