// What the routes of logs and traces do alike: read what a schema cannot, ask in the caller's name, answer a page. Invariant: a client that
// has left is no failure, and its query does not go on without it.
import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import { callerOf } from "../auth/request-identity.ts";
import type { QueryOptions } from "../turns/in-turn.ts";
import type { Answers } from "./answers.ts";
import type { Found } from "./page.ts";
import { nextLink, type Page } from "./time-and-cursor.ts";

/** Answers with the page that `ask` finds, and a Link to the next one. */
export async function answerPage(
  request: FastifyRequest,
  reply: FastifyReply,
  { answers, page, ask }: { answers: Answers; page: Page; ask: (orgId: string, options: QueryOptions) => Promise<Found> },
): Promise<FastifyReply> {
  const { orgId } = callerOf(request);
  const signal = goneSignal(reply);
  try {
    const found = await ask(orgId, { signal, admit: () => answers.admit(orgId) });
    if (found.next) void reply.header("link", nextLink(request, page, found.next));
    void reply.type("application/json; charset=utf-8");
    return answers.send(orgId, reply, [found.json]);
  } catch (error) {
    if (signal.aborted) return reply.code(499).send();
    throw error;
  }
}

/** Aborts when the client has gone before it was answered. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  return gone.signal;
}

/** A filter that is not understood would answer everything. Throws ApiError invalid_parameter naming the first unknown parameter. */
export function refuseUnknown(request: FastifyRequest, known: Readonly<Record<string, unknown>>, prefix: string): void {
  for (const name of Object.keys(request.query as object)) {
    if (Object.hasOwn(known, name) || (name.startsWith(prefix) && name.length > prefix.length)) continue;
    const names = [...Object.keys(known), `${prefix}<key>`].join(", ");
    throw new ApiError("invalid_parameter", `${name.slice(0, 100)}: no such parameter; there is ${names}`);
  }
}
