// The rule by which organisations share slots and memory, and what each of them used recently. Invariant: n organisations that take what
// they may leave 1/(n + 1) or more to the next one, so none of them shuts out another.

/** Whether an owner that already uses `own` may take `amount` more: as much stays free as it already uses. */
export function mayTake(
  amount: number,
  { limit, used, own }: { readonly limit: number; readonly used: number; readonly own: number },
): boolean {
  return own <= limit - used - amount;
}

/** The time that is meant by "the last minute". */
export const WINDOW_MS = 60_000;
const FORGOTTEN_MS = 1;
const MAX_REMEMBERED = 1000;

/** The slot time that each owner used in about the last minute. Earlier use fades. */
export class RecentUse {
  readonly #byOwner = new Map<string, { readonly usedMs: number; readonly atMs: number }>();

  add(owner: string, usedMs: number, nowMs: number): void {
    this.#byOwner.set(owner, { usedMs: this.of(owner, nowMs) + usedMs, atMs: nowMs });
    if (this.#byOwner.size <= MAX_REMEMBERED) return;
    for (const each of this.#byOwner.keys()) if (this.of(each, nowMs) < FORGOTTEN_MS) this.#byOwner.delete(each);
  }

  of(owner: string, nowMs: number): number {
    const use = this.#byOwner.get(owner);
    return use ? use.usedMs * Math.exp((use.atMs - nowMs) / WINDOW_MS) : 0;
  }
}
