// Adds the routes of the alerting service to its own address, and to the API's address under `/alerting`. Invariant: both have the same
// routes and handlers, and the same statuses: a database that cannot be reached is 500 on these routes, as the contract says.
import type { FastifyInstance } from "fastify";
import type { Guards } from "../http/request-identity.ts";
import { EvaluatorBusyError } from "../engines/vmalert/vmalert-client.ts";
import { ApiError } from "../errors.ts";
import { addRoutes, type Route } from "../http/route.ts";

/** Adds the routes at the service's own address. */
export function addServiceRoutes(app: FastifyInstance, guards: Partial<Guards>, routes: readonly Route[]): void {
  addRoutes(
    app,
    guards,
    routes.map((route) => ({ ...route, errorHandler })),
  );
}

/** Adds the routes at the API's address: all under `/alerting`; those of Prometheus also next to the API's other Prometheus routes. */
export function addRoutesToApi(app: FastifyInstance, guards: Partial<Guards>, routes: readonly Route[]): void {
  addServiceRoutes(
    app,
    guards,
    routes.flatMap((route) => [
      { ...route, path: `/alerting${route.path}` },
      ...(route.path.startsWith("/prometheus/") ? [{ ...route, path: `/query${route.path}` }] : []),
    ]),
  );
}

function errorHandler(error: unknown): never {
  if (error instanceof EvaluatorBusyError)
    throw new ApiError("unavailable", "the rule evaluator is overloaded: try again", { cause: error, retryAfterS: 2 });
  throw error instanceof ApiError && error.code === "storage_unavailable"
    ? new ApiError("internal", "the database cannot be reached: try again", { cause: error, retryAfterS: error.retryAfterS })
    : error;
}
