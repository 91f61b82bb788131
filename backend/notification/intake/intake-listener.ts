// Receives the alerts that the embedded evaluator posts (`POST /api/v2/alerts`, as to Alertmanager): a listener on loopback with a password
// that is generated at each start. Invariants: it listens before the evaluator starts, which needs the port, and answers 503 until it has a
// handler; bodies are limited, and few are in memory at once; 200 means that the alerts are in the database. After any other status nothing
// is lost, because the evaluator posts everything again at its next evaluation.
import { randomBytes } from "node:crypto";
import { readAtMost } from "../../../common/read-at-most.ts";
import { ApiError } from "../../errors.ts";
import { hasCredentials, listenInternally, vmalertCredentials } from "../../http/internal-listener.ts";
import { MAX_INTAKE_CONNECTIONS, MAX_POSTED_ALERTS_BYTES, MAX_WAITING_POSTS } from "../notification-limits.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import { FairQueue } from "../../admission/fair-queue.ts";
import type { Intake } from "./intake.ts";

export interface IntakeListener extends AsyncDisposable {
  /** With user and password, for the evaluator. */
  readonly url: string;
  serve(handler: AlertsHandler): void;
}

export const ALERTS_PATH = "/api/v2/alerts";
const LOOPBACK = { host: "127.0.0.1", port: 0 };

export async function startIntakeListener(): Promise<IntakeListener> {
  const password = randomBytes(24).toString("base64url");
  const credentials = vmalertCredentials(password);
  let handler: AlertsHandler | undefined;
  const listener = await listenInternally("a port for the evaluator's alerts", LOOPBACK, MAX_INTAKE_CONNECTIONS, (request, response) => {
    const end = (status: number): void => {
      request.resume();
      response.writeHead(status).end();
    };
    if (!hasCredentials(request, credentials)) return end(401);
    if (request.method !== "POST" || request.url !== ALERTS_PATH) return end(404);
    if (!handler) return end(503);
    void handler(request, response);
  });
  return {
    url: `http://vmalert:${password}@${LOOPBACK.host}:${listener.port}`,
    serve(alertsHandler) {
      handler = alertsHandler;
    },
    [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose](),
  };
}

export type AlertsHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface AlertsEndpointOptions {
  readonly intake: Pick<Intake, "take">;
  /** Called if alerts may be missing in the database. */
  readonly missed: () => void;
  /** Called with the reason if the response is not 200. */
  readonly failed: (error: unknown) => void;
  readonly succeeded: () => void;
}

const CONCURRENT_POSTS = 2;

const tooLarge = (): ApiError => new ApiError("body_too_large", `a request has at most ${MAX_POSTED_ALERTS_BYTES} bytes of alerts`);

export function createAlertsHandler({ intake, missed, failed, succeeded }: AlertsEndpointOptions): AlertsHandler {
  const queue = new FairQueue({ running: CONCURRENT_POSTS, endsSoon: true, waitingPerOrg: MAX_WAITING_POSTS });
  return async (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    try {
      await queue.run(
        "evaluator",
        gone.signal,
        async () => await intake.take(await readAtMost(MAX_POSTED_ALERTS_BYTES, request, tooLarge)),
      );
      respond(response, 200, "{}");
      succeeded();
    } catch (error) {
      request.resume();
      // After a 4xx response only the alerts of this request are missing.
      if (!(error instanceof ApiError) || error.status >= 500) missed();
      if (gone.signal.aborted) return;
      const status = error instanceof ApiError ? error.status : 500;
      respond(response, status, JSON.stringify({ error: error instanceof ApiError ? error.message : "the alerts could not be stored" }));
      failed(error);
    }
  };
}

function respond(response: ServerResponse, status: number, body: string): void {
  if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" }).end(`${body}\n`);
}
