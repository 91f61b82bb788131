// Makes the agent's calls of the Kubernetes API with the official client's generated classes, which define paths, queries and models.
// Invariants: all requests go through transport.ts; no other part of the client is loaded, neither its fetch nor its configuration nor its
// watch, which ends after 30 s of silence without a reason. A bundle contains only the classes that are named here (hack/bundle.ts).
import { AppsV1ApiRequestFactory, AppsV1ApiResponseProcessor } from "@kubernetes/client-node/dist/gen/apis/AppsV1Api.js";
import {
  AuthorizationV1ApiRequestFactory,
  AuthorizationV1ApiResponseProcessor,
} from "@kubernetes/client-node/dist/gen/apis/AuthorizationV1Api.js";
import {
  CoordinationV1ApiRequestFactory,
  CoordinationV1ApiResponseProcessor,
} from "@kubernetes/client-node/dist/gen/apis/CoordinationV1Api.js";
import { CoreV1ApiRequestFactory, CoreV1ApiResponseProcessor } from "@kubernetes/client-node/dist/gen/apis/CoreV1Api.js";
import { type HttpInfo, type RequestContext, ResponseContext } from "@kubernetes/client-node/dist/gen/http/http.js";
import type { V1DaemonSet } from "@kubernetes/client-node/dist/gen/models/V1DaemonSet.js";
import type { V1Namespace } from "@kubernetes/client-node/dist/gen/models/V1Namespace.js";
import type { V1Pod } from "@kubernetes/client-node/dist/gen/models/V1Pod.js";
import type { V1ResourceAttributes } from "@kubernetes/client-node/dist/gen/models/V1ResourceAttributes.js";
import { ObjectSerializer } from "@kubernetes/client-node/dist/gen/models/ObjectSerializer.js";
import { ServerConfiguration } from "@kubernetes/client-node/dist/gen/servers.js";
import {
  type Lease,
  type Secret,
  type ApiRequest,
  type KubernetesAccess,
  KubernetesError,
  type Status,
  Transport,
  type TransportOptions,
} from "./transport.ts";
import { join } from "node:path";
import type { ClusterSettings } from "../settings.ts";

export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  object: T;
}

/** How long the server keeps a watch open, and after how much silence it counts as dead. */
interface WatchTime {
  readonly forSeconds: number;
  readonly silenceMs: number;
}

const WATCH_SECONDS = 300;
/** Bookmarks arrive every minute. */
const SILENCE_MS = 150_000;

