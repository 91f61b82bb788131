// Keeps the last known state of all objects of one kind in the cluster, with a paged list and watches that continue from it. Invariants: known
// objects are kept while the API server is unavailable and during a list; a kind that the cluster does not have has no objects; memory for
// objects (kept-objects.ts) and for each page is limited.
import { type Backoff, DEFAULT_BACKOFF, Loop, spread } from "../../common/loop.ts";
import { type KubernetesApi, type ObjectJson, randomWatchTime } from "./api.ts";
import { KubernetesError, TooLargeError } from "./transport.ts";
import { MAX_MONITOR_PAGE_BYTES, MAX_NAMESPACE_OBJECT_CHARACTERS, MAX_OBJECT_CHARACTERS } from "../agent-limits.ts";
import { KeptObjects, type MaxCharacters } from "./kept-objects.ts";

export type ObjectsApi = Pick<KubernetesApi, "listObjects" | "watchObjects">;

interface ObjectWatchOptions<T> {
  readonly api: ObjectsApi;
  /** `/apis/monitoring.coreos.com/v1/servicemonitors`. */
  readonly path: string;
  /** Returns the part of an object that is kept. */
  readonly slim: (object: ObjectJson) => T;
  readonly failed: (error: unknown) => void;
  readonly recovered: () => void;
  /** Called after each list and each change. */
  readonly changed?: () => void;
  readonly backoffMs?: Backoff | undefined;
  readonly maxCharacters?: MaxCharacters;
}

/** How often to check whether the cluster has the kind, if it did not. */
const MISSING_KIND_RETRY_MS = 60_000;
const PAGE_OBJECTS = 256;
const DEFAULT_MAX_CHARACTERS = { perNamespace: MAX_NAMESPACE_OBJECT_CHARACTERS, total: MAX_OBJECT_CHARACTERS };

export class ObjectWatch<T> implements AsyncDisposable {
  /** Resolves after the first successful list. */
  readonly known: Promise<void>;
  readonly #options: ObjectWatchOptions<T>;
  #kept: KeptObjects<T>;
  /** Increases with each change. */
  version = 0;
  /** True if dropped objects may fit now, because an object was removed or changed; the next list follows the current watch. */
  #mayFit = false;
  /** Where the next watch continues; undefined before a list. */
  #watchFrom: string | undefined;
  readonly #isKnown = Promise.withResolvers<void>();
  readonly #loop: Loop;

  constructor(options: ObjectWatchOptions<T>) {
    this.#options = options;
    this.#kept = this.#empty();
    this.known = this.#isKnown.promise;
    const { failed, backoffMs = DEFAULT_BACKOFF } = options;
    this.#loop = new Loop({ step: (signal) => this.#follow(signal), failed, backoffMs });
  }

  get objects(): readonly T[] {
    return this.#kept.objects;
  }

  /** Objects that did not fit since the last list. */
  get dropped(): number {
    return this.#kept.dropped.values().reduce((sum, count) => sum + count, 0);
  }

  /** Namespaces with objects that did not fit since the last list. */
  get droppedNamespaces(): ReadonlySet<string> {
    return new Set(this.#kept.dropped.keys());
  }

  /** False if the namespace has objects that did not fit. */
  isComplete(namespace: string): boolean {
    return !this.#kept.dropped.has(namespace);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  async #follow(signal: AbortSignal): Promise<number> {
    const { api, path, recovered } = this.#options;
    this.#watchFrom ??= await this.#list(signal);
    this.#isKnown.resolve();
    recovered();
    if (this.#watchFrom === undefined) return spread(MISSING_KIND_RETRY_MS);
    try {
      for await (const { type, object } of api.watchObjects(path, this.#watchFrom, randomWatchTime(), signal)) {
        this.#watchFrom = object.metadata.resourceVersion;
        if (type === "BOOKMARK") continue;
        if (type !== "ADDED") this.#mayFit ||= this.#kept.dropped.size > 0;
        if (type === "DELETED") this.#kept.delete(object.metadata.uid);
        else this.#keep(this.#kept, object);
        this.#countChange();
      }
    } catch (error) {
      // The server no longer has this version, or the kind's definition is gone: list again.
      if (error instanceof KubernetesError && [404, 410].includes(error.status)) this.#watchFrom = undefined;
      throw error;
    }
    if (this.#mayFit) this.#watchFrom = undefined;
    return spread(DEFAULT_BACKOFF[0]);
  }

  /** Lists all objects and replaces the known ones. Returns the version of the list; undefined if the cluster does not have this kind. */
  async #list(signal: AbortSignal): Promise<string | undefined> {
    const listed = this.#empty();
    let version: string | undefined;
    try {
      for await (const { metadata, items } of this.#pages(signal)) {
        for (const object of items) this.#keep(listed, object);
        version = metadata.resourceVersion;
      }
      this.#mayFit = false;
    } catch (error) {
      if (!(error instanceof KubernetesError) || error.status !== 404) throw error;
      version = undefined;
    }
    this.#kept = listed;
    this.#countChange();
    return version;
  }

  #empty(): KeptObjects<T> {
    return new KeptObjects(this.#options.maxCharacters ?? DEFAULT_MAX_CHARACTERS);
  }

  #keep(kept: KeptObjects<T>, source: ObjectJson): void {
    // A cluster-scoped object counts as its own namespace.
    const { uid, name, namespace = name } = source.metadata;
    kept.set(uid, namespace, this.#options.slim(source));
  }

  #countChange(): void {
    this.version += 1;
    this.#options.changed?.();
  }

  /** If a page is too large, requests smaller pages. */
  async *#pages(signal: AbortSignal): AsyncGenerator<Awaited<ReturnType<ObjectsApi["listObjects"]>>> {
    const { api, path } = this.#options;
    let from: string | undefined;
    for (let limit = PAGE_OBJECTS; ;) {
      try {
        const page = await api.listObjects(path, { limit, from, maxBytes: MAX_MONITOR_PAGE_BYTES }, signal);
        yield page;
        from = page.metadata.continue;
        if (!from) return;
      } catch (error) {
        if (!(error instanceof TooLargeError) || limit === 1) throw error;
        limit = Math.ceil(limit / 4);
      }
    }
  }
}
