// All objects of one kind in the cluster, as this agent last knew them: a list from the watch cache of the API server, then a watch. Invariants:
// what is known stays while the API server is away; a kind that the cluster does not have counts as no objects.
import { type Backoff, DEFAULT_BACKOFF, Loop, spread } from "../../common/loop.ts";
import type { KubernetesApi, ObjectJson } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";

export type ObjectsApi = Pick<KubernetesApi, "listObjects" | "watchObjects">;

export interface ObjectWatchOptions<T> {
  readonly api: ObjectsApi;
  /** `/apis/monitoring.coreos.com/v1/servicemonitors`. */
  readonly path: string;
  /** What is kept of an object. */
  readonly slim: (object: ObjectJson) => T;
  readonly failed: (error: unknown) => void;
  readonly recovered: () => void;
  readonly backoffMs?: Backoff | undefined;
}

/** As in pods/node-pods.ts. */
const WATCH_SECONDS = 300;
const SILENCE_MS = 150_000;
/** A resource definition that is installed later is found after this time. */
const NO_SUCH_KIND_MS = 60_000;

export class ObjectWatch<T> implements AsyncDisposable {
  /** Resolves after the first list. */
  readonly known: Promise<void>;
  readonly #options: ObjectWatchOptions<T>;
  readonly #objects = new Map<string, T>();
  /** Rises with each change. */
  version = 0;
  readonly #isKnown = Promise.withResolvers<void>();
  readonly #loop: Loop;

  constructor(options: ObjectWatchOptions<T>) {
    this.#options = options;
    this.known = this.#isKnown.promise;
    const { failed, backoffMs = DEFAULT_BACKOFF } = options;
    this.#loop = new Loop({ step: (signal) => this.#follow(signal), failed, backoffMs });
  }

  get objects(): readonly T[] {
    return [...this.#objects.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  async #follow(signal: AbortSignal): Promise<number> {
    const { api, path, slim, recovered } = this.#options;
    const list = await api.listObjects(path, signal).catch((error: unknown) => {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      throw error;
    });
    this.#objects.clear();
    for (const object of list?.items ?? []) this.#objects.set(object.metadata.uid, slim(object));
    this.version += 1;
    this.#isKnown.resolve();
    recovered();
    if (!list) return spread(NO_SUCH_KIND_MS);
    const time = { forSeconds: Math.round(WATCH_SECONDS * (1 + Math.random())), silenceMs: SILENCE_MS };
    for await (const { type, object } of api.watchObjects(path, list.metadata.resourceVersion, time, signal)) {
      if (type === "DELETED") this.#objects.delete(object.metadata.uid);
      else if (type !== "BOOKMARK") this.#objects.set(object.metadata.uid, slim(object));
      this.version += 1;
    }
    return spread(DEFAULT_BACKOFF[0]);
  }
}
