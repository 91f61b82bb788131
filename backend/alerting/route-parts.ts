// What all routes of the alerting service have: who may, what is told of it, how its errors are answered.
import type { FastifySchema, RouteShorthandOptions } from "fastify";
import type { Guards } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { ClientGoneError } from "../http/client-gone.ts";
import { READERS } from "../http/openapi.ts";
import { answerOf } from "./api-description.ts";

/** Makes the options of a route; `operation` is its method and path, such as `GET /rules`. */
export function routeFor(guards: Guards) {
  return (who: "reader" | "viewer" | "admin", operation: string, summary: string, schema: FastifySchema = {}): RouteShorthandOptions => ({
    onRequest: who === "reader" ? guards.reader() : guards.user(who),
    schema: {
      tags: ["alerting"],
      security: who === "reader" ? READERS : [{ session: [] }],
      summary,
      ...schema,
      described: { ...schema.described, response: answerOf(operation) },
    },
    errorHandler: (error, _request, reply) => {
      // Nobody is there to be answered, and it is no failure to log.
      if (error instanceof ClientGoneError) return void reply.code(499).send();
      throw withContractStatus(error);
    },
  });
}

/** The contract of this service knows 500 where others answer 502. */
export function withContractStatus(error: unknown): unknown {
  const away = error instanceof ApiError && error.code === "storage_unavailable";
  return away
    ? new ApiError("internal", "the database cannot be reached: try again", { cause: error, retryAfterS: error.retryAfterS })
    : error;
}
