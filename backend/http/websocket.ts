// Upgrades requests to WebSockets. Invariant: such a request passes the same hooks and guards as any other and is refused in the same way;
// only the handler of its route may take over the connection.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { WebSocket } from "ws";
import { ServerResponse } from "../../common/http.ts";
import { MAX_MESSAGE_BYTES } from "./limits.ts";

interface Upgrade {
  readonly socket: Socket;
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/** Only these requests are upgraded; requests that name another protocol get a plain HTTP response. */
export function wantsWebSocket({ headers, method }: IncomingMessage): boolean {
  const hasKey = /^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "");
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && hasKey && headers["sec-websocket-version"] === "13";
}

export function routeUpgrades(app: FastifyInstance): void {
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    upgrades.set(request, { socket, head });
    const response = new ServerResponse(request);
    // A refusal is the last response of its connection.
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    app.routing(request, response);
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
  server.handleUpgrade(request.raw, upgrade.socket, upgrade.head, resolve);
  return await promise;
}
