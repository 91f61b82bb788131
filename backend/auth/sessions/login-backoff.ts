// Slows down password guessing: after a few failed logins to one account from one network, that pair must wait, doubling each time.
// Invariant: only failures of the same pair count, so attempts of others never delay a user. Memory is limited. Each replica counts
// separately.
import { networkOf } from "../../http/client.ts";
import { MAX_LOGINS_IN_FLIGHT, MAX_LOGIN_PAIRS, MAX_LOGIN_WAIT_MS, MAX_SUCCEEDED_PAIRS } from "../limits.ts";

const FREE_FAILURES = 5;
const FIRST_WAIT_MS = 1_000;
const FORGET_AFTER_MS = 60 * 60_000;

interface Pair {
  failures: number;
  lastFailureMs: number;
  inFlight: number;
}

export class LoginBackoff {
  readonly #now: () => number;
  readonly #pairs = new Map<string, Pair>();
  /** In the order of their last successful login. */
  readonly #succeeded = new Set<string>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Milliseconds until this pair may try again. 0: the attempt has begun, and `end` must be called. */
  begin(email: string, address: string): number {
    const key = pairKey(email, address);
    const pair = this.#fresh(this.#pairs.get(key));
    const waitMs = waitAfter(pair, this.#now());
    if (waitMs > 0) return waitMs;
    if (pair.inFlight >= MAX_LOGINS_IN_FLIGHT) return FIRST_WAIT_MS;
    pair.inFlight++;
    this.#remember(key, pair);
    return 0;
  }

  /**
   * The order in which the attempts of one network are checked; 0 is first. Users may share a network with an attacker who guesses at many
   * accounts, so pairs that have logged in before are first, and pairs with failures or concurrent attempts are last.
   */
  rank(email: string, address: string): number {
    const key = pairKey(email, address);
    const { failures = 0, inFlight = 1 } = this.#pairs.get(key) ?? {};
    return Number(!this.#succeeded.has(key)) + Number(failures >= FREE_FAILURES) + inFlight - 1;
  }

  end(email: string, address: string, outcome: "right" | "wrong" | "undecided"): void {
    const key = pairKey(email, address);
    if (outcome === "right") this.#rememberSuccess(key);
    const pair = this.#pairs.get(key);
    if (!pair) return;
    pair.inFlight = Math.max(0, pair.inFlight - 1);
    if (outcome === "right") pair.failures = 0;
    if (outcome === "wrong") {
      pair.failures++;
      pair.lastFailureMs = this.#now();
    }
    if (pair.failures === 0 && pair.inFlight === 0) this.#pairs.delete(key);
  }

  #fresh(pair: Pair | undefined): Pair {
    if (!pair) return { failures: 0, lastFailureMs: 0, inFlight: 0 };
    if (this.#now() - pair.lastFailureMs > FORGET_AFTER_MS) pair.failures = 0;
    return pair;
  }

  #rememberSuccess(key: string): void {
    this.#succeeded.delete(key);
    this.#succeeded.add(key);
    if (this.#succeeded.size > MAX_SUCCEEDED_PAIRS) this.#succeeded.delete(this.#succeeded.values().next().value ?? "");
  }

  #remember(key: string, pair: Pair): void {
    this.#pairs.delete(key);
    this.#pairs.set(key, pair);
    if (this.#pairs.size > MAX_LOGIN_PAIRS) this.#pairs.delete(this.#pairs.keys().next().value ?? "");
  }
}

function waitAfter(pair: Pair, nowMs: number): number {
  if (pair.failures < FREE_FAILURES) return 0;
  const waitMs = Math.min(MAX_LOGIN_WAIT_MS, FIRST_WAIT_MS * 2 ** (pair.failures - FREE_FAILURES));
  return Math.max(0, pair.lastFailureMs + waitMs - nowMs);
}

function pairKey(email: string, address: string): string {
  return `${networkOf(address)} ${email}`;
}
