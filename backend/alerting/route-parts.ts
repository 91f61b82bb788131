// What all routes of the alerting service have: who may, what is told of it, how its errors are answered.
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, RouteShorthandOptions } from "fastify";
import type { Guards } from "../auth/request-identity.ts";
import { EvaluatorBusyError } from "../engines/vmalert/client.ts";
import { ApiError } from "../errors.ts";
import { ClientGoneError } from "../http/client.ts";
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
    errorHandler: answerServiceError,
  });
}

/** A route that another part of the service brings along; the API's address forwards it like those of rules. */
export interface ServiceRoute {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Such as `/silences/:id`, which is the only parameter that there may be. */
  readonly path: string;
  /** `reader`: of GET only. */
  readonly who: "reader" | "viewer" | "admin";
  readonly summary: string;
  readonly body?: object;
  readonly querystring?: object;
  /** Told, and read by the handler itself. */
  readonly toldQuery?: object;
  /** Status → schema. */
  readonly response: Readonly<Record<number, object>>;
  /** Errors that another program reads in its own form. */
  readonly otherErrors?: {
    /** Status → schema of that form. */
    readonly described: Readonly<Record<number, object>>;
    readonly onSend: (request: FastifyRequest, reply: FastifyReply, payload: unknown) => Promise<unknown>;
  };
}

/** Adds the route on the service's own application. */
export function addServiceRoute<Body = unknown, Query = unknown>(
  app: FastifyInstance,
  guards: Guards,
  route: ServiceRoute,
  handler: (request: FastifyRequest<{ Body: Body; Querystring: Query }>, reply: FastifyReply) => Promise<unknown>,
): void {
  const { method, path, who, body, querystring, toldQuery, response, otherErrors } = route;
  app.route<{ Body: Body; Querystring: Query }>({
    method,
    url: path,
    onRequest: who === "reader" ? guards.reader() : guards.user(who),
    schema: {
      ...descriptionOf(route),
      ...(body !== undefined && { body }),
      ...(querystring !== undefined && { querystring }),
      described: {
        response,
        ...(toldQuery !== undefined && { querystring: toldQuery }),
        ...(otherErrors && { otherErrors: otherErrors.described }),
      },
    },
    errorHandler: answerServiceError,
    ...(otherErrors && { onSend: otherErrors.onSend }),
    handler,
  });
}

/** What is said of it wherever it is. */
export function descriptionOf({ who, summary }: ServiceRoute): FastifySchema {
  return { tags: ["alerting"], security: who === "reader" ? READERS : [{ session: [] }], summary };
}

function answerServiceError(error: unknown, _request: FastifyRequest, reply: FastifyReply): void {
  // Nobody is there to be answered, and it is no failure to log.
  if (error instanceof ClientGoneError) return void reply.code(499).send();
  throw withContractStatus(error);
}

/** The contract of this service knows 500 where others answer 502. What took too long is 503 here, too. */
export function withContractStatus(error: unknown): unknown {
  if (error instanceof EvaluatorBusyError)
    return new ApiError("unavailable", "the evaluator of rules has too much to do: try again", { cause: error, retryAfterS: 2 });
  const away = error instanceof ApiError && error.code === "storage_unavailable";
  return away
    ? new ApiError("internal", "the database cannot be reached: try again", { cause: error, retryAfterS: error.retryAfterS })
    : error;
}
