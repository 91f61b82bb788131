// The calls of the Kubernetes API that the agent makes, with the fields that it reads. Invariants: everything goes through transport.ts; an
// object that is written back keeps all fields that it was read with.
import { join } from "node:path";
import type { ClusterSettings } from "../settings.ts";
import { type ApiRequest, type KubernetesAccess, KubernetesError, type Status, Transport, type TransportOptions } from "./transport.ts";

/** An object by its name, in its namespace. */
export interface Where {
  readonly namespace: string;
  readonly name: string;
}

interface Named {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: {
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

export interface Secret extends Named {
  readonly type?: string;
  /** In base64. */
  readonly data?: Readonly<Record<string, string>>;
}

export interface Lease extends Named {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    /** RFC 3339 with microseconds. */
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

/** What a service account may do; fields that are not set stand for everything. */
export type ResourceAttributes = Readonly<
  Partial<Record<"group" | "resource" | "subresource" | "verb" | "name" | "namespace", string | undefined>>
>;

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  object: T;
}

/** How long the server keeps a watch open, and after how much silence it counts as dead. */
export interface WatchTime {
  readonly forSeconds: number;
  readonly silenceMs: number;
}

/** A pod as the API server returns it; a bookmark has only the version. */
export interface PodJson {
  readonly metadata: { readonly resourceVersion: string; readonly uid: string } & Readonly<Record<string, unknown>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** An object of any kind as the API server returns it; a bookmark has only the metadata. */
export interface ObjectJson {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly creationTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: unknown;
  readonly status?: unknown;
}

export interface ObjectListJson {
  /** `continue`: token for the next page. */
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly ObjectJson[];
}

/** Which page of a list to read, and how large it may be. */
export interface PageOfObjects {
  readonly limit: number;
  readonly from: string | undefined;
  readonly maxBytes: number;
}

export interface PodListJson {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly PodJson[];
}

const PODS = "/api/v1/pods";
const MERGE_PATCH = "application/merge-patch+json";

export class KubernetesApi implements AsyncDisposable {
  readonly #transport: Transport;

  constructor(access: KubernetesAccess, options: TransportOptions = {}) {
    this.#transport = new Transport(access, options);
  }

  readSecret(where: Where, signal: AbortSignal): Promise<Secret> {
    return this.#json({ method: "GET", path: secretPath(where) }, signal);
  }

  /** If the object has `metadata.resourceVersion`, the API refuses (409) if it has changed since. */
  replaceSecret(where: Where, secret: Secret, signal: AbortSignal): Promise<Secret> {
    return this.#json(write("PUT", secretPath(where), secret), signal);
  }

  /** RFC 7386 merge patch: no precondition, the last writer wins. */
  patchSecret(where: Where, patch: object, signal: AbortSignal): Promise<Secret> {
    return this.#json(write("PATCH", secretPath(where), patch, MERGE_PATCH), signal);
  }

  /**
   * Events of one Secret, starting with its current state (a synthetic ADDED). Ends when the server ends the watch, after `forSeconds`;
   * throws KubernetesError, or undici's error if the connection breaks or is silent for `silenceMs`.
   */
  watchSecret({ namespace, name }: Where, time: WatchTime, signal: AbortSignal): AsyncGenerator<WatchEvent<Secret>> {
    // RBAC with `resourceNames` grants a watch only with this field selector.
    return this.#watch(secretPath({ namespace }), { fieldSelector: `metadata.name=${name}` }, time, signal);
  }

  readLease(where: Where, signal: AbortSignal): Promise<Lease> {
    return this.#json({ method: "GET", path: leasePath(where) }, signal);
  }

  /** Like `replaceSecret`. */
  replaceLease(where: Where, lease: Lease, signal: AbortSignal): Promise<Lease> {
    return this.#json(write("PUT", leasePath(where), lease), signal);
  }

  readNamespace(name: string, signal: AbortSignal): Promise<Named> {
    return this.#json({ method: "GET", path: `/api/v1/namespaces/${encodeURIComponent(name)}` }, signal);
  }

