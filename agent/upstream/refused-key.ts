// How long an agent waits before it uses a key again that the backend refuses, as after `atherops clusters remove`: without a pause, the
// agents of one removed cluster of 1,000 nodes send about 1,900 requests per second, for ever. Shared by the proxy and the heartbeat.
// Invariants: another key is used at once; while a key is refused, one request at a time tries it; the pause never exceeds MAX_PAUSE_MS.
import { KEY_REFUSED_CODES } from "../../common/protocol/enrolment.ts";
import type { Credential } from "../credentials/store.ts";

const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 5 * 60_000;
/** A refusal that lasted an hour is noticed as over a quarter of an hour later at most, were it not for MAX_PAUSE_MS. */
const PAUSE_SHARE = 0.25;
/** A request that tries the key has an answer by then. */
const TRIAL_MS = 30_000;

/** The backend said of the key itself that it cannot be used, whatever is sent. */
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

  /** Why and how long not to use this key; undefined if it may be used now. */
  pause({ apiKey }: Credential): { readonly waitMs: number; readonly reason: string } | undefined {
    const refused = this.#refused;
    if (refused?.apiKey !== apiKey) return undefined;
    const waitMs = refused.untilMs - this.#nowMs();
    return waitMs > 0 ? { waitMs, reason: refused.reason } : undefined;
  }

  /** A request with this key begins: if the key is a refused one, others wait for its outcome. */
  begin({ apiKey }: Credential): void {
    if (this.#refused?.apiKey === apiKey) this.#refused.untilMs = this.#nowMs() + TRIAL_MS;
  }

  /** The backend refused the key itself. `reason`: its code and message. */
  refused({ apiKey }: Credential, reason: string): void {
    const nowMs = this.#nowMs();
    const sinceMs = this.#refused?.apiKey === apiKey ? this.#refused.sinceMs : nowMs;
    const pauseMs = Math.min(Math.max((nowMs - sinceMs) * PAUSE_SHARE, MIN_PAUSE_MS), MAX_PAUSE_MS);
    this.#refused = { apiKey, sinceMs, untilMs: nowMs + pauseMs, reason };
  }

  /** The backend accepted the key, or the request that tried it had another outcome: the next one may try. */
  answered({ apiKey }: Credential, isAccepted: boolean): void {
    if (this.#refused?.apiKey !== apiKey) return;
    if (isAccepted) this.#refused = undefined;
    else this.#refused.untilMs = Math.min(this.#refused.untilMs, this.#nowMs());
  }
}
