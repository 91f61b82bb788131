// Keeps the pods of this node, with one list and one watch that all parts of the agent share. Invariants: only this node's pods are requested;
// known pods are kept while the API server is unavailable; each listener gets every change once and in order, including changes during an
// outage.
import { type Backoff, backoffOf, DEFAULT_BACKOFF, Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import { type KubernetesApi, type PodJson, randomWatchTime, type WatchEvent } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { Log } from "../log.ts";
import { MAX_POD_CHARACTERS } from "../agent-limits.ts";

export type PodsApi = Pick<KubernetesApi, "listPods" | "watchPods">;

interface NodePodsOptions {
  readonly api: PodsApi;
  readonly nodeName: string;
  readonly keptFields: SlimOptions;
  readonly log: Log;
  readonly backoffMs?: Backoff;
  /** Adjusts annotations of pods; pods are listed only after `known`. */
  readonly policies?:
    | { resolve(pod: string): string; readonly known: Promise<unknown>; changed: () => void; sources: () => Iterable<string> }
    | undefined;
}

export interface PodChange {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  /** JSON of the API, reduced by slimPod. */
  readonly pod: string;
}

/** A watch that lasted this long counts as successful, and its end starts a new count of failures. */
const STEADY_MS = 30_000;
const RESOLVE_EVERY_MS = 1000;

export class NodePods implements AsyncDisposable {
  readonly #options: NodePodsOptions;
  readonly #pods = new Map<string, string>();
  /** Pods before policies are applied. */
  readonly #sources = new Map<string, string>();
  readonly #listeners = new Set<(change: PodChange) => void>();
  readonly #known = Promise.withResolvers<void>();
  readonly #outage: Outage;
  #loop: Loop | undefined;
  #isKnown = false;
  /** Version of the last list or change; listeners have seen everything up to it. */
  #version = "";
  /** The resourceVersion at which the next list or watch continues; the first watch starts after a list. */
  #listFrom = "0";
  #watchFrom: string | undefined;
  /** When policies were last applied to all pods. */
  #resolvedMs = Number.NEGATIVE_INFINITY;
  #resolveTimer: NodeJS.Timeout | undefined;

  constructor(options: NodePodsOptions) {
    this.#options = options;
    if (options.policies) {
      options.policies.sources = () => this.#sources.values();
      options.policies.changed = () => this.#resolveSoon();
    }
    this.#outage = new Outage({
      began: (error) => {
        // Before the first list, the caller that waits for it logs the error.
        if (this.#isKnown)
          options.log.warn({ event: "pods.watch_failed", err: (error as Error).message }, "cannot watch this node's pods, retrying");
      },
      ended: () => options.log.info({ event: "pods.watch_recovered" }, "recovered: watching this node's pods"),
    });
  }

  /** Starts following pods, or retries immediately if none is known yet. */
  start(): void {
    const { backoffMs = DEFAULT_BACKOFF } = this.#options;
    const step = (signal: AbortSignal): Promise<number> => this.#follow(signal);
    if (this.#loop && !this.#isKnown) this.#loop.wake();
    this.#loop ??= new Loop({ step, failed: (error) => this.#outage.failed(error), backoffMs });
  }

  /** Resolves once pods have been listed. */
  get known(): Promise<void> {
    return this.#known.promise;
  }

  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Why the last attempt to list pods failed; undefined if it succeeded. */
  get problem(): unknown {
    return this.#outage.cause;
  }

  /** Changes whenever a pod changes. */
  get version(): string {
    return this.#version;
  }

  get pods(): Iterable<string> {
    return this.#pods.values();
  }

  /** Returns a function that stops listening. */
  onChange(listener: (change: PodChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.[Symbol.asyncDispose]();
    clearTimeout(this.#resolveTimer);
  }

  /** Runs one watch, after a list if there is no resourceVersion to continue from. Returns how long to wait. */
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
      log.debug({ event: "pods.watch_ended", err: error }, "watch on this node's pods was closed, restarting it");
      return backoffOf(1, backoffMs);
    }
    // The server ends each watch after a time limit; a watch that ends immediately must not cause a busy loop.
    return lastedMs() < backoffMs[0] ? backoffMs[0] : 0;
  }

  async #list(signal: AbortSignal): Promise<string> {
    const { api, nodeName } = this.#options;
    const { metadata, items } = await api.listPods(nodeName, this.#listFrom, signal).catch((error: unknown) => {
      // This server is behind another one, or its store was restored from a backup.
      if (error instanceof KubernetesError && [410, 504].includes(error.status)) this.#listFrom = "";
      throw error;
    });
    await this.#options.policies?.known;
    const uids = new Set(items.map((pod) => pod.metadata.uid));
    // Removed pods first: another pod may now have the same name.
    for (const [uid, pod] of this.#pods) if (!uids.has(uid)) this.#forget(uid, pod);
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
    for await (const event of api.watchPods({ nodeName, resourceVersion }, randomWatchTime(), signal)) this.#apply(event);
    this.#outage.recovered();
  }

  #apply({ type, object }: WatchEvent<PodJson>): void {
    this.#outage.recovered();
    this.#advance(object.metadata.resourceVersion);
    if (type === "BOOKMARK") return;
    this.#version = object.metadata.resourceVersion;
    if (type !== "DELETED") this.#keep(object);
    else if (this.#pods.has(object.metadata.uid)) this.#forget(object.metadata.uid, slimPod(object, this.#options.keptFields));
  }

  #advance(version: string): void {
    this.#listFrom = version;
    this.#watchFrom &&= version;
  }

  #keep(object: PodJson): void {
    this.#put(object.metadata.uid, slimPod(object, this.#options.keptFields));
  }

  #put(uid: string, source: string): void {
    const { policies } = this.#options;
    if (policies) this.#sources.set(uid, source);
    const pod = policies ? policies.resolve(source) : source;
    const before = this.#pods.get(uid);
    if (pod === before) return;
    this.#pods.set(uid, pod);
    this.#notify({ type: before === undefined ? "ADDED" : "MODIFIED", pod });
  }

  /** Resolves all pods again: immediately, but at most once per second. */
  #resolveSoon(): void {
    const waitMs = this.#resolvedMs + RESOLVE_EVERY_MS - performance.now();
    this.#resolveTimer ??= setTimeout(
      () => {
        this.#resolveTimer = undefined;
        this.#resolvedMs = performance.now();
        for (const [uid, source] of this.#sources) this.#put(uid, source);
      },
      Math.max(0, waitMs),
    );
  }

  #forget(uid: string, pod: string): void {
    this.#pods.delete(uid);
    this.#sources.delete(uid);
    this.#notify({ type: "DELETED", pod });
  }

  #notify(change: PodChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

