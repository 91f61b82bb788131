// Answers the evaluator's `POST /api/v2/alerts`, as Alertmanager does. Invariants: only what has shown the password gets here; a body is
// bounded, few are held at once, and others wait unread; 200 says that what is wanted of it is in the database. Where it says anything
// else nothing is lost: the evaluator says everything again at its next evaluation.
import type { IncomingMessage, ServerResponse } from "node:http";
import { FairQueue, QueueFullError } from "../../admission/fair-queue.ts";
import { ApiError } from "../../errors.ts";
import { MAX_POSTED_ALERTS_BYTES, MAX_WAITING_POSTS } from "../limits.ts";
import type { Intake } from "./intake.ts";

export type AlertsHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export interface AlertsEndpointOptions {
  readonly intake: Pick<Intake, "take">;
  /** Something of it may not be in the database. */
  readonly missed: () => void;
  /** Why the evaluator was not answered 200. */
  readonly failed: (error: unknown) => void;
  readonly succeeded: () => void;
}

const AT_ONCE = 2;

export function alertsHandler({ intake, missed, failed, succeeded }: AlertsEndpointOptions): AlertsHandler {
  const turns = new FairQueue({ running: AT_ONCE, perOrg: AT_ONCE, waitingPerOrg: MAX_WAITING_POSTS });
  return async (request, response) => {
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    try {
      await turns.run("evaluator", gone.signal, async () => await intake.take(await bodyOf(request)));
      answer(response, 200, "{}");
      succeeded();
    } catch (error) {
      request.resume();
      // One that is refused says nothing of the others'.
      if (!(error instanceof ApiError) || error.status >= 500) missed();
      if (gone.signal.aborted) return;
      const status = error instanceof ApiError ? error.status : error instanceof QueueFullError ? 503 : 500;
      answer(response, status, JSON.stringify({ error: error instanceof ApiError ? error.message : "the alerts could not be kept" }));
      failed(error);
    }
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_POSTED_ALERTS_BYTES) throw new ApiError("body_too_large", `at most ${MAX_POSTED_ALERTS_BYTES} bytes of alerts at once`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function answer(response: ServerResponse, status: number, body: string): void {
  if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" }).end(`${body}\n`);
}
