// Upgrades requests to WebSockets. Invariant: such a request passes the same hooks and guards as any other and is refused in the same way;
// only the handler of its route may take over the connection.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { WebSocket } from "ws";
import { ServerResponse } from "../../common/http.ts";
import { MAX_CLIENT_BYTES_PER_MINUTE, MAX_MESSAGE_BYTES } from "./http-limits.ts";
import { closeUnread, enterTurn, ignoreErrors, isServing } from "./turns.ts";

interface Upgrade {
  readonly socket: Socket;
  readonly head: Buffer;
}

/** A close code of RFC 6455. */
const POLICY_VIOLATION = 1008;

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/** Only these requests are upgraded; requests that name another protocol get a plain HTTP response. */
export function wantsWebSocket({ headers, method }: IncomingMessage): boolean {
  const hasKey = /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "");
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && hasKey && headers["sec-websocket-version"] === "13";
}

export function routeUpgrades(app: FastifyInstance): void {
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    ignoreErrors(socket);
    // A response to an earlier request cannot be followed by another protocol.
    if (isServing(socket)) {
      socket.destroy();
      return;
    }
    upgrades.set(request, { socket, head });
    const response = new ServerResponse(request);
    // A refusal is the last response of its connection.
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    enterTurn(app.server, socket, () => {
      if (!socket.destroyed) app.routing(request, response);
    });
  });
}

export function isUpgrade(request: FastifyRequest): boolean {
  return upgrades.has(request.raw);
}

/** Upgrades the request; undefined if its client has disconnected. The caller must not use `reply` afterwards. */
export async function acceptWebSocket(request: FastifyRequest, reply: FastifyReply): Promise<WebSocket | undefined> {
  // Loaded on first use, because most backends serve no WebSocket.
  const { WebSocketServer } = await import("ws");
  const upgrade = upgrades.get(request.raw);
  reply.hijack();
  if (!upgrade || upgrade.socket.destroyed) return undefined;
  const server = new WebSocketServer({ noServer: true, clientTracking: false, maxPayload: MAX_MESSAGE_BYTES, perMessageDeflate: false });
  const { promise, resolve } = Promise.withResolvers<WebSocket | undefined>();
  upgrade.socket.once("close", () => resolve(undefined));
  server.handleUpgrade(request.raw, upgrade.socket, upgrade.head, (webSocket) => {
    limitClient(webSocket, upgrade.socket);
    resolve(webSocket);
  });
  return await promise;
}

/**
 * Clients have nothing to say but pongs. Bytes are counted before ws reads them, because one packet can be ten thousand frames; six bytes
 * are a frame, so this limits frames, too.
 */
function limitClient(webSocket: WebSocket, socket: Socket): void {
  const readers = socket.listeners("data") as ((data: Buffer) => void)[];
  let bytes = 0;
  let sinceMs = performance.now();
  socket.removeAllListeners("data").on("data", (data: Buffer) => {
    const nowMs = performance.now();
    if (nowMs - sinceMs > 60_000) [bytes, sinceMs] = [0, nowMs];
    bytes += data.length;
    if (bytes <= MAX_CLIENT_BYTES_PER_MINUTE) return readers.forEach((read) => read.call(socket, data));
    socket.removeAllListeners("data");
    webSocket.close(POLICY_VIOLATION, "the client sends too much");
    closeUnread(socket);
    // Otherwise ws would read what is left.
    socket.prependOnceListener("close", () => void socket.read());
  });
}
