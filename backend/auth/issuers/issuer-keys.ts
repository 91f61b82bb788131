// The current keys of one issuer. They are fetched again once an hour in the background, and immediately for an unknown key id, because
// issuers rotate their keys. Invariant: one issuer gets at most one request in RETRY_AFTER_MS, whatever tokens arrive. While the issuer is
// unreachable, its last keys are used for MAX_KEYS_AGE_MS.
import { createLocalJWKSet, type JWK, type JWTVerifyGetKey } from "jose";
import { MAX_KEYS_AGE_MS } from "../auth-limits.ts";
import type { FetchKeys } from "./key-set.ts";

const REFRESH_AFTER_MS = 3_600_000;
const RETRY_AFTER_MS = 30_000;

export interface IssuerKeysOptions {
  readonly keys: readonly JWK[];
  /** When the keys were fetched; undefined if an administrator gave them. */
  readonly fetchedMs: number | undefined;
  readonly fetchKeys: () => ReturnType<FetchKeys>;
  /** Stores and reports the result of a request. */
  readonly onFetched: (keys: readonly JWK[]) => void;
  readonly onFailed: (error: unknown) => void;
  readonly now: () => number;
}

export class IssuerKeys {
  readonly #options: IssuerKeysOptions;
  #ids = new Set<string>();
  #find: JWTVerifyGetKey = () => {
    throw new Error("no keys");
  };
  #fetchedMs: number | undefined;
  #triedMs = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;

  constructor(options: IssuerKeysOptions) {
    this.#options = options;
    this.#use(options.keys);
    this.#fetchedMs = options.fetchedMs;
  }

  has(kid: string): boolean {
    return this.#ids.has(kid);
  }

  /** Undefined if the issuer has no such key, or is unreachable for too long. */
  async find(kid: string): Promise<JWTVerifyGetKey | undefined> {
    if (this.#fetchedMs === undefined) return this.has(kid) ? this.#find : undefined;
    if (!this.has(kid) || this.#ageMs() >= MAX_KEYS_AGE_MS) await this.#refresh();
    else if (this.#ageMs() >= REFRESH_AFTER_MS) void this.#refresh();
    return this.has(kid) && this.#ageMs() < MAX_KEYS_AGE_MS ? this.#find : undefined;
  }

  #ageMs(): number {
    return this.#options.now() - (this.#fetchedMs ?? 0);
  }

  async #refresh(): Promise<void> {
    if (this.#fetching) return await this.#fetching;
    const nowMs = this.#options.now();
    if (nowMs - this.#triedMs < RETRY_AFTER_MS) return;
    this.#triedMs = nowMs;
    this.#fetching = this.#fetch(nowMs).finally(() => (this.#fetching = undefined));
    await this.#fetching;
  }

  async #fetch(nowMs: number): Promise<void> {
    try {
      const keys = await this.#options.fetchKeys();
      this.#use(keys);
      this.#fetchedMs = nowMs;
      this.#options.onFetched(keys);
    } catch (error) {
      this.#options.onFailed(error);
    }
  }

  #use(keys: readonly JWK[]): void {
    this.#ids = new Set(keys.map(({ kid }) => String(kid)));
    this.#find = createLocalJWKSet({ keys: [...keys] });
  }
}
