// Decides how long an agent waits before it uses a refused key again: without a pause, the agents of one removed cluster of 1,000 nodes would
// send about 1,900 requests per second forever. The proxy and heartbeats share it. Invariants: another key is used at once; while a key is
// refused, one request at a time tries it; the pause never exceeds MAX_PAUSE_MS.
import { KEY_REFUSED_CODES } from "../../common/protocol/enrolment.ts";
import type { Credential } from "../credentials/credential-store.ts";

const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5 * 60_000;
/**
 * The pause is a quarter of the time since the first refusal, up to MAX_PAUSE_MS: the end of a refusal of 20 minutes is detected within 5
 * minutes.
 */
const PAUSE_SHARE = 0.25;
/** Time limit of a request that tries a refused key. */
const TRIAL_MS = 30_000;

/** True if the backend refused the key itself, regardless of the request. */
export function isKeyRefusal(status: number, code: string | undefined): boolean {
  return status === 401 && (KEY_REFUSED_CODES as readonly (string | undefined)[]).includes(code);
}

export class RefusedKey {
  readonly #nowMs: () => number;
  #refused: { readonly apiKey: string; readonly sinceMs: number; untilMs: number; readonly reason: string } | undefined;

  /** `nowMs`: monotonic. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Returns why and for how long this key must not be used; undefined if it may be used now. */
  pause({ apiKey }: Credential): { readonly waitMs: number; readonly reason: string } | undefined {
    const refused = this.#refused;
    if (refused?.apiKey !== apiKey) return undefined;
    const waitMs = refused.untilMs - this.#nowMs();
    return waitMs > 0 ? { waitMs, reason: refused.reason } : undefined;
  }

  /** Call when a request with this key begins: if the key is refused, other requests wait for its outcome. */
  begin({ apiKey }: Credential): void {
    if (this.#refused?.apiKey === apiKey) this.#refused.untilMs = this.#nowMs() + TRIAL_MS;
  }

  /** Call when the backend refused the key itself. `reason`: its code and message. */
  refused({ apiKey }: Credential, reason: string): void {
    const nowMs = this.#nowMs();
    const sinceMs = this.#refused?.apiKey === apiKey ? this.#refused.sinceMs : nowMs;
    const pauseMs = Math.min(Math.max((nowMs - sinceMs) * PAUSE_SHARE, MIN_PAUSE_MS), MAX_PAUSE_MS);
    this.#refused = { apiKey, sinceMs, untilMs: nowMs + pauseMs, reason };
  }

  /** Call when the backend accepted the key, or when the request that tried it had another outcome: the next request may try it. */
  answered({ apiKey }: Credential, isAccepted: boolean): void {
    if (this.#refused?.apiKey !== apiKey) return;
    if (isAccepted) this.#refused = undefined;
    else this.#refused.untilMs = Math.min(this.#refused.untilMs, this.#nowMs());
  }
}
