// Defines how a route is declared: its method and path, who may call it, the schemas of its request and its responses, and its handler.
// `addRoutes` adds every route of the backend, and /openapi.json is generated from the same declarations. Invariant: a route is authorised
// before any of its body is read.
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestAsyncHookHandler,
  onSendAsyncHookHandler,
  RouteOptions,
} from "fastify";
import { type Guards, type KeyKind, labelLimitsOf, type Role } from "./request-identity.ts";
import { ApiError, ERROR_CODES, type ErrorCode } from "../errors.ts";

/**
 * Who may call a route: anyone, a session or a read token (`reader`), a session with at least this role, a key of one of these kinds, or a
 * caller that the guard of the route accepts.
 */
export type Access = "anyone" | "reader" | Role | { readonly keys: readonly KeyKind[] } | RouteGuard;

export interface RouteGuard {
  /** Names of security schemes of http/openapi.ts. */
  readonly security: readonly (
    | "browser"
    | "identityToken"
    | "ingestToken"
    | "ingestTokenAsApiKey"
    | "ingestTokenAsPassword"
    | "installToken"
    | "session"
    | "signature"
  )[];
  readonly onRequest: onRequestAsyncHookHandler;
}

export interface RouteDeclaration {
  readonly method: Method | readonly Method[];
  readonly path: string;
  readonly access: Access;
  /**
   * What a caller with limits to values of labels gets. `filtered`: only what it may see, or data that does not depend on telemetry.
   * Default: refused with 403, so a new route shows such a caller nothing.
   */
  readonly limited?: "filtered" | "refused";
  /** The group in the API description. */
  readonly tag?: "accounts" | "alerting" | "enrolment" | "ingest" | "ingest tokens" | "jaeger" | "loki" | "metrics" | "saved";
  /** If missing, the route is not part of the API description. */
  readonly summary?: string;
  readonly description?: string;
  readonly params?: object;
  readonly query?: object;
  readonly headers?: object;
  readonly body?: object;
  /** A missing body is valid, and becomes `{}` if `body` is set. */
  readonly bodyIsOptional?: boolean;
  /** Content types of the body, for the API description. */
  readonly consumes?: readonly string[];
  /** Status → schema. Responses contain only the fields of their schema. */
  readonly response?: Readonly<Record<number, object>>;
  /** For the API description only: the handler or an engine validates requests, and responses are sent unchanged. */
  readonly documented?: {
    readonly query?: object;
    readonly body?: object;
    readonly response?: Readonly<Record<number, object>>;
  };
  /** Error codes beyond those of every route with this method and access. */
  readonly errors?: readonly ErrorCode[];
  /** Errors in the format of another API. */
  readonly otherErrors?: {
    /** Status → schema. */
    readonly schemas: Readonly<Record<number, object>>;
    /** Converts the payload; missing if an engine or the error handler already does. */
    readonly onSend?: onSendAsyncHookHandler;
  };
  readonly maxBodyBytes?: number;
}

export interface Route extends RouteDeclaration {
  // A method, so that a handler may declare the types of its body and its query.
  handler(request: FastifyRequest, reply: FastifyReply): unknown;
  readonly errorHandler?: RouteOptions["errorHandler"];
  readonly config?: RouteOptions["config"];
}

type Method = "GET" | "POST" | "PUT" | "DELETE";

export function endpoint(
  method: RouteDeclaration["method"],
  path: string,
  access: Access,
  tag?: RouteDeclaration["tag"],
): Pick<RouteDeclaration, "method" | "path" | "access" | "tag"> {
  return { method, path, access, ...(tag && { tag }) };
}

/** Security of routes that read telemetry and rules: one of these. */
const READERS: Record<string, string[]>[] = [{ session: [] }, { readToken: [] }, { readTokenAsPassword: [] }, { identityToken: [] }];

/** For routes that anyone may call, or that have their own guard. */
export const NO_GUARDS: Partial<Guards> = {};

/** Adds the routes. `guards` may omit guards that no route needs. */
export function addRoutes(app: FastifyInstance, guards: Partial<Guards>, routes: readonly Route[]): void {
  for (const route of routes) addRoute(app, guards, route);
}

