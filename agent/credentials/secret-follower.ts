// Follows the Secret: a watch for speed, a poll behind it for certainty. Invariant: a change of the Secret is known here within one poll
// interval, even when the watch has died without a word; a poll that knows more than the watch is the watch's end. An answer or an event of
// the API that was overtaken by a newer one is never applied.
import type { Logger } from "pino";
import { type Backoff, backoffOf, Loop, spread } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { parseSecret, type ClusterSecret, type SecretSnapshot } from "./cluster-secret.ts";

export interface FollowTiming {
  /** Between polls, milliseconds; spread so that a thousand nodes do not ask at once. */
  readonly pollEveryMs: number;
  /** How long the server keeps one watch open. */
  readonly watchForMs: number;
  /** How long the watch may lag behind a poll before it counts as dead. */
  readonly watchLagMs: number;
  /** Between attempts to watch again. */
  readonly backoffMs: Backoff;
}

export const FOLLOW_TIMING: FollowTiming = { pollEveryMs: 60_000, watchForMs: 240_000, watchLagMs: 3_000, backoffMs: [1_000, 30_000] };

/** What is known of the Secret: `undefined` when it does not exist. */
export type SecretView = SecretSnapshot | undefined;

export class SecretFollower {
  readonly #api: KubernetesApi;
  readonly #secret: ClusterSecret;
  readonly #timing: FollowTiming;
  readonly #log: Logger;
  readonly #onChange: (view: SecretView) => void;
  #view: SecretView;
  /** Counts what was applied, so that an answer that was asked for earlier is recognised as overtaken. */
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
        options.log.warn({ event: "secret.read_failed", err: error }, "cannot read the Secret; what is known stays in force; retrying"),
      ended: () => options.log.info({ event: "secret.read_recovered" }, "reading the Secret has recovered"),
    });
  }

  /** Follows until `signal` aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#keepWatching(signal).done, this.#keepPolling(signal).done]);
  }

  /** Reads the Secret now; callers at the same time share one read. Rejects when the API server cannot be asked. */
  poll(signal: AbortSignal): Promise<void> {
    this.#polling ??= this.#pollOnce(signal).finally(() => (this.#polling = undefined));
    return this.#polling;
  }

  /** Takes over what the caller itself has just read or written. */
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
      // Safe: what is known stays in force, and the next poll comes.
      await this.poll(signal).catch(() => undefined);
      return nextMs();
    };
    return new Loop({ signal, firstAfterMs: nextMs(), step, failed: () => undefined });
  }

  /** Ends the watch when it has not delivered, some time from now, a version that a poll has seen. */
  #suspectWatch(version: string | undefined): void {
    const watch = this.#watch;
    if (!watch || watch.version === version) return;
    const timer = setTimeout(() => {
      if (this.#watch !== watch || watch.version === version || this.#view?.version !== version) return;
      this.#log.warn({ event: "secret.watch_silent" }, "the watch of the Secret is silent although it has changed; watching anew");
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
      // The server ends a watch after its time; one that it ends at once must not become a busy loop.
      return performance.now() - startedAt < backoffMs[0] ? backoffMs[0] : 0;
    };
    // Safe: the poll goes on; the watch only makes changes known sooner.
    const failed = (error: unknown): void =>
      this.#log.debug({ event: "secret.watch_ended", err: error }, "the watch of the Secret ended; watching anew");
    return new Loop({ signal, step, failed, backoffMs });
  }

  /** One watch, from the present state on, until the server ends it. */
  async #watchOnce(end: AbortController, signal: AbortSignal): Promise<void> {
    const watch = { end, version: this.#view?.version };
    this.#watch = watch;
    const lasts = { forSeconds: Math.ceil(this.#timing.watchForMs / 1000), silenceMs: this.#timing.watchForMs + 30_000 };
    for await (const event of this.#api.watchSecret(this.#secret.where, lasts, signal)) {
      if (event.type === "BOOKMARK") continue;
      const view = event.type === "DELETED" ? undefined : parseSecret(event.object);
      watch.version = view?.version;
      this.#log.debug({ event: "secret.changed", version: watch.version }, "the watch of the Secret has news");
      // The event of a deleted Secret has the version of the deletion.
      if (this.#isOlder(event.object.metadata?.resourceVersion)) this.#askAnew(signal);
      else this.apply(view);
    }
  }

  /** True if an event with this version may be older than the state that our own read or write returned. */
  #isOlder(version: string | undefined): boolean {
    if (this.#applied === 0) return false;
    const known = this.#view?.version;
    // Versions grow; but a data store may have been put back from a backup, and a Secret that is gone has none.
    return version !== known && !(Number(version) > Number(known));
  }

  /** A late event is a reason to ask, not an answer. Safe: what is known stays in force, and the next poll comes. */
  #askAnew(signal: AbortSignal): void {
    this.poll(signal).catch(() => undefined);
  }
}
