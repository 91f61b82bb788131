// Bounds the connections of one listener, and what one of them may ask at once. Invariant: no more than `most` are open. A newcomer is
// let in at the cost of a stranger (a connection on which nobody was authenticated yet; the one that was used least recently) while
// strangers have a quarter, else of an idle connection of the organisation that has most. No organisation has more connections at work
// than are not at work then: n of them leave one part of n + 1. So strangers cannot take the place of the authenticated, nor one
// organisation that of another, and there is always somebody who makes room.
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { ApiError } from "../errors.ts";
import type { Log } from "../observability/log.ts";
import { stopParser } from "./stop-parser.ts";

/** Requests of one connection that may be under way: clients that do not pipeline have one. */
const MAX_UNDER_WAY = 16;
/** A connection with more is cut: only refusing what is pipelined without an end would take seconds from everybody. */
const MOST_UNDER_WAY = 2 * MAX_UNDER_WAY;
/** Connections that were closed for newcomers, and are not gone yet. */
const MAX_CLOSING = 256;
const RETRY_AFTER_S = 2;
const TELL_AGAIN_MS = 60_000;
/** How long a stranger's connection stays open between two requests. */
export const STRANGER_IDLE_S = 5;

interface Connection {
  socket: Socket;
  owner: Owner;
  underWay: number;
  /** Of those under way. Without any, the connection is idle. */
  authenticated: number;
}

/** An organisation, or all strangers. Both sets are in the order of last use. */
interface Owner {
  readonly id: string;
  readonly all: Set<Connection>;
  /** Those that may be closed for a newcomer. */
  readonly idle: Set<Connection>;
}

export class Connections {
  readonly #most: number;
  readonly #strangers: Owner = { id: "", all: new Set(), idle: new Set() };
  readonly #owners = new Map<string, Owner>([["", this.#strangers]]);
  readonly #known = new WeakMap<Socket, Connection>();
  readonly #log: Pick<Log, "warn">;
  #open = 0;
  #atWork = 0;
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(most: number, log: Pick<Log, "warn">) {
    this.#most = most;
    this.#log = log;
  }

