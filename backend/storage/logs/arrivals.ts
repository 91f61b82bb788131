// Tells those who follow an organisation's records that some were stored by this process, so that nobody asks in vain. Invariant: what
// nobody follows is not kept.

export class Arrivals {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Calls `told` after each insert; dispose what it answers to end that. */
  listen(orgId: string, told: () => void): Disposable {
    const listeners = this.#listeners.get(orgId) ?? new Set();
    this.#listeners.set(orgId, listeners.add(told));
    return {
      [Symbol.dispose]: () => {
        listeners.delete(told);
        if (listeners.size === 0 && this.#listeners.get(orgId) === listeners) this.#listeners.delete(orgId);
      },
    };
  }

  tell(orgId: string): void {
    for (const told of this.#listeners.get(orgId) ?? []) told();
  }
}
