// Bounds the connections of one listener, and what one of them may ask at once. Invariant: no more than `most` are open. A newcomer is
// let in at the cost of a stranger (a connection on which nobody was authenticated yet; the one that was used least recently) while
// strangers have a quarter, else of an idle connection of the organisation that has most. So strangers cannot take the place
// of the authenticated, nor one organisation that of another, and a newcomer has time to say who it is.
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { rawAnswer } from "./error-answer.ts";
import { ApiError } from "./errors.ts";
import type { Log } from "./log.ts";

/** Requests of one connection that may be under way: clients that do not pipeline have one. */
const MAX_UNDER_WAY = 16;
/** Connections that are being refused, above `most`; what comes beyond them is closed without a word. */
const MAX_REFUSED = 256;
const REFUSAL_MS = 1000;
const RETRY_AFTER_S = 2;
const TELL_AGAIN_MS = 60_000;
/** How long a stranger's connection stays open between two requests. */
export const STRANGER_IDLE_S = 5;

interface Connection {
  socket: Socket;
  owner: Owner;
  underWay: number;
}

/** An organisation, or all strangers. Both sets are in the order of last use. */
interface Owner {
  readonly id: string;
  readonly all: Set<Connection>;
  readonly idle: Set<Connection>;
}

export class Connections {
  readonly #most: number;
  readonly #strangers: Owner = { id: "", all: new Set(), idle: new Set() };
  readonly #owners = new Map<string, Owner>([["", this.#strangers]]);
  readonly #known = new WeakMap<Socket, Connection>();
  readonly #refused = new WeakSet<Socket>();
  readonly #log: Pick<Log, "warn">;
  #open = 0;
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(most: number, log: Pick<Log, "warn">) {
    this.#most = most;
    this.#log = log;
  }

  /** Watches a server, plain or TLS. Before it listens. */
  watch(server: Server): void {
    server.maxConnections = this.#most + MAX_REFUSED;
    const handshakes = new Map<string, Connection>();
    const isTls = "setSecureContext" in server;
    server.on("connection", (socket: Socket) => {
      if (this.#open >= this.#most && !this.#makeRoom()) {
        this.#refused.add(socket);
        return refuse(socket, isTls);
      }
      const connection = { socket, owner: this.#strangers, underWay: 0 };
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
    if (this.#refused.has(socket)) throw tooMany();
    const connection = this.#known.get(socket);
    if (!connection) return;
    connection.underWay += 1;
    connection.owner.idle.delete(connection);
    if (connection.underWay > MAX_UNDER_WAY)
      throw new ApiError("unavailable", `more than ${MAX_UNDER_WAY} requests are under way on this connection`, { retryAfterS: 1 });
  }

  /** A request is over; `orgId`: whose it was, as authenticated. */
  end(socket: Socket, orgId: string | undefined): void {
    const connection = this.#known.get(socket);
    if (!connection) return;
    connection.underWay -= 1;
    if (socket.destroyed) return;
    this.#remove(connection);
    if (orgId !== undefined) connection.owner = this.#ownerOf(orgId);
    this.#file(connection);
    if (connection.underWay === 0 && connection.owner === this.#strangers) socket.setTimeout(STRANGER_IDLE_S * 1000);
  }

  isStranger(socket: Socket): boolean {
    return this.#known.get(socket)?.owner === this.#strangers;
  }

  #ownerOf(id: string): Owner {
    const owner = this.#owners.get(id) ?? { id, all: new Set(), idle: new Set() };
    this.#owners.set(id, owner);
    return owner;
  }

  #file(connection: Connection): void {
    const { owner } = connection;
    owner.all.add(connection);
    this.#open += 1;
    if (connection.underWay === 0) owner.idle.add(connection);
    this.#owners.set(owner.id, owner);
  }

  #remove(connection: Connection): void {
    const { owner } = connection;
    if (owner.all.delete(connection)) this.#open -= 1;
    owner.idle.delete(connection);
    if (owner.all.size === 0 && owner !== this.#strangers) this.#owners.delete(owner.id);
  }

  #makeRoom(): boolean {
    this.#tell();
    const given = this.#strangers.all.size >= this.#most / 4 ? first(this.#strangers.all) : first(this.#largest()?.idle);
    if (!given) return false;
    this.#remove(given);
    given.socket.destroy();
    return true;
  }

  #tell(): void {
    if (Date.now() - this.#toldMs < TELL_AGAIN_MS) return;
    this.#toldMs = Date.now();
    const largest = this.#largest();
    const who = { most: this.#most, strangers: this.#strangers.all.size, largest_org_id: largest?.id, of_largest_org: largest?.all.size };
    this.#log.warn(who, "MAX_CONNECTIONS is reached: strangers and idle connections of the largest organisation make room for newcomers");
  }

  #largest(): Owner | undefined {
    let largest: Owner | undefined;
    for (const owner of this.#owners.values()) {
      if (owner !== this.#strangers && owner.all.size > (largest?.all.size ?? 0)) largest = owner;
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

/** Tells a plain client why, and takes what it has already sent, or it would see a reset instead. A TLS client would have to be let in. */
function refuse(socket: Socket, isTls: boolean): void {
  if (isTls) return void socket.destroy();
  const timer = setTimeout(() => socket.destroy(), REFUSAL_MS);
  socket.once("close", () => clearTimeout(timer)).on("error", () => undefined);
  socket.end(rawAnswer(tooMany()));
}

function tooMany(): ApiError {
  return new ApiError("unavailable", "too many connections: try again", { retryAfterS: RETRY_AFTER_S });
}
