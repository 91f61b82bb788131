// A login by a code that is good once, for who started this backend on this machine (../start-channel.ts). Invariant: one code is good at
// a time, for ten minutes and one use; only its hash is kept, and nothing here writes it anywhere.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

const GOOD_FOR_MS = 10 * 60_000;
/** More than anybody could try. */
const CODE_BYTES = 32;

export class OneTimeLogin {
  readonly #now: () => number;
  #good: { readonly hash: Buffer; readonly untilMs: number } | undefined;

  /** `now`: milliseconds of a clock that does not jump. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** A new code; the one before is good no more. */
  mint(): string {
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#good = { hash: hashOf(code), untilMs: this.#now() + GOOD_FOR_MS };
    return code;
  }

  /** Whether it is the good one, which then is good no more. Of two that come at once one is answered true. */
  take(code: string): boolean {
    const good = this.#good;
    if (!good || this.#now() >= good.untilMs || !timingSafeEqual(hashOf(code), good.hash)) return false;
    this.#good = undefined;
    return true;
  }
}

function hashOf(code: string): Buffer {
  return createHash("sha256").update(code).digest();
}
