// Opens the listeners for clients that are not tenants: probes, scrapers and vmalert. Invariant: a client that keeps connections open cannot
// block others, because the oldest connection is closed when there are too many.
import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer, keepNewestConnections } from "../../common/http.ts";
import { CountedRequest } from "./counted-request.ts";
import { drainBody } from "./small-bodies.ts";
import { serveInTurns } from "./turns.ts";
import { cannotListen } from "../errors.ts";

const REQUEST_TIMEOUT_MS = 10_000;

export interface InternalListener extends AsyncDisposable {
  /** The port that the system chose if the port of the address is 0. */
  readonly port: number;
}

/** Resolves once the server listens. Throws a StartError that calls the address `setting`. */
export async function listenInternally(
  setting: string,
  { host, port }: { readonly host: string; readonly port: number },
  maxConnections: number,
  onRequest: RequestListener,
): Promise<InternalListener> {
  const server = createServer({ IncomingMessage: CountedRequest }, (request, response) => {
    response.once("finish", () => drainBody(request));
    onRequest(request, response);
  });
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  serveInTurns(server, () => "");
  keepNewestConnections(server, maxConnections);
  server.listen(port, host);
  await once(server, "listening").catch((cause: NodeJS.ErrnoException) => {
    throw cannotListen(setting, { host, port }, cause);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The digest of the Authorization header that vmalert sends with this password. Digests can be compared in constant time. */
export function vmalertCredentials(password: string): Buffer {
  return digest(`Basic ${Buffer.from(`vmalert:${password}`).toString("base64")}`);
}

export function hasCredentials({ headers }: IncomingMessage, credentials: Buffer): boolean {
  return timingSafeEqual(digest(headers.authorization ?? ""), credentials);
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
