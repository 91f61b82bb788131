// Limits the connections of all watched listeners together, and the concurrent calls of an HTTP/2 connection. Invariant: at most `limit`
// connections are open. If the limit is reached, a new connection evicts another one: the least recently used unauthenticated connection
// while these are at least a quarter of all, otherwise an idle connection of the organisation with the most connections. Organisations
// share busy connections by the rule of admission/share.ts. Therefore unauthenticated
// clients cannot evict authenticated ones, one organisation cannot shut out another, and there is always a connection that can be evicted.
import type { Server } from "node:net";
import type { Socket } from "node:net";
import { mayTake } from "../admission/share.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../log.ts";
import { MAX_CLOSING_CONNECTIONS, MAX_LONG_HEADS, MAX_REFUSED_REQUESTS, MAX_REQUESTS_PER_CONNECTION } from "./http-limits.ts";
import { isServing } from "./turns.ts";

const RETRY_AFTER_S = 2;
const LONG_HEAD_BYTES = 16 * 1024;
const CHECK_HEADS_MS = 100;
const WARN_EVERY_MS = 60_000;
/** How long an unauthenticated connection stays open between two requests. */
export const UNAUTHENTICATED_IDLE_S = 5;

interface Connection {
  socket: Socket;
  owner: Owner;
  requests: number;
  /** Bytes that were read before the head of the next request. */
  headStart: number;
  /** Running requests that were authenticated. Without any, the connection is idle. */
  authenticated: number;
}

/** An organisation, or all unauthenticated clients together. Both sets are in the order of last use. */
interface Owner {
  readonly id: string;
  readonly all: Set<Connection>;
  /** The connections that may be evicted. */
  readonly idle: Set<Connection>;
}

export class Connections {
  readonly #limit: number;
  readonly #maxLongHeads: number;
  readonly #unauthenticated: Owner = { id: "", all: new Set(), idle: new Set() };
  readonly #owners = new Map<string, Owner>([["", this.#unauthenticated]]);
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #log: Pick<Log, "warn">;
  #open = 0;
  #busy = 0;
  #isCheckingHeads = false;
  #warnedMs = Number.NEGATIVE_INFINITY;

  constructor(limit: number, log: Pick<Log, "warn">, maxLongHeads = MAX_LONG_HEADS) {
    this.#limit = limit;
    this.#maxLongHeads = maxLongHeads;
    this.#log = log;
  }

