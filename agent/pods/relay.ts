// Serves list and watch of the node's pods to the collector's informers, as the Kubernetes API would, on loopback and from the agent's
// memory; also serves scrape jobs of monitors and their targets. Each component of the collector that needs pods opens its own watch
// (k8sattributesprocessor v0.149: one per pipeline). Invariants: no call reaches the API server; a client without this run's password gets no
// pods; a client waits until the pods are known, instead of getting an empty list; a client that does not read is disconnected. No history
// of changes is kept: a client that was disconnected lists the pods again.
import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer } from "../../common/http.ts";
import { MAX_RELAY_CONNECTIONS, MAX_TARGETS_CONNECTIONS, MAX_UNREAD_BYTES } from "../agent-limits.ts";
import type { NodePods } from "./node-pods.ts";

export interface PodRelayOptions {
  readonly pods: NodePods;
  readonly nodeName: string;
  /** Bytes of changes that a client has not read yet, in addition to its first list of pods. */
  readonly maxUnreadBytes?: number;
  /** Returns JSON for other paths. */
  readonly monitors?: { answer(path: string): string | undefined } | undefined;
}

const PATH = "/api/v1/pods";
const USER = "collector";
/** Timeout of a silent connection. It is short because the collector sends its request immediately. */
const HEADERS_TIMEOUT_MS = 5000;

export class PodRelay implements AsyncDisposable {
  readonly #options: PodRelayOptions;
  readonly #server: Server;
  readonly #password = randomBytes(24).toString("base64url");

  private constructor(options: PodRelayOptions) {
    this.#options = options;
    this.#server = createServer(
      { keepAliveTimeout: 120_000, headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: 1000, maxHeaderSize: 8192 },
      (request, response) => {
        // It rejects only if the client has disconnected, or requests something that is not a valid URL.
        this.#answer(request, response).catch(() => response.destroy());
      },
    );
    this.#server.maxConnections = MAX_RELAY_CONNECTIONS + (options.monitors ? MAX_TARGETS_CONNECTIONS : 0);
  }

  /** Resolves once it listens on a free loopback port. */
  static async start(options: PodRelayOptions): Promise<PodRelay> {
    const relay = new PodRelay(options);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    return relay;
  }

  /** Contains the password. */
  get url(): string {
    return `http://${USER}:${this.#password}@127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Kubeconfig for clients of the relay. */
  get kubeconfig(): string {
    const clusters = [{ name: "node", cluster: { server: this.url } }];
    const contexts = [{ name: "node", context: { cluster: "node", user: "" } }];
    return JSON.stringify({ apiVersion: "v1", kind: "Config", clusters, contexts, users: [], "current-context": "node" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    const { pods, nodeName, monitors } = this.#options;
    const { pathname, searchParams } = new URL(request.url ?? "", "http://relay");
    if (!this.#isTrusted(request)) {
      // Unauthenticated clients share the limited connections with the collector, so theirs are closed.
      response.setHeader("connection", "close");
      return refuse(response, 401, "Unauthorized", "only the agent's own collector may use the relay");
    }
    const json = request.method === "GET" ? monitors?.answer(pathname) : undefined;
    // Each job's discovery in the collector opens its own connection, which would stay idle between two requests.
    if (json !== undefined) return void response.writeHead(200, { ...JSON_TYPE, connection: "close" }).end(json);
    if (pathname !== PATH) return refuse(response, 404, "NotFound", `the relay serves only ${PATH}`);
    if (request.method !== "GET") return refuse(response, 405, "MethodNotAllowed", "the relay is read-only");
    if (searchParams.get("fieldSelector") !== `spec.nodeName=${nodeName}` || searchParams.get("labelSelector"))
      return refuse(response, 400, "BadRequest", "the relay serves only the pods of this node, without label selectors");
    if (!pods.isKnown) pods.start();
    await Promise.race([pods.known, once(response, "close")]);
    if (response.destroyed) return;
    if (!["1", "true"].includes(searchParams.get("watch") ?? "")) return this.#list(response);
    this.#watch(searchParams, response);
  }

  #isTrusted({ headers }: IncomingMessage): boolean {
    const expected = Buffer.from(`Basic ${Buffer.from(`${USER}:${this.#password}`).toString("base64")}`);
    const actual = Buffer.from(headers.authorization ?? "");
    return actual.length === expected.length && timingSafeEqual(actual, expected);
  }

  #list(response: ServerResponse): void {
    const { pods } = this.#options;
    const head = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"${pods.version}"},"items":[`;
    response.writeHead(200, JSON_TYPE).end(`${head}${[...pods.pods].join(",")}]}`);
  }

  /**
   * A watch can begin with `sendInitialEvents`, without a version or with a version; only the last one continues from the current state.
   */
  #watch(query: URLSearchParams, response: ServerResponse): void {
    const { pods, maxUnreadBytes = MAX_UNREAD_BYTES } = this.#options;
    const streamsList = query.get("sendInitialEvents") === "true";
    const from = query.get("resourceVersion") ?? "";
    const startsAnew = streamsList || from === "" || from === "0";
    if (!startsAnew && from !== pods.version) return refuse(response, 410, "Expired", "the relay keeps no history: list again");
    response.writeHead(200, JSON_TYPE).flushHeaders();
    if (startsAnew) for (const pod of pods.pods) response.write(line("ADDED", pod));
    if (streamsList) response.write(line("BOOKMARK", listEnd(pods.version)));
    const unreadAtFirst = response.writableLength;
    const stop = pods.onChange(({ type, pod }) => {
      response.write(line(type, pod));
      if (response.writableLength - unreadAtFirst > maxUnreadBytes) response.destroy();
    });
    response.once("close", stop);
  }
}

const JSON_TYPE = { "content-type": "application/json" };

function line(type: string, object: string): string {
  return `{"type":"${type}","object":${object}}\n`;
}

/** Event that ends the initial part of a streamed list (KEP-3157). */
function listEnd(resourceVersion: string): string {
  const metadata = { resourceVersion, annotations: { "k8s.io/initial-events-end": "true" } };
  return JSON.stringify({ kind: "Pod", apiVersion: "v1", metadata });
}

function refuse(response: ServerResponse, code: number, reason: string, message: string): void {
  response.writeHead(code, JSON_TYPE).end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message }));
}
