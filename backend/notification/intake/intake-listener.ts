// Where the embedded evaluator posts alerts: a loopback listener of its own, with a password that is made anew at each start. Invariant: it
// listens before the evaluator starts, which has to know the port; until alerts are accepted it answers 503.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "../../../common/http.ts";
import { keepNewestConnections } from "../../admission/newest-connections.ts";
import { cannotListen } from "../../startup-error.ts";
import { MAX_INTAKE_CONNECTIONS } from "../limits.ts";
import type { AlertsHandler } from "./alerts-endpoint.ts";

export interface IntakeListener extends AsyncDisposable {
  /** With user and password, for the evaluator. */
  readonly url: string;
  serve(handler: AlertsHandler): void;
}

export const ALERTS_PATH = "/api/v2/alerts";
const USER = "vmalert";
const LOOPBACK = { host: "127.0.0.1", port: 0 };

/** Resolves once it listens. */
export async function startIntakeListener(): Promise<IntakeListener> {
  const password = randomBytes(24).toString("base64url");
  const expected = digest(`Basic ${Buffer.from(`${USER}:${password}`).toString("base64")}`);
  let handler: AlertsHandler | undefined;
  const server = createServer((request, response) => {
    const end = (status: number): void => {
      request.resume();
      response.writeHead(status).end();
    };
    if (!timingSafeEqual(digest(request.headers.authorization ?? ""), expected)) return end(401);
    if (request.method !== "POST" || request.url !== ALERTS_PATH) return end(404);
    if (!handler) return end(503);
    void handler(request, response);
  });
  server.requestTimeout = 10_000;
  keepNewestConnections(server, MAX_INTAKE_CONNECTIONS);
  server.listen(LOOPBACK.port, LOOPBACK.host);
  await once(server, "listening").catch((cause: NodeJS.ErrnoException) => {
    throw cannotListen("a port for the evaluator's alerts", LOOPBACK, cause);
  });
  return {
    url: `http://${USER}:${password}@${LOOPBACK.host}:${(server.address() as AddressInfo).port}`,
    serve(serving) {
      handler = serving;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Of equal length, so that they can be compared in constant time. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
