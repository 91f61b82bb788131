// Bounds the connections of a listener that serves no tenants: health, rules. Invariant: no more than `most` are open, and a newcomer is
// always let in, at the cost of the one that was opened first; so whoever holds connections keeps no probe and no evaluator out.
import type { Server } from "node:http";
import type { Socket } from "node:net";

/** Before it listens. */
export function keepNewestConnections(server: Server, most: number): void {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    const [oldest] = open;
    if (open.size >= most && oldest) {
      open.delete(oldest);
      oldest.destroy();
    }
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
}
