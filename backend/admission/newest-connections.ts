// Limits the connections of a listener that serves no tenants: health, rules. Invariant: at most `limit` connections are open, and a new
// connection is always accepted by closing the oldest, so a client that keeps connections open cannot block probes or the evaluator.
import type { Server } from "node:http";
import type { Socket } from "node:net";

/** Call it before the server listens. */
export function keepNewestConnections(server: Server, limit: number): void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    const [oldest] = open;
    if (open.size >= limit && oldest) {
      open.delete(oldest);
      oldest.destroy();
    }
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
}
