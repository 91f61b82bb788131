// All objects of one kind in the cluster, as this agent last knew them: a list in pages, then watches from where it ended. Invariants: what is
// known stays while the API server is away; a kind that the cluster does not have counts as no objects; whatever authors write, the objects
// of a namespace and of all namespaces take a limited amount of memory, and so does each page.
import { type Backoff, DEFAULT_BACKOFF, Loop, spread } from "../../common/loop.ts";
import type { KubernetesApi, ObjectJson } from "../kubernetes/api.ts";
import { KubernetesError, TooLargeError } from "../kubernetes/transport.ts";
import { MAX_MONITOR_PAGE_BYTES, MAX_NAMESPACE_OBJECT_CHARACTERS, MAX_OBJECT_CHARACTERS } from "../limits.ts";

export type ObjectsApi = Pick<KubernetesApi, "listObjects" | "watchObjects">;

export interface ObjectWatchOptions<T> {
  readonly api: ObjectsApi;
  /** `/apis/monitoring.coreos.com/v1/servicemonitors`. */
  readonly path: string;
  /** What is kept of an object. */
  readonly slim: (object: ObjectJson) => T;
  readonly failed: (error: unknown) => void;
  readonly recovered: () => void;
  /** Called after each list and each change. */
  readonly changed?: () => void;
  readonly backoffMs?: Backoff | undefined;
}

interface Kept<T> {
  readonly object: T;
  readonly namespace: string;
  readonly characters: number;
}

/** As in pods/node-pods.ts. */
const WATCH_SECONDS = 300;
const SILENCE_MS = 150_000;
/** A resource definition that is installed later is found after this time. */
const NO_SUCH_KIND_MS = 60_000;
const PAGE_OBJECTS = 256;

export class ObjectWatch<T> implements AsyncDisposable {
  /** Resolves after the first list. */
  readonly known: Promise<void>;
  readonly #options: ObjectWatchOptions<T>;
  #kept = new Map<string, Kept<T>>();
  /** Characters of the objects of each namespace, and of all under "". */
  #characters = new Map<string, number>();
  /** Rises with each change. */
  version = 0;
  /** Objects that did not fit since the last list. */
  dropped = 0;
  /** Where the next watch begins; undefined before a list. */
  #watchFrom: string | undefined;
  readonly #isKnown = Promise.withResolvers<void>();
  readonly #loop: Loop;

  constructor(options: ObjectWatchOptions<T>) {
    this.#options = options;
    this.known = this.#isKnown.promise;
    const { failed, backoffMs = DEFAULT_BACKOFF } = options;
    this.#loop = new Loop({ step: (signal) => this.#follow(signal), failed, backoffMs });
  }

  get objects(): readonly T[] {
    return [...this.#kept.values()].map(({ object }) => object);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  async #follow(signal: AbortSignal): Promise<number> {
    const { api, path, recovered } = this.#options;
    this.#watchFrom ??= await this.#list(signal);
    this.#isKnown.resolve();
    recovered();
    if (this.#watchFrom === undefined) return spread(NO_SUCH_KIND_MS);
    const time = { forSeconds: Math.round(WATCH_SECONDS * (1 + Math.random())), silenceMs: SILENCE_MS };
    try {
      for await (const { type, object } of api.watchObjects(path, this.#watchFrom, time, signal)) {
        this.#watchFrom = object.metadata.resourceVersion;
        if (type === "BOOKMARK") continue;
        this.#forget(object.metadata.uid);
        if (type !== "DELETED") this.#keep(object);
        this.#countChange();
      }
    } catch (error) {
      // The server no longer has this version, or the kind's definition is gone: list again.
      if (error instanceof KubernetesError && [404, 410].includes(error.status)) this.#watchFrom = undefined;
      throw error;
    }
    return spread(DEFAULT_BACKOFF[0]);
  }

  /** Replaces what is known. Returns the version of the list; undefined if the cluster does not have this kind. */
  async #list(signal: AbortSignal): Promise<string | undefined> {
    const before = [this.#kept, this.#characters, this.dropped] as const;
    [this.#kept, this.#characters, this.dropped] = [new Map(), new Map(), 0];
    try {
      let version: string | undefined;
      for await (const { metadata, items } of this.#pages(signal)) {
        for (const object of items) this.#keep(object);
        version = metadata.resourceVersion;
      }
      return version;
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      [this.#kept, this.#characters, this.dropped] = before;
      throw error;
    } finally {
      this.#countChange();
    }
  }

  #countChange(): void {
    this.version += 1;
    this.#options.changed?.();
  }

  /** Pages that are too large are read again in smaller ones. */
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

  #keep(source: ObjectJson): void {
    const { uid, namespace = "" } = source.metadata;
    const object = this.#options.slim(source);
    const characters = JSON.stringify(object).length;
    const ofNamespace = (this.#characters.get(namespace) ?? 0) + characters;
    const ofAll = (this.#characters.get("") ?? 0) + characters;
    if (ofNamespace > MAX_NAMESPACE_OBJECT_CHARACTERS || ofAll > MAX_OBJECT_CHARACTERS) return void (this.dropped += 1);
    this.#kept.set(uid, { object, namespace, characters });
    this.#characters.set(namespace, ofNamespace).set("", ofAll);
  }

  #forget(uid: string): void {
    const kept = this.#kept.get(uid);
    if (!kept) return;
    this.#kept.delete(uid);
    for (const key of new Set([kept.namespace, ""])) this.#characters.set(key, (this.#characters.get(key) ?? 0) - kept.characters);
  }
}