// Keeps only the fields of a pod that the collector's configuration uses: identity, location, owners and declared ports. Invariants:
// environment, arguments and volumes of containers are not kept, because they may contain secrets; only configured labels and annotations
// are kept; the size of a pod is limited.

export interface SlimOptions {
  /** Label names. */
  readonly labels: readonly string[] | "all";
  readonly annotations: readonly string[];
}

const LONG_ANNOTATION = 1024;

/**
 * Returns JSON of the API. A pod that is too large loses first its containers and long annotations, then its owners and the labels that do
 * not fit.
 */
export function slimPod(pod: PodJson, options: SlimOptions): string {
  const slimmed = slim(pod, options);
  const { annotations, ownerReferences, ...metadata } = slimmed.metadata;
  const { containers: _, initContainers: __, ...spec } = slimmed.spec;
  const shortAnnotations = pickFields(annotations, (_name, value) => String(value).length <= LONG_ANNOTATION);
  const smaller = { ...slimmed, metadata: { ...metadata, annotations: shortAnnotations }, spec };
  for (const candidate of [slimmed, { ...smaller, metadata: { ...smaller.metadata, ownerReferences } }]) {
    const text = JSON.stringify(candidate);
    if (text.length <= MAX_POD_CHARACTERS) return text;
  }
  const { labels, ...otherMetadata } = smaller.metadata;
  let remaining = MAX_POD_CHARACTERS - JSON.stringify({ ...smaller, metadata: { ...otherMetadata, labels: {} } }).length;
  const fittingLabels = pickFields(labels, (name, value) => (remaining -= JSON.stringify({ [name]: value }).length) >= 0);
  return JSON.stringify({ ...smaller, metadata: { ...otherMetadata, labels: fittingLabels } });
}

/**
 * The kubelet creates an object for each static pod, with a uid of its own. If the pod's manifest sets a uid, the log path contains that
 * one, so the object gets it too: otherwise its annotations, for example the opt-out, would not be found.
 */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

function loggedUid({ uid, annotations }: PodJson["metadata"]): string {
  const manifestUid = ((annotations ?? {}) as Fields)[MIRROR_ANNOTATION];
  return typeof manifestUid === "string" && manifestUid.includes("-") ? manifestUid : uid;
}

function slim({ metadata, spec = {}, status = {} }: PodJson, { labels, annotations }: SlimOptions) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      uid: loggedUid(metadata),
      ...pick(metadata, ["name", "namespace", "resourceVersion", "creationTimestamp", "deletionTimestamp"]),
      labels: pickFields(metadata["labels"], (name) => labels === "all" || labels.includes(name)),
      annotations: pickFields(metadata["annotations"], (name) => annotations.includes(name)),
      ownerReferences: pickEach(metadata["ownerReferences"], ["apiVersion", "kind", "name", "uid", "controller"]),
    },
    spec: {
      ...pick(spec, ["nodeName", "hostNetwork", "hostname"]),
      containers: containers(spec["containers"]),
      initContainers: containers(spec["initContainers"]),
    },
    status: {
      ...pick(status, ["phase", "podIP", "podIPs", "hostIP", "startTime"]),
      conditions: pickEach(status["conditions"], ["type", "status"]),
    },
  };
}

function containers(value: unknown): object[] | undefined {
  return asList(value)?.map((container) => ({
    ...pick(container, ["name"]),
    ports: pickEach(container["ports"], ["name", "containerPort", "protocol"]),
  }));
}

type Fields = Readonly<Record<string, unknown>>;

function pickEach(value: unknown, names: readonly string[]): object[] | undefined {
  return asList(value)?.map((item) => pick(item, names));
}

function asList(value: unknown): readonly Fields[] | undefined {
  return Array.isArray(value) ? (value as Fields[]) : undefined;
}

function pick(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]));
}

/** Undefined instead of an empty map, which the API omits too. */
function pickFields(value: unknown, isKept: (name: string, value: unknown) => boolean): Fields | undefined {
  const fields = Object.entries((value ?? {}) as Fields).filter((entry) => isKept(...entry));
  return fields.length > 0 ? Object.fromEntries(fields) : undefined;
}
