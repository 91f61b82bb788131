// Opens several listening sockets of one address for one server. libuv accepts one connection per listening socket in each iteration of
// the event loop, so when unauthenticated clients open hundreds of connections, all new connections would wait behind them for up to half
// a minute. Invariant: a port of another process is refused as usual, although these sockets share theirs (SO_REUSEPORT). If the
// operating system cannot share a port, there is one listening socket.
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

export interface ListenAt {
  readonly host: string;
  readonly port: number;
  readonly backlog: number;
}

export interface MoreListeners {
  /** Accepts no more connections. Resolves when the open ones have ended. */
  close(): Promise<void>;
}

/** In total: the number of connections that one iteration of the event loop accepts. */
const LISTENERS = 64;
const CLOSE_IDLE_EVERY_MS = 100;

/** The options for the first listener, so that others can share its port. Throws like `listen` if the port is taken. */
export async function portSharing({ host, port, backlog }: ListenAt): Promise<{ reusePort: boolean }> {
  const probe = createServer();
  try {
    // The first probe does not share, because a sharing listener could join the listeners of another process.
    if (port !== 0) await untilListening(probe.listen({ host, port, backlog }));
    if (port !== 0) await close(probe);
    await untilListening(probe.listen({ host, port: 0, reusePort: true }));
    await close(probe);
    return { reusePort: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTSUP") return { reusePort: false };
    throw error;
  }
}

/** Adds listeners to a server that already listens with the options of `portSharing`. */
export async function listenMore(server: HttpServer, { host, backlog }: ListenAt): Promise<MoreListeners> {
  const { port } = server.address() as AddressInfo;
  // A plain HTTP client may close its sending side and still expect an answer.
  const { allowHalfOpen } = server as HttpServer & { readonly allowHalfOpen: boolean };
  const more: Server[] = [];
  for (let index = 1; index < LISTENERS; index += 1) {
    // The server's `connection` event starts TLS, connection limits and HTTP, as for a connection of its own listener.
    const listener = createServer({ noDelay: true, allowHalfOpen }, (socket: Socket) => void server.emit("connection", socket));
    if (server.maxConnections) listener.maxConnections = server.maxConnections;
    more.push(listener);
    await untilListening(listener.listen({ host, port, backlog, reusePort: true }));
  }
  return {
    async close() {
      const ended = Promise.all(more.map((listener) => close(listener)));
      // A connection that was busy during the server's own search for idle ones would otherwise stay until its client closes it.
      const closeIdle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS);
      await ended.finally(() => clearInterval(closeIdle));
    },
  };
}

async function untilListening(server: Server): Promise<void> {
  await once(server, "listening");
}

async function close(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  await promise;
}
