// Follows changes to the Secret with a watch, and with polls for changes that the watch misses. Invariants: the agent applies a change within
// one poll interval, even if the watch died silently; if a poll finds a version that the watch does not report soon after, the watch is
// restarted; a response or event is never applied after a newer one.
import type { Logger } from "pino";
import { type Backoff, backoffOf, Loop, spread } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { parseSecret, type ClusterSecret, type SecretSnapshot } from "./cluster-secret.ts";

export interface FollowTiming {
  /** Average time between polls; randomised, so that a thousand nodes do not poll at once. */
  readonly pollEveryMs: number;
  /** How long the server keeps one watch open. */
  readonly watchForMs: number;
  /** How long the watch may lag behind a poll before it is considered dead. */
  readonly watchLagMs: number;
  /** Backoff between attempts to restart the watch. */
  readonly backoffMs: Backoff;
}

export const FOLLOW_TIMING: FollowTiming = { pollEveryMs: 60_000, watchForMs: 240_000, watchLagMs: 3_000, backoffMs: [1_000, 30_000] };

/** Last known state of the Secret; undefined if the Secret does not exist. */
export type SecretView = SecretSnapshot | undefined;

export class SecretFollower {
  readonly #api: KubernetesApi;
  readonly #secret: ClusterSecret;
  readonly #timing: FollowTiming;
  readonly #log: Logger;
  readonly #onChange: (view: SecretView) => void;
  #view: SecretView;
  /** Number of applied states. A response is outdated if this number has changed since its request. */
  #applied = 0;
  #watch: { end: AbortController; version: string | undefined } | undefined;
  #polling: Promise<void> | undefined;
  readonly #outage: Outage;

  constructor(
    api: KubernetesApi,
    secret: ClusterSecret,
    options: { timing?: FollowTiming; log: Logger; onChange: (view: SecretView) => void },
  ) {
    this.#api = api;
    this.#secret = secret;
    this.#timing = options.timing ?? FOLLOW_TIMING;
    this.#log = options.log;
    this.#onChange = options.onChange;
    this.#outage = new Outage({
      began: (error) =>
        options.log.warn({ event: "secret.read_failed", err: error }, "cannot read the Secret; keeping the key in memory, retrying"),
      ended: () => options.log.info({ event: "secret.read_recovered" }, "recovered: the Secret can be read"),
    });
  }

  /** Follows until `signal` aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#keepWatching(signal).done, this.#keepPolling(signal).done]);
  }

  /** Reads the Secret now; concurrent callers share one read. Rejects if the API server cannot be reached. */
  poll(signal: AbortSignal): Promise<void> {
    this.#polling ??= this.#pollOnce(signal).finally(() => (this.#polling = undefined));
    return this.#polling;
  }

  /** Applies a state that the caller has just read or written. */
  apply(view: SecretView): void {
    this.#applied += 1;
    const isUnchanged = this.#applied > 1 && view?.version === this.#view?.version;
    this.#view = view;
    if (isUnchanged) return;
    this.#onChange(view);
  }

  async #pollOnce(signal: AbortSignal): Promise<void> {
    for (;;) {
      const before = this.#applied;
      const view = await this.#secret.read(signal).catch((error: unknown) => {
        if (!signal.aborted) this.#outage.failed(error);
        throw error;
      });
      this.#outage.recovered();
      if (this.#applied !== before) continue;
      this.apply(view);
      this.#suspectWatch(view?.version);
      return;
    }
  }

  #keepPolling(signal: AbortSignal): Loop {
    const nextMs = (): number => spread(this.#timing.pollEveryMs);
    const step = async (): Promise<number> => {
      // The last known state stays in effect, and the next poll retries.
      await this.poll(signal).catch(() => undefined);
      return nextMs();
    };
    return new Loop({ signal, firstAfterMs: nextMs(), step, failed: () => undefined });
  }

  /** Restarts the watch if it does not report a version that a poll has found within `watchLagMs`. */
  #suspectWatch(version: string | undefined): void {
    const watch = this.#watch;
    if (!watch || watch.version === version) return;
    const timer = setTimeout(() => {
      if (this.#watch !== watch || watch.version === version || this.#view?.version !== version) return;
      this.#log.warn({ event: "secret.watch_silent" }, "watch on the Secret missed a change, restarting it");
      watch.end.abort();
    }, this.#timing.watchLagMs);
    timer.unref();
  }

  #keepWatching(signal: AbortSignal): Loop {
    const { backoffMs } = this.#timing;
    const step = async (): Promise<number> => {
      const end = new AbortController();
      const startedAt = performance.now();
      try {
        await this.#watchOnce(end, AbortSignal.any([signal, end.signal]));
      } catch (error) {
        if (!end.signal.aborted) throw error;
        return backoffOf(1, backoffMs);
      }
      // The server ends each watch after `watchForMs`; a watch that ends immediately must not cause a busy loop.
      return performance.now() - startedAt < backoffMs[0] ? backoffMs[0] : 0;
    };
    // Polling continues; the watch only reports changes sooner.
    const failed = (error: unknown): void =>
      this.#log.debug({ event: "secret.watch_ended", err: error }, "watch on the Secret was closed, restarting it");
    return new Loop({ signal, step, failed, backoffMs });
  }

  /** Runs one watch, starting at the current state, until the server ends it. */
  async #watchOnce(end: AbortController, signal: AbortSignal): Promise<void> {
    const watch = { end, version: this.#view?.version };
    this.#watch = watch;
    const limits = { forSeconds: Math.ceil(this.#timing.watchForMs / 1000), silenceMs: this.#timing.watchForMs + 30_000 };
    for await (const event of this.#api.watchSecret(this.#secret.objectName, limits, signal)) {
      if (event.type === "BOOKMARK") continue;
      const view = event.type === "DELETED" ? undefined : parseSecret(event.object);
      watch.version = view?.version;
      this.#log.debug({ event: "secret.changed", version: watch.version }, "watch on the Secret reported a change");
      // A DELETED event contains the version of the deletion, so its order is known.
      if (this.#isOlder(event.object.metadata?.resourceVersion)) this.#rereadSecret(signal);
      else this.apply(view);
    }
  }

  /** Returns true if an event with this version may be older than the state that this agent has read or written. */
  #isOlder(version: string | undefined): boolean {
    if (this.#applied === 0) return false;
    const known = this.#view?.version;
    // Versions normally increase, but etcd may have been restored from a backup. After a deletion, the known version is undefined.
    return version !== known && !(Number(version) > Number(known));
  }

  /** A late event triggers a read and is not applied itself. The last known state stays in effect, and the next poll retries. */
  #rereadSecret(signal: AbortSignal): void {
    this.poll(signal).catch(() => undefined);
  }
}
