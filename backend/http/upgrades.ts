// Connections that a client wants to turn into WebSockets. Invariant: such a request passes the same hooks and guards as any other, and is
// refused as any other; only its route's handler may take the connection over.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { WebSocket } from "ws";
import { ServerResponse } from "../../agent/common/node-http.ts";

interface Upgrade {
  readonly socket: Socket;
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();
/** What clients say is read and thrown away. */
const MOST_MESSAGE_BYTES = 1024;

/** Only these requests are taken out of the ordinary way: others that name an upgrade are answered as if they did not. */
export function wantsWebSocket({ headers, method }: IncomingMessage): boolean {
  const hasKey = /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "");
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && hasKey && headers["sec-websocket-version"] === "13";
}

export function routeUpgrades(app: FastifyInstance): void {
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    upgrades.set(request, { socket, head });
    const response = new ServerResponse(request);
    // What is refused is the last answer of its connection.
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    app.routing(request, response);
  });
}

export function isUpgrade(request: FastifyRequest): boolean {
  return upgrades.has(request.raw);
}

/** Of a request that is an upgrade; undefined: its client has left. The reply is nobody's to send any more. */
export async function webSocketOf(request: FastifyRequest, reply: FastifyReply): Promise<WebSocket | undefined> {
  // Loaded when somebody follows for the first time.
  const { WebSocketServer } = await import("ws");
  const upgrade = upgrades.get(request.raw);
  reply.hijack();
  if (!upgrade || upgrade.socket.destroyed) return undefined;
  const server = new WebSocketServer({ noServer: true, clientTracking: false, maxPayload: MOST_MESSAGE_BYTES, perMessageDeflate: false });
  const { promise, resolve } = Promise.withResolvers<WebSocket | undefined>();
  upgrade.socket.once("close", () => resolve(undefined));
  server.handleUpgrade(request.raw, upgrade.socket, upgrade.head, resolve);
  return await promise;
}
