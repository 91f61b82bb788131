// All objects of one kind in the cluster, as this agent last knew them: a list in pages, then watches from where it ended. Invariants: what is
// known stays while the API server is away; a kind that the cluster does not have counts as no objects; whatever authors write, the objects
// of a namespace and of all namespaces take a limited amount of memory, and so does each page; a namespace with few objects loses none of
// them to others.
import { type Backoff, DEFAULT_BACKOFF, Loop, spread } from "../../common/loop.ts";
import type { KubernetesApi, ObjectJson } from "../kubernetes/api.ts";
import { KubernetesError, TooLargeError } from "../kubernetes/transport.ts";
import { MAX_MONITOR_PAGE_BYTES, MAX_NAMESPACE_OBJECT_CHARACTERS, MAX_OBJECT_CHARACTERS } from "../limits.ts";
import { fairLimit } from "./fair-share.ts";

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
  /** JSON of what is kept of each namespace, and of all. */
  readonly maxCharacters?: { readonly ofNamespace: number; readonly ofAll: number };
}

interface Kept<T> {
  readonly object: T;
  readonly namespace: string;
  readonly characters: number;
}

/** An object without a namespace counts as one under its name. */
interface State<T> {
  readonly kept: Map<string, Kept<T>>;
  /** Characters of the objects of each namespace. */
  readonly characters: Map<string, number>;
  total: number;
  /** Objects that did not fit since the last list, by namespace. */
  readonly dropped: Map<string, number>;
}

/** As in pods/node-pods.ts. */
const WATCH_SECONDS = 300;
const SILENCE_MS = 150_000;
/** A resource definition that is installed later is found after this time. */
const NO_SUCH_KIND_MS = 60_000;
const PAGE_OBJECTS = 256;
const DEFAULT_MAX_CHARACTERS = { ofNamespace: MAX_NAMESPACE_OBJECT_CHARACTERS, ofAll: MAX_OBJECT_CHARACTERS };
/** The share of the limit that is left after it was exceeded: below 1, so that not each further object costs a pass over all. */
const SHRINK_TO = 7 / 8;

export class ObjectWatch<T> implements AsyncDisposable {
  /** Resolves after the first list. */
  readonly known: Promise<void>;
  readonly #options: ObjectWatchOptions<T>;
  #state: State<T> = emptyState();
  /** Rises with each change. */
  version = 0;
  /** An object was removed or changed, so those that were dropped may fit: they are listed after the watch. */
  #mayFit = false;
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
    return [...this.#state.kept.values()].map(({ object }) => object);
  }

  /** Objects that did not fit since the last list. */
  get dropped(): number {
    return this.#state.dropped.values().reduce((sum, count) => sum + count, 0);
  }

  /** Read it in `changed`: it is incomplete during a list. */
  get droppedNamespaces(): ReadonlySet<string> {
    return new Set(this.#state.dropped.keys());
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
        if (type !== "ADDED") this.#mayFit ||= this.#state.dropped.size > 0;
        this.#forget(object.metadata.uid);
        if (type !== "DELETED") this.#keep(object);
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

  /** Replaces what is known. Returns the version of the list; undefined if the cluster does not have this kind. */
  async #list(signal: AbortSignal): Promise<string | undefined> {
    const before = this.#state;
    this.#state = emptyState();
    try {
      let version: string | undefined;
      for await (const { metadata, items } of this.#pages(signal)) {
        for (const object of items) this.#keep(object);
        version = metadata.resourceVersion;
      }
      this.#mayFit = false;
      return version;
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 404) return undefined;
      this.#state = before;
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
    const { kept, characters } = this.#state;
    const { maxCharacters: max = DEFAULT_MAX_CHARACTERS } = this.#options;
    const { uid, name, namespace = name } = source.metadata;
    const object = this.#options.slim(source);
    const added = JSON.stringify(object).length;
    const ofNamespace = (characters.get(namespace) ?? 0) + added;
    kept.set(uid, { object, namespace, characters: added });
    characters.set(namespace, ofNamespace);
    this.#state.total += added;
    if (ofNamespace > max.ofNamespace) this.#drop(uid, namespace);
    else if (this.#state.total > max.ofAll) this.#shrink(max.ofAll * SHRINK_TO);
  }

  /** Drops objects of the largest namespaces, those first that became known last. */
  #shrink(limit: number): void {
    const { kept, characters } = this.#state;
    const ofNamespace = fairLimit(characters.values(), limit);
    for (const [uid, { namespace }] of [...kept].toReversed()) {
      if (this.#state.total <= limit) return;
      if ((characters.get(namespace) ?? 0) > ofNamespace) this.#drop(uid, namespace);
    }
  }

  #drop(uid: string, namespace: string): void {
    this.#forget(uid);
    this.#state.dropped.set(namespace, (this.#state.dropped.get(namespace) ?? 0) + 1);
  }

  #forget(uid: string): void {
    const { kept, characters } = this.#state;
    const object = kept.get(uid);
    if (!object) return;
    kept.delete(uid);
    this.#state.total -= object.characters;
    const left = (characters.get(object.namespace) ?? 0) - object.characters;
    if (left > 0) characters.set(object.namespace, left);
    else characters.delete(object.namespace);
  }
}

function emptyState<T>(): State<T> {
  return { kept: new Map(), characters: new Map(), total: 0, dropped: new Map() };
}
