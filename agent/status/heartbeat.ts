// The heartbeat that keeps a host or a cluster's node shown online. Invariants: the beats of many agents spread (jitter); an outage is
// two log lines, not one per beat; a refused key is read again at once and the beat repeated once; a backend that has heartbeats wait
// (429) is not away: the beat comes when it says, and only where that goes on for longer than the node may be silent it is a failure.
import { setTimeout as sleep } from "node:timers/promises";
import type { Credential } from "../credentials/store.ts";
import type { Log } from "../log.ts";
import type { Heartbeat } from "../protocol/enrolment.ts";
import { BackendError, type BackendApi } from "../upstream/backend-api.ts";
import type { AgentIdentity } from "../identity/identity.ts";

export interface HeartbeatOptions {
  /** CLUSTER_HEARTBEAT_PATH or HOST_HEARTBEAT_PATH. */
  readonly path: string;
  readonly identity: AgentIdentity;
  readonly backend: Pick<BackendApi, "heartbeat">;
  /** Asked before each beat: remote configuration may change it. */
  readonly intervalMs: () => number;
  readonly body: () => Heartbeat;
  /** Of an answer that names the organisation of the identity `id`. */
  readonly onOrg?: (id: string, org: string) => void;
  readonly log: Log;
}

export interface HeartbeatStatus {
  /** RFC 3339; null until the first. */
  readonly lastSuccess: string | null;
  readonly lastError: string | null;
}

/** How often an agent without a key looks whether it has one. */
const NO_KEY_POLL_MS = 250;
const JITTER = 0.1;
/** The backend shows as offline what has been silent for as many intervals. */
const SILENT_INTERVALS = 3;
const DEFAULT_RETRY_AFTER_S = 5;

export class HeartbeatLoop implements AsyncDisposable {
  readonly #options: HeartbeatOptions;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #status: HeartbeatStatus = { lastSuccess: null, lastError: null };
  /** How long the backend has had it wait since the last success. */
  #delayedMs = 0;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  status(): HeartbeatStatus {
    return this.#status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const credential = this.#options.identity.current();
      const waitMs = credential ? (await this.#beat(credential)) * (1 + JITTER * (2 * Math.random() - 1)) : NO_KEY_POLL_MS;
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Answers in how many milliseconds the next one is due. */
  async #beat(credential: Credential): Promise<number> {
    const intervalMs = this.#options.intervalMs();
    try {
      await this.#send(credential);
      if (this.#status.lastError !== null) this.#options.log.info("heartbeats reach the backend again");
      this.#status = { lastSuccess: new Date().toISOString(), lastError: null };
      this.#delayedMs = 0;
    } catch (error) {
      if (this.#stop.signal.aborted) return intervalMs;
      if (error instanceof BackendError && error.status === 429) {
        const delayMs = Math.min(intervalMs, 1000 * Math.max(1, error.retryAfterS ?? DEFAULT_RETRY_AFTER_S));
        this.#delayedMs += delayMs;
        if (this.#delayedMs < SILENT_INTERVALS * intervalMs) return delayMs;
      }
      const message = error instanceof Error ? error.message : String(error);
      if (this.#status.lastError === null)
        this.#options.log.warn({ err: message }, "a heartbeat failed; it is tried again at the next interval");
      this.#status = { ...this.#status, lastError: message };
    }
    return intervalMs;
  }

  async #send(credential: Credential): Promise<void> {
    const { identity } = this.#options;
    try {
      await this.#sendAs(credential);
    } catch (error) {
      if (!(error instanceof BackendError && error.status === 401)) throw error;
      const renewed = await identity.refresh(`heartbeat refused: ${error.code}`);
      if (!renewed || renewed.apiKey === credential.apiKey) throw error;
      await this.#sendAs(renewed);
    }
  }

  async #sendAs(credential: Credential): Promise<void> {
    const { path, backend, body, identity, onOrg } = this.#options;
    const { keyAgeDays, org } = await backend.heartbeat(path, credential, body(), this.#stop.signal);
    if (keyAgeDays !== undefined) identity.noteKeyAge(credential, keyAgeDays);
    if (org !== undefined) onOrg?.(credential.id, org);
  }
}