/** Combines declarations with the handlers of the same names. */
export function bindHandlers<Name extends string>(
  declarations: Readonly<Record<Name, RouteDeclaration>>,
  handlers: Readonly<Record<NoInfer<Name>, Route["handler"]>>,
): Route[] {
  return Object.entries<RouteDeclaration>(declarations).map(([name, declaration]) => ({
    ...declaration,
    handler: handlers[name as Name],
  }));
}

/** Adds the declared routes, each with the handler of the same name. */
export function addHandlers<Name extends string>(
  app: FastifyInstance,
  guards: Partial<Guards>,
  declarations: Readonly<Record<Name, RouteDeclaration>>,
  handlers: Readonly<Record<NoInfer<Name>, Route["handler"]>>,
): void {
  addRoutes(app, guards, bindHandlers(declarations, handlers));
}

export function addRoute(app: FastifyInstance, guards: Partial<Guards>, route: Route): void {
  const { method, path: url, access, body, bodyIsOptional, otherErrors, maxBodyBytes, errorHandler, config } = route;
  const guard = findGuard(access, guards);
  // A key has no limits, and its requests are the most frequent ones.
  const needsNoCheck = route.limited === "filtered" || (typeof access === "object" && "keys" in access);
  const onRequest = guard && !needsNoCheck ? refuseLimited(guard) : guard;
  app.route({
    method: [method].flat(),
    url,
    schema: buildSchema(route),
    handler: (request, reply) => route.handler(request, reply),
    ...(onRequest && { onRequest }),
    ...(body && bodyIsOptional && { preValidation: defaultBody }),
    ...(otherErrors?.onSend && { onSend: otherErrors.onSend }),
    ...(maxBodyBytes !== undefined && { bodyLimit: maxBodyBytes }),
    ...(errorHandler && { errorHandler }),
    ...(config && { config }),
  });
}

function buildSchema(route: Route): FastifySchema {
  const { access, tag, summary, description, params, query, headers, body, consumes, response, documented, errors, otherErrors } = route;
  const security = listSecurity(access);
  return {
    ...(summary === undefined && { hide: true }),
    ...(tag !== undefined && { tags: [tag] }),
    ...(security && { security }),
    ...(summary !== undefined && { summary }),
    ...(description !== undefined && { description }),
    ...(consumes && { consumes: [...consumes] }),
    ...(params && { params }),
    ...(query && { querystring: query }),
    ...(headers && { headers }),
    ...(body && { body }),
    ...(response && { response }),
    documented: {
      ...(route.limited && { limited: route.limited }),
      ...(documented?.query && { querystring: documented.query }),
      ...(documented?.body && { body: documented.body }),
      ...(documented?.response && { response: documented.response }),
      ...(route.bodyIsOptional && { bodyIsOptional: true }),
      ...(errors && { errorStatuses: errors.map((code) => ERROR_CODES[code][0]) }),
      ...(otherErrors && { otherErrors: otherErrors.schemas }),
    },
  };
}

function listSecurity(access: Access): Record<string, string[]>[] | undefined {
  if (access === "anyone") return undefined;
  if (access === "reader") return READERS;
  if (typeof access === "string") return [{ session: [] }];
  const schemes = "keys" in access ? ["signature"] : access.security;
  return schemes.length === 0 ? undefined : schemes.map((name) => ({ [name]: [] }));
}

function findGuard(access: Access, { reader, user, signed }: Partial<Guards>): onRequestAsyncHookHandler | undefined {
  if (access === "anyone") return undefined;
  if (typeof access === "object" && "onRequest" in access) return access.onRequest;
  const guard = access === "reader" ? reader?.() : typeof access === "string" ? user?.(access) : signed?.(...access.keys);
  if (!guard) throw new Error("there is no guard for the access that the route declares");
  return guard;
}

/** Runs the guard, and refuses a caller with limits, because the route cannot apply them. */
function refuseLimited(guard: onRequestAsyncHookHandler): onRequestAsyncHookHandler {
  const refuse: onRequestAsyncHookHandler = async function (request, reply) {
    const refusal: unknown = await guard.call(this, request, reply);
    if (labelLimitsOf(request))
      throw new ApiError("forbidden", "you are limited to values of labels, and this covers data of the whole organisation");
    return refusal;
  };
  // The test of every route reads what its guard declares.
  return Object.assign(refuse, guard);
}

async function defaultBody(request: FastifyRequest): Promise<void> {
  request.body ??= {};
}