  /** Whether this service account has the permission. */
  async isAllowed(resourceAttributes: ResourceAttributes, signal: AbortSignal): Promise<boolean> {
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
    const request = write("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review);
    const { status } = await this.#json<{ status?: { allowed?: boolean } }>(request, signal);
    return status?.allowed === true;
  }

  /** Pods of one node, at most `limit`, from the watch cache of the API server. */
  async podsOfNode(nodeName: string, limit: number, signal: AbortSignal): Promise<readonly PodJson[]> {
    const query = { fieldSelector: `spec.nodeName=${nodeName}`, limit: String(limit), resourceVersion: "0" };
    return (await this.#json<PodListJson>({ method: "GET", path: withQuery(PODS, query) }, signal)).items;
  }

  /**
   * All pods of one node, not older than `resourceVersion`, from the watch cache of the API server; "0": any version in the cache, "": the
   * stored state.
   */
  listPods(nodeName: string, resourceVersion: string, signal: AbortSignal): Promise<PodListJson> {
    const query = { fieldSelector: `spec.nodeName=${nodeName}`, ...(resourceVersion !== "" && { resourceVersion }) };
    return this.#json({ method: "GET", path: withQuery(PODS, query) }, signal);
  }

  /**
   * Changes of these pods after `resourceVersion`. Ends and throws like `watchSecret`; throws 410 if the server no longer knows the
   * version.
   */
  watchPods(
    { nodeName, resourceVersion }: { nodeName: string; resourceVersion: string },
    time: WatchTime,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<PodJson>> {
    return this.#watch(PODS, { fieldSelector: `spec.nodeName=${nodeName}`, resourceVersion }, time, signal);
  }

  /**
   * A page of at most `limit` objects of one kind; `path` is the resource's path for all namespaces. Throws TooLargeError beyond
   * `maxBytes`.
   */
  listObjects(path: string, { limit, from, maxBytes }: PageOfObjects, signal: AbortSignal): Promise<ObjectListJson> {
    const query = { limit: String(limit), ...(from !== undefined && { continue: from }) };
    return this.#json({ method: "GET", path: withQuery(path, query) }, signal, maxBytes);
  }

  /** Changes of these objects after `resourceVersion`. Ends and throws like `watchPods`. */
  watchObjects(path: string, resourceVersion: string, time: WatchTime, signal: AbortSignal): AsyncGenerator<WatchEvent<ObjectJson>> {
    return this.#watch(path, { resourceVersion }, time, signal);
  }

  /** RFC 7386 merge patch of the status subresource; `metadata.resourceVersion` works as in `replaceSecret`. */
  async patchStatus(path: string, patch: object, signal: AbortSignal): Promise<void> {
    await this.#json(write("PATCH", `${path}/status`, patch, MERGE_PATCH), signal);
  }

  /** The latest resourceVersion of events in all namespaces, even if there are no events. */
  async newestOfEvents(signal: AbortSignal): Promise<string> {
    const request = { method: "GET", path: "/api/v1/events?limit=1" };
    return (await this.#json<PodListJson>(request, signal)).metadata.resourceVersion;
  }

  /** DaemonSets with this name, in all namespaces. */
  async daemonSetsNamed(name: string, signal: AbortSignal): Promise<readonly Named[]> {
    const path = withQuery("/apis/apps/v1/daemonsets", { fieldSelector: `metadata.name=${name}` });
    return (await this.#json<{ items: Named[] }>({ method: "GET", path }, signal)).items;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }

  async *#watch<T>(
    path: string,
    query: Record<string, string>,
    { forSeconds, silenceMs }: WatchTime,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    const whole = { ...query, timeoutSeconds: String(forSeconds), allowWatchBookmarks: "true", watch: "true" };
    const lines = this.#transport.lines({ method: "GET", path: withQuery(path, whole) }, silenceMs, signal);
    for await (const line of lines) yield watchEvent(line) as WatchEvent<T>;
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller says what the API promises
  async #json<T>(request: ApiRequest, signal: AbortSignal, maxBytes?: number): Promise<T> {
    return JSON.parse(await this.#transport.text(request, signal, maxBytes)) as T;
  }
}

/** Without a name: that of all Secrets of the namespace. */
function secretPath({ namespace, name }: { readonly namespace: string; readonly name?: string }): string {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
  return name === undefined ? path : `${path}/${encodeURIComponent(name)}`;
}

function leasePath({ namespace, name }: Where): string {
  return `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(name)}`;
}

function withQuery(path: string, query: Record<string, string>): string {
  return `${path}?${new URLSearchParams(query).toString()}`;
}

function write(method: string, path: string, body: object, type = "application/json"): ApiRequest {
  return { method, path, headers: { "content-type": type }, body: JSON.stringify(body) };
}

function watchEvent(line: string): WatchEvent<unknown> {
  const event = JSON.parse(line) as WatchEvent<unknown> | { type: "ERROR"; object: Status };
  if (event.type !== "ERROR") return event;
  const { code = 500, reason = "Unknown", message = "the watch ended with an error" } = event.object;
  throw new KubernetesError(code, reason, message);
}

export function kubernetesInPod({ kubernetesServer, serviceAccountDir }: ClusterSettings, options: TransportOptions = {}): KubernetesApi {
  const access = {
    server: kubernetesServer,
    caFile: join(serviceAccountDir, "ca.crt"),
    tokenFile: join(serviceAccountDir, "token"),
  };
  return new KubernetesApi(access, options);
}