/** As in client-go: between WATCH_SECONDS and twice that, so that watches of many nodes do not end together. */
export function randomWatchTime(): WatchTime {
  return { forSeconds: Math.round(WATCH_SECONDS * (1 + Math.random())), silenceMs: SILENCE_MS };
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
interface PageOptions {
  readonly limit: number;
  readonly from: string | undefined;
  readonly maxBytes: number;
}

export interface PodListJson {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly PodJson[];
}

export class KubernetesApi implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #core: readonly [CoreV1ApiRequestFactory, CoreV1ApiResponseProcessor];
  readonly #coordination: readonly [CoordinationV1ApiRequestFactory, CoordinationV1ApiResponseProcessor];
  readonly #authorization: readonly [AuthorizationV1ApiRequestFactory, AuthorizationV1ApiResponseProcessor];
  readonly #apps: readonly [AppsV1ApiRequestFactory, AppsV1ApiResponseProcessor];

  constructor(access: KubernetesAccess, options: TransportOptions = {}) {
    this.#transport = new Transport(access, options);
    const httpApi = { send: refuseToSend };
    const configuration = { baseServer: new ServerConfiguration(access.server, {}), httpApi, middleware: [], authMethods: {} };
    this.#core = [new CoreV1ApiRequestFactory(configuration), new CoreV1ApiResponseProcessor()];
    this.#coordination = [new CoordinationV1ApiRequestFactory(configuration), new CoordinationV1ApiResponseProcessor()];
    this.#authorization = [new AuthorizationV1ApiRequestFactory(configuration), new AuthorizationV1ApiResponseProcessor()];
    this.#apps = [new AppsV1ApiRequestFactory(configuration), new AppsV1ApiResponseProcessor()];
  }

  readSecret({ namespace, name }: ObjectName, signal: AbortSignal): Promise<Secret> {
    const [core, processor] = this.#core;
    return this.#call(core.readNamespacedSecret(name, namespace), (answer) => processor.readNamespacedSecretWithHttpInfo(answer), signal);
  }

  /** If the object has `metadata.resourceVersion`, the API refuses (409) if it has changed since. */
  replaceSecret({ namespace, name }: ObjectName, secret: Secret, signal: AbortSignal): Promise<Secret> {
    const [core, processor] = this.#core;
    const request = core.replaceNamespacedSecret(name, namespace, secret);
    return this.#call(request, (answer) => processor.replaceNamespacedSecretWithHttpInfo(answer), signal);
  }

  createSecret(secret: Secret, signal: AbortSignal): Promise<Secret> {
    const [core, processor] = this.#core;
    const request = core.createNamespacedSecret(secret.metadata?.namespace ?? "", secret);
    return this.#call(request, (answer) => processor.createNamespacedSecretWithHttpInfo(answer), signal);
  }

  /** RFC 7386 merge patch: no precondition, the last writer wins. */
  async patchSecret({ namespace, name }: ObjectName, patch: object, signal: AbortSignal): Promise<Secret> {
    const [core, processor] = this.#core;
    const request = await core.patchNamespacedSecret(name, namespace, patch);
    request.setHeaderParam("Content-Type", "application/merge-patch+json");
    return this.#call(request, (answer) => processor.patchNamespacedSecretWithHttpInfo(answer), signal);
  }

  /**
   * Events of one Secret, starting with its current state (a synthetic ADDED). Ends when the server ends the watch, after `forSeconds`;
   * throws KubernetesError, or undici's error if the connection breaks or is silent for `silenceMs`.
   */
  async *watchSecret({ namespace, name }: ObjectName, time: WatchTime, signal: AbortSignal): AsyncGenerator<WatchEvent<Secret>> {
    const request = await this.#core[0].listNamespacedSecret(namespace);
    // RBAC with `resourceNames` grants a watch only with this field selector.
    for await (const { type, object } of this.#watch(request, { fieldSelector: `metadata.name=${name}` }, time, signal)) {
      yield { type, object: ObjectSerializer.deserialize(object, "V1Secret", "") as Secret };
    }
  }

  readLease({ namespace, name }: ObjectName, signal: AbortSignal): Promise<Lease> {
    const [coordination, processor] = this.#coordination;
    const request = coordination.readNamespacedLease(name, namespace);
    return this.#call(request, (answer) => processor.readNamespacedLeaseWithHttpInfo(answer), signal);
  }

  /** Like `replaceSecret`. */
  replaceLease({ namespace, name }: ObjectName, lease: Lease, signal: AbortSignal): Promise<Lease> {
    const [coordination, processor] = this.#coordination;
    const request = coordination.replaceNamespacedLease(name, namespace, lease);
    return this.#call(request, (answer) => processor.replaceNamespacedLeaseWithHttpInfo(answer), signal);
  }

  createLease(lease: Lease, signal: AbortSignal): Promise<Lease> {
    const [coordination, processor] = this.#coordination;
    const request = coordination.createNamespacedLease(lease.metadata?.namespace ?? "", lease);
    return this.#call(request, (answer) => processor.createNamespacedLeaseWithHttpInfo(answer), signal);
  }

  readNamespace(name: string, signal: AbortSignal): Promise<V1Namespace> {
    const [core, processor] = this.#core;
    return this.#call(core.readNamespace(name), (answer) => processor.readNamespaceWithHttpInfo(answer), signal);
  }

  /** Returns whether this service account has the permission. */
  async isAllowed(resourceAttributes: V1ResourceAttributes, signal: AbortSignal): Promise<boolean> {
    const [authorization, processor] = this.#authorization;
    const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
    const request = authorization.createSelfSubjectAccessReview(review);
    const { status } = await this.#call(request, (answer) => processor.createSelfSubjectAccessReviewWithHttpInfo(answer), signal);
    return status?.allowed === true;
  }

  /** Returns at most `limit` pods of one node, from the API server's watch cache. */
  async podsOfNode(nodeName: string, limit: number, signal: AbortSignal): Promise<V1Pod[]> {
    const [core, processor] = this.#core;
    const request = await core.listPodForAllNamespaces();
    setQuery(request, { fieldSelector: `spec.nodeName=${nodeName}`, limit, resourceVersion: "0" });
    return (await this.#call(request, (answer) => processor.listPodForAllNamespacesWithHttpInfo(answer), signal)).items;
  }

  /**
   * Returns all pods of one node, not older than `resourceVersion`, from the API server's watch cache; "0": any version in the cache, "": the
   * stored state. The pods are JSON, because the model of a pod would load half of the client's models.
   */
  async listPods(nodeName: string, resourceVersion: string, signal: AbortSignal): Promise<PodListJson> {
    const request = await this.#core[0].listPodForAllNamespaces();
    setQuery(request, { fieldSelector: `spec.nodeName=${nodeName}`, ...(resourceVersion !== "" && { resourceVersion }) });
    return JSON.parse(await this.#transport.text(toApiRequest(request), signal)) as PodListJson;
  }

  /**
   * Changes of these pods after `resourceVersion`. Ends and throws like `watchSecret`; throws 410 if the server no longer knows the
   * version.
   */
  async *watchPods(
    { nodeName, resourceVersion }: { nodeName: string; resourceVersion: string },
    time: WatchTime,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<PodJson>> {
    const request = await this.#core[0].listPodForAllNamespaces();
    const query = { fieldSelector: `spec.nodeName=${nodeName}`, resourceVersion };
    for await (const event of this.#watch(request, query, time, signal)) yield event as WatchEvent<PodJson>;
  }

  /**
   * Returns a page of at most `limit` objects of one kind; `path` is the resource's path for all namespaces. Throws TooLargeError if it has
   * more than `maxBytes`.
   */
  async listObjects(path: string, { limit, from, maxBytes }: PageOptions, signal: AbortSignal): Promise<ObjectListJson> {
    const query = new URLSearchParams({ limit: String(limit), ...(from !== undefined && { continue: from }) });
    const text = await this.#transport.text({ method: "GET", path: `${path}?${query.toString()}` }, signal, maxBytes);
    return JSON.parse(text) as ObjectListJson;
  }

  /** Changes of these objects after `resourceVersion`. Ends and throws like `watchPods`. */
  async *watchObjects(
    path: string,
    resourceVersion: string,
    { forSeconds, silenceMs }: WatchTime,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<ObjectJson>> {
    const query = new URLSearchParams({ resourceVersion, timeoutSeconds: String(forSeconds), allowWatchBookmarks: "true", watch: "true" });
    const lines = this.#transport.lines({ method: "GET", path: `${path}?${query.toString()}` }, silenceMs, signal);
    for await (const line of lines) yield parseEvent(line) as WatchEvent<ObjectJson>;
  }

  /** RFC 7386 merge patch of the status subresource; `metadata.resourceVersion` works as in `replaceSecret`. */
  async patchStatus(path: string, patch: object, signal: AbortSignal): Promise<void> {
    const headers = { "content-type": "application/merge-patch+json" };
    await this.#transport.text({ method: "PATCH", path: `${path}/status`, headers, body: JSON.stringify(patch) }, signal);
  }

  /** Returns the latest resourceVersion of events in all namespaces, even if there are no events. */
  async newestOfEvents(signal: AbortSignal): Promise<string> {
    const request = await this.#core[0].listEventForAllNamespaces();
    setQuery(request, { limit: 1 });
    const { metadata } = JSON.parse(await this.#transport.text(toApiRequest(request), signal)) as Pick<PodListJson, "metadata">;
    return metadata.resourceVersion;
  }

  /** Returns DaemonSets with this name in all namespaces. */
  async daemonSetsNamed(name: string, signal: AbortSignal): Promise<V1DaemonSet[]> {
    const [apps, processor] = this.#apps;
    const request = await apps.listDaemonSetForAllNamespaces();
    setQuery(request, { fieldSelector: `metadata.name=${name}` });
    return (await this.#call(request, (answer) => processor.listDaemonSetForAllNamespacesWithHttpInfo(answer), signal)).items;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }

  async *#watch(
    request: RequestContext,
    query: Record<string, string>,
    { forSeconds, silenceMs }: WatchTime,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<unknown>> {
    setQuery(request, { ...query, timeoutSeconds: forSeconds, allowWatchBookmarks: true, watch: true });
    for await (const line of this.#transport.lines(toApiRequest(request), silenceMs, signal)) yield parseEvent(line);
  }

  async #call<T>(
    request: RequestContext | Promise<RequestContext>,
    read: (answer: ResponseContext) => Promise<HttpInfo<T>>,
    signal: AbortSignal,
  ): Promise<T> {
    const text = await this.#transport.text(toApiRequest(await request), signal);
    const body = { text: () => Promise.resolve(text), binary: refuseToSend, stream: refuseToSend };
    return (await read(new ResponseContext(200, { "content-type": "application/json" }, body))).data;
  }
}

function toApiRequest(context: RequestContext): ApiRequest {
  const { pathname, search } = new URL(context.getUrl());
  const body = context.getBody();
  return {
    method: context.getHttpMethod(),
    path: pathname + search,
    headers: Object.fromEntries(Object.entries(context.getHeaders()).map(([name, value]) => [name.toLowerCase(), value])),
    body: typeof body === "string" ? body : undefined,
  };
}

function setQuery(request: RequestContext, query: Record<string, string | number | boolean>): void {
  for (const [name, value] of Object.entries(query)) request.setQueryParam(name, String(value));
}

function parseEvent(line: string): WatchEvent<unknown> {
  const event = JSON.parse(line) as WatchEvent<unknown> | { type: "ERROR"; object: Status };
  if (event.type !== "ERROR") return event;
  const { code = 500, reason = "Unknown", message = "the watch ended with an error" } = event.object;
  throw new KubernetesError(code, reason, message);
}

function refuseToSend(): never {
  throw new Error("requests must go through transport.ts");
}

export function kubernetesInPod({ kubernetesServer, serviceAccountDir }: ClusterSettings, options: TransportOptions = {}): KubernetesApi {
  const access = {
    server: kubernetesServer,
    caFile: join(serviceAccountDir, "ca.crt"),
    tokenFile: join(serviceAccountDir, "token"),
  };
  return new KubernetesApi(access, options);
}