  /** Watches a server, plain or TLS. Call before the server listens. */
  watch(server: Server): void {
    server.maxConnections = this.#limit + MAX_CLOSING_CONNECTIONS;
    const handshakes = new Map<string, Connection>();
    const isTls = "setSecureContext" in server;
    server.on("connection", (socket: Socket) => {
      if (this.#open >= this.#limit) this.#evict();
      const connection = { socket, owner: this.#unauthenticated, requests: 0, headStart: 0, authenticated: 0 };
      this.#add(connection);
      this.#bySocket.set(socket, connection);
      if (!this.#isCheckingHeads) this.#checkHeadsLater();
      const peer = describePeer(socket);
      if (isTls) handshakes.set(peer, connection);
      socket.once("close", () => {
        handshakes.delete(peer);
        this.#remove(connection);
      });
    });
    // Node.js creates a second socket object for the same TLS connection, on which requests arrive.
    server.on("secureConnection", (socket: Socket) => {
      const connection = handshakes.get(describePeer(socket));
      if (!connection) return;
      this.#bySocket.set(socket, Object.assign(connection, { socket }));
      socket.once("close", () => this.#remove(connection));
    });
  }

  get open(): number {
    return this.#open;
  }

  /**
   * Call when a request begins. Throws `unavailable` if its connection has too many running requests. Unwatched sockets are not limited.
   */
  begin(socket: Socket): void {
    const connection = this.#bySocket.get(socket);
    if (!connection) return;
    connection.requests += 1;
    if (!socket.destroyed) this.#touch(connection);
    if (connection.requests > MAX_REFUSED_REQUESTS) socket.destroy();
    if (connection.requests > MAX_REQUESTS_PER_CONNECTION)
      throw new ApiError("unavailable", `more than ${MAX_REQUESTS_PER_CONNECTION} requests are running on this connection`, {
        retryAfterS: 1,
      });
  }

  /** Call when a running request was authenticated. Throws `unavailable` if too many connections of its organisation are busy. */
  authenticated(socket: Socket, orgId: string): void {
    const connection = this.#bySocket.get(socket);
    if (!connection || socket.destroyed || !connection.owner.all.has(connection)) return;
    const wasBusy = connection.authenticated > 0;
    if (connection.owner.id !== orgId) this.#touch(connection, this.#findOwner(orgId));
    const { all, idle } = connection.owner;
    if (!wasBusy && !mayTake(1, { limit: this.#limit, used: this.#busy, own: all.size - idle.size }))
      throw new ApiError("unavailable", "too many connections of this organisation are busy: try again", { retryAfterS: RETRY_AFTER_S });
    this.#touch(connection, connection.owner, connection.authenticated + 1);
  }

  /** Call when a request has ended. `wasAuthenticated`: `authenticated` was called for it and did not throw. */
  end(socket: Socket, wasAuthenticated: boolean): void {
    const connection = this.#bySocket.get(socket);
    if (!connection) return;
    connection.requests -= 1;
    connection.headStart = socket.bytesRead;
    if (socket.destroyed) return;
    this.#touch(connection, connection.owner, connection.authenticated - Number(wasAuthenticated));
    if (connection.requests === 0 && connection.owner === this.#unauthenticated) socket.setTimeout(UNAUTHENTICATED_IDLE_S * 1000);
  }

  isUnauthenticated(socket: Socket): boolean {
    return this.ownerOf(socket) === this.#unauthenticated.id;
  }

  /** The organisation of the last authenticated request; "" without one. */
  ownerOf(socket: Socket): string | undefined {
    return this.#bySocket.get(socket)?.owner.id;
  }

  #findOwner(id: string): Owner {
    const known = this.#owners.get(id);
    if (known) return known;
    const owner: Owner = { id, all: new Set(), idle: new Set() };
    this.#owners.set(id, owner);
    return owner;
  }

  #add(connection: Connection): void {
    const { owner } = connection;
    owner.all.add(connection);
    this.#open += 1;
    if (connection.authenticated === 0) owner.idle.add(connection);
    else this.#busy += 1;
    this.#owners.set(owner.id, owner);
  }

  #remove(connection: Connection): void {
    const { owner } = connection;
    if (!owner.all.delete(connection)) return;
    this.#open -= 1;
    if (!owner.idle.delete(connection)) this.#busy -= 1;
    if (owner.all.size === 0 && owner !== this.#unauthenticated) this.#owners.delete(owner.id);
  }

  /** Makes it the most recently used connection of `owner`. A connection that was removed stays removed. */
  #touch(connection: Connection, owner = connection.owner, authenticated = connection.authenticated): void {
    if (owner !== connection.owner) {
      this.#remove(connection);
      this.#add(Object.assign(connection, { owner, authenticated }));
      return;
    }
    if (!owner.all.delete(connection)) return;
    owner.all.add(connection);
    if (!owner.idle.delete(connection)) this.#busy -= 1;
    if (authenticated === 0) owner.idle.add(connection);
    else this.#busy += 1;
    connection.authenticated = authenticated;
  }

  #checkHeadsLater(): void {
    this.#isCheckingHeads = this.#unauthenticated.all.size > this.#maxLongHeads;
    if (this.#isCheckingHeads) setTimeout(() => this.#limitHeads(), CHECK_HEADS_MS).unref();
  }

  /** Closes the oldest unauthenticated connections with long heads beyond MAX_LONG_HEADS: their heads take memory until they are complete. */
  #limitHeads(): void {
    this.#checkHeadsLater();
    for (const { socket } of [...this.#unauthenticated.all].filter(hasLongHead).slice(0, -this.#maxLongHeads)) socket.destroy();
  }

  #evict(): void {
    this.#warn();
    const idle =
      this.#unauthenticated.all.size >= this.#limit / 4 ? undefined : first(this.#findLargest((owner) => owner.idle.size > 0)?.idle);
    const evicted = idle ?? first(this.#unauthenticated.all);
    if (!evicted) return;
    this.#remove(evicted);
    evicted.socket.destroy();
  }

  #warn(): void {
    if (Date.now() - this.#warnedMs < WARN_EVERY_MS) return;
    this.#warnedMs = Date.now();
    const largest = this.#findLargest();
    this.#log.warn(
      {
        event: "http.connection_limit_reached",
        limit: this.#limit,
        unauthenticated: this.#unauthenticated.all.size,
        largest_org_id: largest?.id,
        largest_org_connections: largest?.all.size,
      },
      "connection limit reached, evicting unauthenticated and idle connections",
    );
  }

  #findLargest(matches: (owner: Owner) => boolean = () => true): Owner | undefined {
    let largest: Owner | undefined;
    for (const owner of this.#owners.values()) {
      if (owner !== this.#unauthenticated && owner.all.size > (largest?.all.size ?? 0) && matches(owner)) largest = owner;
    }
    return largest;
  }
}

function hasLongHead({ socket, requests, headStart }: Connection): boolean {
  // A request that waits for its turn has a whole head.
  return requests === 0 && !isServing(socket) && socket.bytesRead - headStart > LONG_HEAD_BYTES;
}

function first<T>(set: Set<T> | undefined): T | undefined {
  return set?.values().next().value;
}

/** The same for both socket objects of a TLS connection. */
function describePeer(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}