  /** Watches a server, plain or TLS. Before it listens. */
  watch(server: Server): void {
    server.maxConnections = this.#most + MAX_CLOSING;
    const handshakes = new Map<string, Connection>();
    const isTls = "setSecureContext" in server;
    server.on("connection", (socket: Socket) => {
      if (this.#open >= this.#most) this.#makeRoom();
      const connection = { socket, owner: this.#strangers, underWay: 0, authenticated: 0 };
      this.#file(connection);
      this.#known.set(socket, connection);
      const name = nameOf(socket);
      if (isTls) handshakes.set(name, connection);
      socket.once("close", () => {
        handshakes.delete(name);
        this.#remove(connection);
      });
    });
    // The same connection under another object, which requests come on.
    server.on("secureConnection", (socket: Socket) => {
      const connection = handshakes.get(nameOf(socket));
      if (!connection) return;
      this.#known.set(socket, Object.assign(connection, { socket }));
      socket.once("close", () => this.#remove(connection));
    });
  }

  get open(): number {
    return this.#open;
  }

  /** A request begins. Throws `unavailable` when its connection has too many under way. Sockets that are not watched are free. */
  begin(socket: Socket): void {
    const connection = this.#known.get(socket);
    if (!connection) return;
    connection.underWay += 1;
    if (!socket.destroyed) this.#refile(connection);
    if (connection.underWay > MOST_UNDER_WAY) {
      socket.destroy();
      stopParser(socket);
    }
    if (connection.underWay > MAX_UNDER_WAY)
      throw new ApiError("unavailable", `more than ${MAX_UNDER_WAY} requests are under way on this connection`, { retryAfterS: 1 });
  }

  /** A request that has begun is this organisation's. Throws `unavailable` when too many connections of it are at work. */
  authenticated(socket: Socket, orgId: string): void {
    const connection = this.#known.get(socket);
    if (!connection || socket.destroyed || !connection.owner.all.has(connection)) return;
    const wasAtWork = connection.authenticated > 0;
    this.#refile(connection, this.#ownerOf(orgId), connection.authenticated + 1);
    const { all, idle } = connection.owner;
    if (wasAtWork || all.size - idle.size <= this.#most - this.#atWork) return;
    this.#refile(connection, connection.owner, connection.authenticated - 1);
    throw new ApiError("unavailable", "too many connections of this organisation are at work: try again", { retryAfterS: RETRY_AFTER_S });
  }

  /** A request is over; `wasAuthenticated`: as `authenticated` was told, and did not throw. */
  end(socket: Socket, wasAuthenticated: boolean): void {
    const connection = this.#known.get(socket);
    if (!connection) return;
    connection.underWay -= 1;
    if (socket.destroyed) return;
    this.#refile(connection, connection.owner, connection.authenticated - Number(wasAuthenticated));
    if (connection.underWay === 0 && connection.owner === this.#strangers) socket.setTimeout(STRANGER_IDLE_S * 1000);
  }

  isStranger(socket: Socket): boolean {
    return this.#known.get(socket)?.owner === this.#strangers;
  }

  #ownerOf(id: string): Owner {
    const known = this.#owners.get(id);
    if (known) return known;
    const owner: Owner = { id, all: new Set(), idle: new Set() };
    this.#owners.set(id, owner);
    return owner;
  }

  #file(connection: Connection): void {
    const { owner } = connection;
    owner.all.add(connection);
    this.#open += 1;
    if (connection.authenticated === 0) owner.idle.add(connection);
    else this.#atWork += 1;
    this.#owners.set(owner.id, owner);
  }

  #remove(connection: Connection): void {
    const { owner } = connection;
    if (!owner.all.delete(connection)) return;
    this.#open -= 1;
    if (!owner.idle.delete(connection)) this.#atWork -= 1;
    if (owner.all.size === 0 && owner !== this.#strangers) this.#owners.delete(owner.id);
  }

  /** As the one that was used last. One that is gone stays gone. */
  #refile(connection: Connection, owner = connection.owner, authenticated = connection.authenticated): void {
    if (owner !== connection.owner) {
      this.#remove(connection);
      this.#file(Object.assign(connection, { owner, authenticated }));
      return;
    }
    if (!owner.all.delete(connection)) return;
    owner.all.add(connection);
    if (!owner.idle.delete(connection)) this.#atWork -= 1;
    if (authenticated === 0) owner.idle.add(connection);
    else this.#atWork += 1;
    connection.authenticated = authenticated;
  }

  #makeRoom(): void {
    this.#tell();
    const idle = this.#strangers.all.size >= this.#most / 4 ? undefined : first(this.#largest((owner) => owner.idle.size > 0)?.idle);
    const given = idle ?? first(this.#strangers.all);
    if (!given) return;
    this.#remove(given);
    given.socket.destroy();
  }

  #tell(): void {
    if (Date.now() - this.#toldMs < TELL_AGAIN_MS) return;
    this.#toldMs = Date.now();
    const largest = this.#largest();
    const who = { most: this.#most, strangers: this.#strangers.all.size, largest_org_id: largest?.id, of_largest_org: largest?.all.size };
    this.#log.warn(who, "MAX_CONNECTIONS is reached: strangers and idle connections of the largest organisation make room for newcomers");
  }

  #largest(has: (owner: Owner) => boolean = () => true): Owner | undefined {
    let largest: Owner | undefined;
    for (const owner of this.#owners.values()) {
      if (owner !== this.#strangers && owner.all.size > (largest?.all.size ?? 0) && has(owner)) largest = owner;
    }
    return largest;
  }
}

function first<T>(set: Set<T> | undefined): T | undefined {
  return set?.values().next().value;
}

/** The same for both objects of a TLS connection. */
function nameOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort}`;
}
