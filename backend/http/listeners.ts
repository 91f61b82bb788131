// Several listeners of one address for one server. libuv takes one new connection of a listener in each turn of the event loop, so where
// turns are long because strangers open hundreds of connections, everybody's new ones wait behind them for half a minute. Invariant: a
// port that another process listens on is refused as ever, although these listeners share theirs; where an operating system cannot
// share a port there is one listener.
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";

export interface ListenAt {
  readonly host: string;
  readonly port: number;
  readonly backlog: number;
}

export interface MoreListeners {
  /** No new connections. Resolves when those that are open have ended. */
  close(): Promise<void>;
}

/** In all: so many connections are taken in each turn. */
const LISTENERS = 64;
const LOOK_FOR_IDLE_MS = 100;

/** What the first listener has to be given, so that more can stand beside it. Throws as `listen` does when the port is taken. */
export async function sharing({ host, port, backlog }: ListenAt): Promise<{ reusePort: boolean }> {
  const probe = createServer();
  try {
    // Alone: a listener that shares its port could join those of another process.
    if (port !== 0) await listening(probe.listen({ host, port, backlog }));
    if (port !== 0) await closed(probe);
    await listening(probe.listen({ host, port: 0, reusePort: true }));
    await closed(probe);
    return { reusePort: true };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTSUP") return { reusePort: false };
    throw error;
  }
}

/** Beside the server's own, which listens already and was given `sharing`. */
export async function listenMore(server: HttpServer, { host, backlog }: ListenAt): Promise<MoreListeners> {
  const { port } = server.address() as AddressInfo;
  // A client of plain HTTP may say that it has sent all, and still be answered.
  const { allowHalfOpen } = server as HttpServer & { readonly allowHalfOpen: boolean };
  const more: Server[] = [];
  for (let index = 1; index < LISTENERS; index += 1) {
    // As the server's own listener does it: for TLS, for the bounds of connections, for requests.
    const listener = createServer({ noDelay: true, allowHalfOpen }, (socket: Socket) => void server.emit("connection", socket));
    if (server.maxConnections) listener.maxConnections = server.maxConnections;
    more.push(listener);
    await listening(listener.listen({ host, port, backlog, reusePort: true }));
  }
  return {
    async close() {
      const ended = Promise.all(more.map((listener) => closed(listener)));
      // One that was at work when the server looked for idle ones would stay for as long as its client likes.
      const looking = setInterval(() => server.closeIdleConnections(), LOOK_FOR_IDLE_MS);
      await ended.finally(() => clearInterval(looking));
    },
  };
}

async function listening(server: Server): Promise<void> {
  await once(server, "listening");
}

async function closed(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  await promise;
}
