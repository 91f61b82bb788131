// Hashes and verifies passwords with Argon2id, in a fair queue because each hash costs 19 MiB and a thread of the pool; and slows down
// guessing: after a few failed logins to one account from one network, that pair must wait, doubling each time. Invariants: an unknown user
// costs the same work as a known one. At most two hashes are computed at once; a request waits only for requests of its own organisation or
// client network, and nothing is computed for a client that has disconnected. Only failures of the same pair count, so attempts of others
// never delay a user; failures at other replicas count too (login-failures.ts). Memory is limited.
import { randomBytes } from "node:crypto";
import { hash, type Options, verify } from "@node-rs/argon2";
import type { FastifyReply, FastifyRequest } from "fastify";
import {
  MAX_LOGIN_PAIRS,
  MAX_LOGIN_WAIT_MS,
  MAX_LOGINS_IN_FLIGHT,
  MAX_RUNNING_HASHES,
  MAX_SUCCEEDED_PAIRS,
  MAX_WAITING_HASHES,
  MAX_WAITING_HASHES_PER_CLIENT,
} from "../auth-limits.ts";
import { orgOf } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import { goneSignal, networkOf } from "../../http/http-client.ts";
import { type Failures, FORGET_AFTER_MS, type LoginFailures } from "./login-failures.ts";

/** OWASP Password Storage Cheat Sheet: Argon2id (the default of the library) with m=19 MiB, t=2, p=1. */
const PARAMETERS: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

export const PASSWORD_SCHEMA = { type: "string", minLength: 8, maxLength: 256 } as const;

export function newPassword(): string {
  return randomBytes(18).toString("base64url");
}

export async function hashPassword(password: string): Promise<string> {
  return await hash(password, PARAMETERS);
}

let decoy: Promise<string> | undefined;

/** Whether the password is correct. Without a hash (unknown user, or one without a password) it does the same work and returns false. */
export async function passwordMatches(passwordHash: string | undefined, password: string): Promise<boolean> {
  const known = passwordHash !== undefined;
  const matches = await verify(known ? passwordHash : await decoyHash(), password, PARAMETERS);
  return known && matches;
}

/** Computed before the first login, so that the first unknown user does not cost a second hash. */
export async function decoyHash(): Promise<string> {
  decoy ??= hashPassword("a password that no user has");
  return await decoy;
}

export class HashQueue {
  readonly #queue = new FairQueue({
    running: MAX_RUNNING_HASHES,
    endsSoon: true,
    waitingPerOrg: MAX_WAITING_HASHES_PER_CLIENT,
    waitingInAll: MAX_WAITING_HASHES,
    fullMessage: "too many passwords are waiting to be hashed: try again",
  });

  /**
   * Runs `work` when a slot is free. Throws ApiError `unavailable` if too many requests of the same client are waiting, ClientGoneError if
   * the client has disconnected. `rank`: the order among requests of one network (FairQueue.run).
   */
  async run<T>(request: FastifyRequest, reply: FastifyReply, work: () => Promise<T>, rank?: number): Promise<T> {
    return await this.#queue.run(orgOf(request) ?? networkOf(request.ip), goneSignal(reply), work, rank);
  }
}

const FREE_FAILURES = 5;
const FIRST_WAIT_MS = 1_000;

interface Pair {
  failures: number;
  lastFailureMs: number;
  inFlight: number;
}

export class LoginBackoff {
  readonly #now: () => number;
  readonly #failures: LoginFailures | undefined;
  readonly #pairs = new Map<string, Pair>();
  /** Entries in the order of their last successful login. */
  readonly #succeeded = new Set<string>();

  /** `failures`: the counts of all replicas. */
  constructor(now: () => number = Date.now, failures?: LoginFailures) {
    this.#now = now;
    this.#failures = failures;
  }

  /** Milliseconds until this pair may try again. 0: the attempt has begun, and `end` must be called. */
  begin(email: string, address: string): number {
    const key = pairKey(email, address);
    const pair = this.#forgetOldFailures(this.#pairs.get(key));
    const waitMs = waitMsAfter(pair, this.#now());
    if (waitMs > 0) return waitMs;
    if (pair.inFlight >= MAX_LOGINS_IN_FLIGHT) return FIRST_WAIT_MS;
    pair.inFlight++;
    this.#rememberPair(key, pair);
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

  /**
   * Runs one attempt, which counts for all replicas: `check` resolves to undefined if the credential is wrong. If the pair has to wait,
   * throws ApiError `login_backoff` with `refusal` instead.
   */
  async attempt<T>(email: string, address: string, refusal: string, check: () => Promise<T | undefined>): Promise<T | undefined> {
    const refuse = (ms: number): void => {
      if (ms > 0) throw new ApiError("login_backoff", refusal, { retryAfterS: ms / 1000 });
    };
    refuse(this.begin(email, address));
    const key = pairKey(email, address);
    let outcome: "right" | "wrong" | "undecided" = "undecided";
    try {
      const before = await this.#failures?.read(key);
      if (before) refuse(this.#applyFailures(key, before));
      const checked = await check();
      outcome = checked === undefined ? "wrong" : "right";
      if (outcome === "wrong") await this.#failures?.add(key);
      else if (before && before.failures > 0) await this.#failures?.clear(key);
      return checked;
    } finally {
      this.end(email, address, outcome);
    }
  }

  /** Applies the failures that other replicas have counted. Returns the milliseconds until the pair may try again. */
  #applyFailures(key: string, { failures, lastFailureMs }: Failures): number {
    const pair = this.#pairs.get(key);
    if (!pair || failures <= pair.failures) return 0;
    Object.assign(pair, { failures, lastFailureMs });
    return waitMsAfter(pair, this.#now());
  }

  #forgetOldFailures(pair: Pair | undefined): Pair {
    if (!pair) return { failures: 0, lastFailureMs: 0, inFlight: 0 };
    if (this.#now() - pair.lastFailureMs > FORGET_AFTER_MS) pair.failures = 0;
    return pair;
  }

  #rememberSuccess(key: string): void {
    this.#succeeded.delete(key);
    this.#succeeded.add(key);
    if (this.#succeeded.size > MAX_SUCCEEDED_PAIRS) this.#succeeded.delete(this.#succeeded.values().next().value ?? "");
  }

  #rememberPair(key: string, pair: Pair): void {
    this.#pairs.delete(key);
    this.#pairs.set(key, pair);
    if (this.#pairs.size > MAX_LOGIN_PAIRS) this.#pairs.delete(this.#pairs.keys().next().value ?? "");
  }
}

function waitMsAfter(pair: Pair, nowMs: number): number {
  if (pair.failures < FREE_FAILURES) return 0;
  const waitMs = Math.min(MAX_LOGIN_WAIT_MS, FIRST_WAIT_MS * 2 ** (pair.failures - FREE_FAILURES));
  return Math.max(0, pair.lastFailureMs + waitMs - nowMs);
}

function pairKey(email: string, address: string): string {
  return `${networkOf(address)} ${email}`;
}
