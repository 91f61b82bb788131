// The pods of this node as the agent knows them: one list and one watch of the API server, for all that needs them here. Invariants: only
// this node's pods are asked for; nothing is known before the API server has listed them once, and what is known stays while it is away;
// each listener gets every change once and in order, also those from an outage.
import { type Backoff, backoffOf, DEFAULT_BACKOFF, Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi, PodJson, WatchEvent } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { Log } from "../log.ts";
import { slimPod, type SlimOptions } from "./slim-pod.ts";

export type PodsApi = Pick<KubernetesApi, "listPods" | "watchPods">;

export interface NodePodsOptions {
  readonly api: PodsApi;
  readonly nodeName: string;
  readonly kept: SlimOptions;
  readonly log: Log;
  readonly backoffMs?: Backoff;
}

export interface PodChange {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** JSON of the API, as slim-pod.ts leaves it. */
  readonly pod: string;
}

/** As client-go: between this and twice this, so that watches of many nodes do not end together. */
const WATCH_SECONDS = 300;
/** Bookmarks come every minute. */
const SILENCE_MS = 150_000;
/** A watch that lasted so long has worked, and what ended it begins a new count of failures. */
const STEADY_MS = 30_000;

export class NodePods implements AsyncDisposable {
  readonly #options: NodePodsOptions;
  readonly #pods = new Map<string, string>();
  readonly #listeners = new Set<(change: PodChange) => void>();
  readonly #known = Promise.withResolvers<void>();
  readonly #outage: Outage;
  #loop: Loop | undefined;
  #isKnown = false;
  /** Of the last list or change: what listeners have seen everything up to. */
  #version = "";
  /** Where the next list, or the next watch, begins; no watch without a list before it. */
  #listFrom = "0";
  #watchFrom: string | undefined;

  constructor(options: NodePodsOptions) {
    this.#options = options;
    this.#outage = new Outage({
      began: (error) => {
        // Before the first list, the caller that waits for it logs the error.
        const level = this.#isKnown ? "warn" : "debug";
        options.log[level]({ err: (error as Error).message }, "cannot watch the pods of this node: new ones get no names; retrying");
      },
      ended: () => options.log.info({ event: "pods.watch_recovered" }, "watching the pods of this node has recovered"),
    });
  }

  /** Begins to follow them, or tries again at once where none is known yet. */
  start(): void {
    const { backoffMs = DEFAULT_BACKOFF } = this.#options;
    const step = (signal: AbortSignal): Promise<number> => this.#follow(signal);
    if (this.#loop && !this.#isKnown) this.#loop.wake();
    this.#loop ??= new Loop({ step, failed: (error) => this.#outage.failed(error), backoffMs });
  }

  /** Resolves once they have been listed. */
  get known(): Promise<void> {
    return this.#known.promise;
  }

  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Why they cannot be asked for, as it was last tried; undefined when they can. */
  get problem(): unknown {
    return this.#outage.cause;
  }

  /** Changes with each change of a pod. */
  get version(): string {
    return this.#version;
  }

  get pods(): Iterable<string> {
    return this.#pods.values();
  }

  /** Answers how to stop listening. */
  onChange(listener: (change: PodChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
  }

  /** One watch, after a list where there is no place to go on from. Answers how long to wait. */
  async #follow(signal: AbortSignal): Promise<number> {
    const { backoffMs = DEFAULT_BACKOFF, log } = this.#options;
    this.#watchFrom ??= await this.#list(signal);
    const startedAt = performance.now();
    const lastedMs = (): number => performance.now() - startedAt;
    try {
      await this.#watch(this.#watchFrom, signal);
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 410) this.#watchFrom = undefined;
      if (signal.aborted || lastedMs() < STEADY_MS) throw error;
      log.debug({ event: "pods.watch_ended", err: error }, "the watch of this node's pods ended; watching anew");
      return backoffOf(1, backoffMs);
    }
    // The server ends a watch after its time; one that it ends at once must not become a busy loop.
    return lastedMs() < backoffMs[0] ? backoffMs[0] : 0;
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { api, nodeName } = this.#options;
    const { metadata, items } = await api.listPods(nodeName, this.#listFrom, signal).catch((error: unknown) => {
      // This server has not come as far as another did, or its store was put back from a backup.
      if (error instanceof KubernetesError && [410, 504].includes(error.status)) this.#listFrom = "";
      throw error;
    });
    const there = new Set(items.map((pod) => pod.metadata.uid));
    // First: a name may have passed to another pod meanwhile.
    for (const [uid, pod] of this.#pods) if (!there.has(uid)) this.#forget(uid, pod);
    for (const pod of items) this.#keep(pod);
    this.#advance(metadata.resourceVersion);
    this.#version = metadata.resourceVersion;
    this.#isKnown = true;
    this.#known.resolve();
    this.#outage.recovered();
    return metadata.resourceVersion;
  }

  async #watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { api, nodeName } = this.#options;
    const time = { forSeconds: Math.round(WATCH_SECONDS * (1 + Math.random())), silenceMs: SILENCE_MS };
    for await (const event of api.watchPods({ nodeName, resourceVersion }, time, signal)) this.#take(event);
    this.#outage.recovered();
  }

  #take({ type, object }: WatchEvent<PodJson>): void {
    this.#outage.recovered();
    this.#advance(object.metadata.resourceVersion);
    if (type === "BOOKMARK") return;
    this.#version = object.metadata.resourceVersion;
    if (type !== "DELETED") this.#keep(object);
    else if (this.#pods.has(object.metadata.uid)) this.#forget(object.metadata.uid, slimPod(object, this.#options.kept));
  }

  #advance(version: string): void {
    this.#listFrom = version;
    this.#watchFrom &&= version;
  }

  #keep(object: PodJson): void {
    const { uid } = object.metadata;
    const pod = slimPod(object, this.#options.kept);
    const before = this.#pods.get(uid);
    if (pod === before) return;
    this.#pods.set(uid, pod);
    this.#notify({ type: before === undefined ? "ADDED" : "MODIFIED", pod });
  }

  #forget(uid: string, pod: string): void {
    this.#pods.delete(uid);
    this.#notify({ type: "DELETED", pod });
  }

  #notify(change: PodChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}
