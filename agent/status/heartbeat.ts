// Sends heartbeats, so that the backend shows the host or node as online. Invariants: heartbeats of many agents are spread (jitter); an outage
// is logged when it begins and ends, not for each heartbeat; if the key is refused, the agent reads it again and repeats the heartbeat once. A
// delay that the backend requests (429) is not an outage, unless the node would be shown as offline.
import { Loop, spread } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { Credential } from "../credentials/credential-store.ts";
import type { Log } from "../log.ts";
import type { Heartbeat } from "../../common/protocol/enrolment.ts";
import { BackendError, type BackendApi } from "../upstream/backend-api.ts";
import type { RefusedKey } from "../upstream/refused-key.ts";
import type { AgentIdentity } from "../identity/identity.ts";

export interface HeartbeatOptions {
  /** CLUSTER_HEARTBEAT_PATH or HOST_HEARTBEAT_PATH. */
  readonly path: string;
  readonly identity: AgentIdentity;
  readonly backend: Pick<BackendApi, "heartbeat">;
  /** Evaluated before each heartbeat, because remote configuration may change it. */
  readonly intervalMs: () => number;
  readonly body: () => Heartbeat | Promise<Heartbeat>;
  /** Called when a response names the organisation of the identity `id`. */
  readonly onOrg?: (id: string, org: string) => void;
  /** Without it, a refused key is used for each heartbeat. */
  readonly refusedKey?: RefusedKey | undefined;
  readonly log: Log;
}

export interface HeartbeatStatus {
  /** RFC 3339; null until the first success. */
  readonly lastSuccess: string | null;
  readonly lastError: string | null;
}

/** How often an agent without a key checks for one. */
const NO_KEY_POLL_MS = 250;
/** How often an agent with a refused key checks for another one. */
const REFUSED_KEY_POLL_MS = 1000;
/** The backend shows a node as offline after this many silent intervals. */
const SILENT_INTERVALS = 3;
const DEFAULT_RETRY_AFTER_S = 5;

export class HeartbeatLoop implements AsyncDisposable {
  readonly #options: HeartbeatOptions;
  readonly #outage: Outage<string>;
  readonly #loop: Loop;
  #lastSuccess: string | null = null;
  /** Total delay that the backend has requested since the last success. */
  #delayedMs = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#outage = new Outage({
      began: (message) =>
        options.log.warn({ event: "heartbeat.failed", err: message }, "a heartbeat failed; retrying at the next interval"),
      ended: () => options.log.info({ event: "heartbeat.recovered" }, "recovered: heartbeats succeed"),
    });
    this.#loop = new Loop({
      step: async (signal) => {
        const credential = options.identity.current();
        const pause = credential && options.refusedKey?.pause(credential);
        if (!credential || pause) return Math.min(pause?.waitMs ?? NO_KEY_POLL_MS, REFUSED_KEY_POLL_MS);
        return spread(await this.#beat(credential, signal));
      },
      failed: (error) => this.#outage.failed((error as Error).message),
    });
  }

  status(): HeartbeatStatus {
    return { lastSuccess: this.#lastSuccess, lastError: this.#outage.cause ?? null };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /**
   * Returns the milliseconds until the next heartbeat. There is no backoff during an outage, so that the node is soon shown as online again.
   */
  async #beat(credential: Credential, signal: AbortSignal): Promise<number> {
    const intervalMs = this.#options.intervalMs();
    try {
      await this.#send(credential, signal);
      this.#lastSuccess = new Date().toISOString();
      this.#outage.recovered();
      this.#delayedMs = 0;
    } catch (error) {
      if (signal.aborted) return intervalMs;
      if (error instanceof BackendError && error.status === 429) {
        const delayMs = Math.min(intervalMs, 1000 * Math.max(1, error.retryAfterS ?? DEFAULT_RETRY_AFTER_S));
        this.#delayedMs += delayMs;
        if (this.#delayedMs < SILENT_INTERVALS * intervalMs) return delayMs;
      }
      this.#outage.failed((error as Error).message);
    }
    return intervalMs;
  }

  async #send(credential: Credential, signal: AbortSignal): Promise<void> {
    const { identity } = this.#options;
    try {
      await this.#sendAs(credential, signal);
    } catch (error) {
      if (!(error instanceof BackendError && error.status === 401)) throw error;
      const renewed = await identity.refresh(`heartbeat refused: ${error.code}`);
      if (!renewed || renewed.apiKey === credential.apiKey) throw error;
      await this.#sendAs(renewed, signal);
    }
  }

  async #sendAs(credential: Credential, signal: AbortSignal): Promise<void> {
    const { path, backend, body, identity, onOrg, refusedKey } = this.#options;
    const beat = await body();
    refusedKey?.begin(credential);
    const { keyAgeDays, org } = await backend.heartbeat(path, credential, beat, signal).catch((error: unknown) => {
      if (error instanceof BackendError && error.keyRefused) refusedKey?.refused(credential, `${error.code}: ${error.message}`);
      else refusedKey?.answered(credential, false);
      throw error;
    });
    refusedKey?.answered(credential, true);
    if (keyAgeDays !== undefined) identity.noteKeyAge(credential, keyAgeDays);
    if (org !== undefined) onOrg?.(credential.id, org);
  }
}
