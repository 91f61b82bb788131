// Serves requests one after the other on each connection, and few of them in each turn of the event loop. Node's HTTP parser emits every
// request of a packet while earlier ones are unanswered, so one packet could be a thousand requests of work. Invariants: a connection has one
// running request; while others wait behind it, nothing more is read from it; new requests begin for at most `TURN_MS` of a turn, and then
// wait in lines, one for each owner, which take turns; a connection that does not take its response is closed.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { MAX_REQUESTS_PER_CONNECTION, MAX_RESPONSE_STALL_MS } from "./limits.ts";

const TURN_MS = 20;
const CLOSING_MS = 1000;

/** A connection and its unanswered requests. The first one is running, or waits for its turn. */
interface Line {
  readonly socket: Socket;
  readonly requests: (readonly [IncomingMessage, ServerResponse])[];
  /** No request is accepted after these. */
  isClosing: boolean;
}

const lines = new WeakMap<Socket, Line>();

/** Call before the server listens, and after its listener for requests was added. `ownerOf`: the connections that share one line. */
export function serveInTurns(server: Server, ownerOf: (socket: Socket) => string, stallMs = MAX_RESPONSE_STALL_MS): void {
  const listeners = server.listeners("request") as RequestListener[];
  const turns = new Turns(ownerOf, (request, response) => listeners.forEach((listener) => listener(request, response)));
  server.removeAllListeners("request").on("request", (request, response) => turns.add(request, response));
  server.timeout = stallMs;
  // Node.js emits it for idle connections, too, and leaves closing them to this listener.
  server.on("timeout", (socket: Socket) => {
    if (!isServing(socket) || socket.writableLength > 0) socket.destroy();
  });
}

/** True while the connection has unanswered requests. */
export function isServing(socket: Socket): boolean {
  return (lines.get(socket)?.requests.length ?? 0) > 0;
}

class Turns {
  readonly #ownerOf: (socket: Socket) => string;
  readonly #serve: (request: IncomingMessage, response: ServerResponse) => void;
  /** The connections whose first request waits, by owner. */
  readonly #waiting = new Map<string, Line[]>();
  #beganMs: number | undefined;

  constructor(ownerOf: (socket: Socket) => string, serve: (request: IncomingMessage, response: ServerResponse) => void) {
    this.#ownerOf = ownerOf;
    this.#serve = serve;
  }

  add(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    const line = lines.get(socket) ?? { socket, requests: [], isClosing: false };
    lines.set(socket, line);
    const { length } = line.requests;
    if (length >= MAX_REQUESTS_PER_CONNECTION) {
      line.isClosing = true;
      return stopParser(socket);
    }
    line.requests.push([request, response]);
    if (length === 1) hold(socket);
    if (length > 0) return;
    if (this.#waiting.size === 0 && this.#hasTime()) this.#run(line);
    else this.#enqueue(line);
  }

  #hasTime(): boolean {
    const nowMs = performance.now();
    if (this.#beganMs !== undefined) return nowMs - this.#beganMs < TURN_MS;
    this.#beganMs = nowMs;
    setImmediate(() => this.#turn());
    return true;
  }

  #enqueue(line: Line): void {
    const owner = this.#ownerOf(line.socket);
    const others = this.#waiting.get(owner);
    if (others) others.push(line);
    else this.#waiting.set(owner, [line]);
    this.#hasTime();
  }

  /** Runs after all sockets of the last turn were read. */
  #turn(): void {
    this.#beganMs = undefined;
    if (this.#waiting.size === 0) return;
    this.#hasTime();
    const next = (): void => {
      const line = this.#take();
      if (!line) return;
      this.#run(line);
      // After everything that the request does at once, so that its time counts.
      if (this.#hasTime()) queueMicrotask(() => process.nextTick(next));
    };
    next();
  }

  #take(): Line | undefined {
    for (const [owner, waiting] of this.#waiting) {
      const line = waiting.shift();
      this.#waiting.delete(owner);
      if (waiting.length > 0) this.#waiting.set(owner, waiting);
      return line;
    }
    return undefined;
  }

  #run(line: Line): void {
    const [request, response] = line.requests[0] ?? [];
    if (!request || !response || line.socket.destroyed) return;
    response.once("close", () => this.#end(line));
    this.#serve(request, response);
  }

  #end(line: Line): void {
    line.requests.shift();
    const { socket, requests, isClosing } = line;
    if (requests.length === 1) release(socket, requests[0]?.[0]);
    if (requests.length > 0) this.#enqueue(line);
    else if (isClosing) socket.destroySoon();
  }
}

const holds = new WeakMap<Socket, number>();

/** Reads nothing more from the connection until `release` was called as often. Node.js resumes a socket in many places. */
export function hold(socket: Socket): void {
  const count = holds.get(socket);
  if (count === undefined) socket.on("resume", pauseIfHeld);
  holds.set(socket, (count ?? 0) + 1);
  socket.pause();
}

/** `request`: the one whose body is being read. If it is full of unread bytes, its reader resumes the connection. */
export function release(socket: Socket, request: IncomingMessage | undefined): void {
  const count = (holds.get(socket) ?? 0) - 1;
  holds.set(socket, count);
  const isFull = request && !request.complete && request.readableLength >= request.readableHighWaterMark;
  if (count === 0 && !socket.destroyed && !isFull) socket.resume();
}

function pauseIfHeld(this: Socket): void {
  if ((holds.get(this) ?? 0) > 0) this.pause();
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
