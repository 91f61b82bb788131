// How many tails there are, of an organisation and in all. Invariant: neither is passed, and what has ended is not counted.
import { ApiError } from "../../errors.ts";
import { MAX_TAILS, MAX_TAILS_PER_ORG } from "../limits.ts";

const RETRY_AFTER_S = 5;

export class TailCounts {
  readonly perOrg: number;
  readonly #inAll: number;
  readonly #counts = new Map<string, number>();

  constructor({ perOrg = MAX_TAILS_PER_ORG, inAll = MAX_TAILS }: { perOrg?: number; inAll?: number } = {}) {
    this.perOrg = perOrg;
    this.#inAll = inAll;
  }

  /** Throws ApiError too_many_queries and unavailable. */
  enter(orgId: string): void {
    const own = this.#counts.get(orgId) ?? 0;
    if (own >= this.perOrg) {
      const message = `this organisation has ${this.perOrg} tails under way: close one, or ask /query/logs`;
      throw new ApiError("too_many_queries", message, { retryAfterS: RETRY_AFTER_S });
    }
    let all = 0;
    for (const count of this.#counts.values()) all += count;
    if (all >= this.#inAll) throw new ApiError("unavailable", "there are too many tails: try again", { retryAfterS: RETRY_AFTER_S });
    this.#counts.set(orgId, own + 1);
  }

  leave(orgId: string): void {
    const left = (this.#counts.get(orgId) ?? 1) - 1;
    if (left === 0) this.#counts.delete(orgId);
    else this.#counts.set(orgId, left);
  }
}
