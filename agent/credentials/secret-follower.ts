// Follows the Secret with a watch for speed, and polls in case the watch fails. Invariants: the agent knows a change of the Secret within
// one poll interval, even if the watch has died silently; if a poll returns a newer version, the watch is ended; a response or event is
// never applied after a newer one.
import type { Logger } from "pino";
import { type Backoff, backoffOf, Loop, spread } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { parseSecret, type ClusterSecret, type SecretSnapshot } from "./cluster-secret.ts";

export interface FollowTiming {
  /** Milliseconds between polls; randomised so that a thousand nodes do not poll at once. */
  readonly pollEveryMs: number;
  /** How long the server keeps one watch open. */
  readonly watchForMs: number;
  /** How far the watch may lag behind a poll before it counts as dead. */
  readonly watchLagMs: number;
  /** Waits between attempts to watch again. */
  readonly backoffMs: Backoff;
}

export const FOLLOW_TIMING: FollowTiming = { pollEveryMs: 60_000, watchForMs: 240_000, watchLagMs: 3_000, backoffMs: [1_000, 30_000] };

/** Last known state of the Secret; `undefined` if it does not exist. */
export type SecretView = SecretSnapshot | undefined;

export class SecretFollower {
  readonly #api: KubernetesApi;
  readonly #secret: ClusterSecret;
  readonly #timing: FollowTiming;
  readonly #log: Logger;
  readonly #onChange: (view: SecretView) => void;
  #view: SecretView;
  /** Counts applied states, so that a response to an earlier request is recognised as outdated. */
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

  /** Applies what the caller itself has just read or written. */
  apply(view: SecretView): void {
    this.#applied += 1;
    const known = this.#applied > 1 && view?.version === this.#view?.version;
    this.#view = view;
    if (known) return;
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
      // Safe: the known state stays in force, and the next poll retries.
      await this.poll(signal).catch(() => undefined);
      return nextMs();
    };
    return new Loop({ signal, firstAfterMs: nextMs(), step, failed: () => undefined });
  }

  /** Ends the watch if it does not deliver, within a short time, a version that a poll has seen. */
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
      // The server ends a watch after its time; one that ends at once must not cause a busy loop.
      return performance.now() - startedAt < backoffMs[0] ? backoffMs[0] : 0;
    };
    // Safe: polling continues; the watch only makes changes known sooner.
    const failed = (error: unknown): void =>
      this.#log.debug({ event: "secret.watch_ended", err: error }, "watch on the Secret was closed, restarting it");
    return new Loop({ signal, step, failed, backoffMs });
  }

  /** One watch, from the current state on, until the server ends it. */
  async #watchOnce(end: AbortController, signal: AbortSignal): Promise<void> {
    const watch = { end, version: this.#view?.version };
    this.#watch = watch;
    const lasts = { forSeconds: Math.ceil(this.#timing.watchForMs / 1000), silenceMs: this.#timing.watchForMs + 30_000 };
    for await (const event of this.#api.watchSecret(this.#secret.where, lasts, signal)) {
      if (event.type === "BOOKMARK") continue;
      const view = event.type === "DELETED" ? undefined : parseSecret(event.object);
      watch.version = view?.version;
      this.#log.debug({ event: "secret.changed", version: watch.version }, "watch on the Secret reported a change");
      // The event of a deleted Secret carries the version of the deletion.
      if (this.#isOlder(event.object.metadata?.resourceVersion)) this.#askAnew(signal);
      else this.apply(view);
    }
  }

  /** True if an event with this version may be older than the state from our own read or write. */
  #isOlder(version: string | undefined): boolean {
    if (this.#applied === 0) return false;
    const known = this.#view?.version;
    // Versions increase, but a data store may have been restored from a backup, and a deleted Secret has no version.
    return version !== known && !(Number(version) > Number(known));
  }

  /** A late event triggers a read and is not applied itself. Safe: the known state stays in force, and the next poll retries. */
  #askAnew(signal: AbortSignal): void {
    this.poll(signal).catch(() => undefined);
  }
}
