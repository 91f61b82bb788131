// Notifies the tails of an organisation that this process has stored records, so that they do not query in vain. Invariant: an organisation
// without tails takes no memory.

export class Arrivals {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Calls `notify` after each insert, until the result is disposed. */
  listen(orgId: string, notify: () => void): Disposable {
    const listeners = this.#listeners.get(orgId) ?? new Set();
    this.#listeners.set(orgId, listeners.add(notify));
    return {
      [Symbol.dispose]: () => {
        listeners.delete(notify);
        if (listeners.size === 0 && this.#listeners.get(orgId) === listeners) this.#listeners.delete(orgId);
      },
    };
  }

  notify(orgId: string): void {
    for (const listener of this.#listeners.get(orgId) ?? []) listener();
  }
}
