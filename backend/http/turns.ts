// Serves requests one after the other on each connection, and few of them in each turn of the event loop. Node's HTTP parser emits every
// request of a packet while earlier ones are unanswered, so one packet could be a thousand requests of work. Invariants: a connection has one
// running request; while others wait behind it, nothing more is read from it; new requests begin for at most `TURN_MS` of a turn, and then
// wait in lines, one for each owner, which take turns; a connection that does not take its response is closed.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Http2Server } from "node:http2";
import type { Server as TlsServer } from "node:tls";
import { networkOf } from "./http-client.ts";
import { MAX_REQUESTS_PER_CONNECTION, MAX_RESPONSE_STALL_MS } from "./http-limits.ts";

const TURN_MS = 10;
const CLOSING_MS = 1000;

/** A connection and its unanswered requests. The first one is running, or waits for its turn. */
interface Line {
  readonly socket: Socket;
  readonly requests: (readonly [IncomingMessage, ServerResponse])[];
  /** No request is accepted after these. */
  isClosing: boolean;
}

const lines = new WeakMap<Socket, Line>();
const entrances = new WeakMap<Server, (socket: Socket, work: () => void) => void>();

/** Call before the server listens, and after its listener for requests was added. `ownerOf`: the connections that share one line. */
export function serveInTurns(server: Server, ownerOf: (socket: Socket) => string, stallMs = MAX_RESPONSE_STALL_MS): void {
  const listeners = server.listeners("request") as RequestListener[];
  const turns = new Turns();
  entrances.set(server, (socket, work) => turns.enter(ownerOf(socket), work));
  const run = (line: Line): void => {
    const [request, response] = line.requests[0] ?? [];
    if (!request || !response || line.socket.destroyed) return;
    // Emitted once. `once` costs more, and this runs for every request.
    response.on("close", () => end(line));
    for (const serve of listeners) serve(request, response);
  };
  const end = (line: Line): void => {
    line.requests.shift();
    const { socket, requests, isClosing } = line;
    if (requests.length === 1) release(socket, requests[0]?.[0]);
    if (requests.length > 0) turns.wait(ownerOf(socket), () => run(line));
    // Node.js may have marked a response that had already ended as the last one of a client that has closed its sending side.
    else if (isClosing || socket.readableEnded) socket.destroySoon();
  };
  server.removeAllListeners("request").on("request", (request, response) => {
    const { socket } = request;
    const line = lines.get(socket) ?? openLine(socket);
    const { length } = line.requests;
    if (length >= MAX_REQUESTS_PER_CONNECTION) {
      line.isClosing = true;
      return stopParser(socket);
    }
    line.requests.push([request, response]);
    if (length === 1) hold(socket);
    if (length === 0) turns.enter(ownerOf(socket), () => run(line));
  });
  // Without it, Node.js closes the connection of a client that has closed its sending side, although its request is being served.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.timeout = stallMs;
  // Node.js emits it for idle connections, too, and leaves closing them to this listener.
  server.on("timeout", (socket: Socket) => {
    if (!isServing(socket) || socket.writableLength > 0) socket.destroy();
  });
}

function openLine(socket: Socket): Line {
  const line = { socket, requests: [], isClosing: false };
  lines.set(socket, line);
  return line;
}

/** Runs work that begins a request outside of the lines (an upgrade) in its turn. */
export function enterTurn(server: Server, socket: Socket, work: () => void): void {
  const enter = entrances.get(server);
  if (enter) enter(socket, work);
  else work();
}

/**
 * Reads nothing more, and closes the connection when the requests that have arrived whole have their responses. False if there are none:
 * only then may the caller respond to what came last, because a client takes the next response for that of its first request.
 */
export function closeAfterServing(socket: Socket): boolean {
  const line = lines.get(socket);
  if (!line?.requests[0]?.[0].complete) return false;
  if (!line.requests.at(-1)?.[0].complete) line.requests.pop();
  line.isClosing = true;
  stopParser(socket);
  hold(socket);
  return true;
}

/** Call for a connection that left Node's HTTP server (CONNECT, upgrade): it has no listener for errors any more, and would end the process. */
export function ignoreErrors(socket: Socket): void {
  socket.on("error", () => undefined);
}

/** True while the connection has unanswered requests; with `request`, while that one is the next to be answered. */
export function isServing(socket: Socket, request?: IncomingMessage): boolean {
  const first = lines.get(socket)?.requests[0]?.[0];
  return first !== undefined && (request ?? first) === first;
}

