// Lets an application listen at an address of the settings. Invariant: an address that cannot be used is a StartError that names its setting.
import type { FastifyInstance } from "fastify";
import type { ListenAddress } from "../../common/settings-kinds.ts";
import { cannotListen } from "../errors.ts";
import { closeRoutes } from "./app.ts";
import { addListeners, probePortSharing } from "./listeners.ts";

/** Listens. On disposal it accepts no new connections, and running requests get their responses. */
export async function listen(stack: AsyncDisposableStack, app: FastifyInstance, at: ListenAddress, what: string): Promise<string> {
  await closeRoutes(app);
  // A burst of connections must not be dropped, because clients retry only seconds later. The limit of Linux (somaxconn) is often the same.
  const where = { host: at.host, port: at.port, backlog: 4096 };
  const options = { ...where, listenTextResolver: (url: string) => `${what} listens at ${url}` };
  const refuse = (cause: NodeJS.ErrnoException): never => {
    throw cannotListen(`${what.toUpperCase()}_LISTEN`, at, cause);
  };
  const shared = await probePortSharing(where).catch(refuse);
  const address = await app.listen({ ...options, ...shared }).catch(refuse);
  const additional = shared.reusePort ? await addListeners(app.server, where).catch(refuse) : undefined;
  stack.defer(async () => {
    const ended = additional?.close();
    await app.close();
    await ended;
  });
  return address;
}