/**
 * Begins few connections of TLS or HTTP/2 in each turn, when the first bytes have arrived: a handshake, or the calls in the first packet,
 * take milliseconds, and hundreds of connections can begin at once. Call before listeners that need connections when they are accepted.
 */
export function beginInTurns(server: Http2Server | TlsServer, withinMs: number): void {
  const listeners = server.listeners("connection");
  const turns = new Turns();
  server.removeAllListeners("connection").on("connection", (socket: Socket) => {
    const close = (): void => void socket.destroy();
    socket.on("error", close).setTimeout(withinMs, close);
    socket.once("readable", () => {
      if (socket.readableLength === 0) return close();
      turns.enter(networkOf(socket.remoteAddress ?? ""), () => {
        socket.setTimeout(0, close);
        if (!socket.destroyed) for (const listener of listeners) listener.call(server, socket);
      });
    });
  });
}

/** Runs work for at most `TURN_MS` of a turn; the rest waits in lines, one for each owner. */
class Turns {
  readonly #waiting = new Map<string, (() => void)[]>();
  #beganMs: number | undefined;

  /** Runs the work now, or in its turn. */
  enter(owner: string, work: () => void): void {
    if (this.#waiting.size === 0 && this.#hasTime()) work();
    else this.wait(owner, work);
  }

  wait(owner: string, work: () => void): void {
    const others = this.#waiting.get(owner);
    if (others) others.push(work);
    else this.#waiting.set(owner, [work]);
    this.#hasTime();
  }

  #hasTime(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs !== undefined) return nowMs - this.#beganMs < TURN_MS;
    this.#beganMs = nowMs;
    setImmediate(() => this.#turn());
    return true;
  }

  /** Runs after all sockets of the last turn were read. */
  #turn(): void {
    this.#beganMs = undefined;
    if (this.#waiting.size === 0) return;
    this.#hasTime();
    const next = (): void => {
      this.#take()?.();
      // After everything that the work does at once, so that its time counts.
      if (this.#waiting.size > 0 && this.#hasTime()) queueMicrotask(() => process.nextTick(next));
    };
    next();
  }

  #take(): (() => void) | undefined {
    for (const [owner, waiting] of this.#waiting) {
      const work = waiting.shift();
      this.#waiting.delete(owner);
      if (waiting.length > 0) this.#waiting.set(owner, waiting);
      return work;
    }
    return undefined;
  }
}

const holds = new WeakMap<Socket, number>();

/** Reads nothing more from the connection until `release` was called as often. Node.js resumes a socket in many places. */
export function hold(socket: Socket): void {
  const count = holds.get(socket);
  if (count === undefined) socket.on("resume", pauseIfHeld);
  holds.set(socket, (count ?? 0) + 1);
  stopReading(socket);
}

/**
 * `pause` alone has no effect on a socket that is paused already. But Node.js emits `resume` a tick later than it is called, and then reads
 * again although `pause` was called in between.
 */
function stopReading(socket: Socket): void {
  socket.pause();
  socket.emit("pause");
}

/** `request`: the one whose body is being read. If it is full of unread bytes, its reader resumes the connection. */
export function release(socket: Socket, request: IncomingMessage | undefined): void {
  const count = (holds.get(socket) ?? 0) - 1;
  holds.set(socket, count);
  const isFull = request && !request.complete && request.readableLength >= request.readableHighWaterMark;
  if (count === 0 && !socket.destroyed && !isFull) socket.resume();
}

function pauseIfHeld(this: Socket): void {
  if ((holds.get(this) ?? 0) > 0) stopReading(this);
}

/**
 * Reads nothing more, and closes the connection when the client has had time to take the response: if unread bytes are left, closing at
 * once resets the connection, and the client may lose the response.
 */
export function closeUnread(socket: Socket): void {
  stopParser(socket);
  hold(socket);
  if (socket.writable) socket.end();
  const timer = setTimeout(() => socket.destroy(), CLOSING_MS);
  socket.once("close", () => clearTimeout(timer));
}

/**
 * Stops Node's HTTP parser in the middle of a packet. Call when the socket is ended or destroyed, because closing is not enough: the parser
 * would still emit every request in the bytes that it already has, over a thousand small requests per packet of 64 KiB.
 */
export function stopParser(socket: Socket): void {
  // `remove` is not public. It detaches the parser from its connection; the parser then stops before its next callback.
  (socket as Socket & { readonly parser?: { remove?(): void } | null }).parser?.remove?.();
}
