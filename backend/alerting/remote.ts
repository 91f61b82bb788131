// Forwards the routes of the alerting service to another process (ALERTING_URL). Invariants: exactly the declared routes are forwarded, to
// paths that are built here and never taken from the request. Requests without a valid login are neither read nor forwarded. Responses of
// at most 64 MiB are passed on unchanged, except that a Link header points back here.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type Guards, readerOf } from "../http/request-identity.ts";
import { readAtMost } from "../../common/read-at-most.ts";
import { Pool } from "../engines/http-pool.ts";
import { ApiError } from "../errors.ts";
import { goneSignal } from "../http/http-client.ts";
import type { ResponseBudget } from "../http/response-budget.ts";
import { endpoint, type Route, type RouteDeclaration } from "../http/route.ts";
import { parseUuid } from "../http/schemas.ts";
import { SMALL_BODY_BYTES } from "../http/small-bodies.ts";
import { addRoutesToApi } from "./mount.ts";

export interface RemoteAlertingOptions {
  readonly url: string;
  /** The service checks again, and knows the role that a route requires. */
  readonly guards: Pick<Guards, "user" | "reader">;
  /** Returns the bearer token to send for a caller without an Authorization header, because a browser's cookie is bound to this address. */
  readonly issueBearer: (request: FastifyRequest) => Promise<string | undefined>;
  readonly declarations: readonly RouteDeclaration[];
  readonly responses: ResponseBudget;
}

const REQUEST_HEADERS = ["authorization", "content-type", "accept"];
const RESPONSE_HEADERS = ["allow", "content-type", "retry-after", "warning", "www-authenticate", "x-request-id"];
const TIMEOUT_MS = 60_000;
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Adds the declared routes at the API's address. */
export async function addRemoteAlerting(app: FastifyInstance, options: RemoteAlertingOptions): Promise<void> {
  const { origin, pathname } = new URL(options.url);
  const pool = new Pool(origin, { connections: 64, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS, connectTimeout: 3000 });
  app.addHook("onClose", async () => await pool.destroy());
  const forward = new Forwarder(pool, pathname.replace(/\/+$/, ""), options);
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", async (request: FastifyRequest) => await app.smallBodies.read(request, SMALL_BODY_BYTES));
    addRoutesToApi(
      scope,
      options.guards,
      options.declarations.map((declaration) => forward.route(declaration)),
    );
  });
}

class Forwarder {
  readonly #pool: Pool;
  readonly #basePath: string;
  readonly #options: RemoteAlertingOptions;

  constructor(pool: Pool, basePath: string, options: RemoteAlertingOptions) {
    this.#pool = pool;
    this.#basePath = basePath;
    this.#options = options;
  }

  /** The service validates the request and converts errors, so the schemas here are documentation. */
  route(declaration: RouteDeclaration): Route {
    const { method, path, access, limited, tag, summary, query, body, bodyIsOptional, response, documented, otherErrors } = declaration;
    return {
      ...endpoint(method, path, access === "reader" ? "reader" : "viewer", tag),
      ...(limited && { limited }),
      ...(summary !== undefined && { summary }),
      ...(bodyIsOptional && { bodyIsOptional }),
      documented: { ...(query && { query }), ...(body && { body }), ...(response && { response }), ...documented },
      ...(otherErrors && { otherErrors: { schemas: otherErrors.schemas } }),
      handler: (request, reply) => this.#forward(request, reply, path),
    };
  }

  async #forward(request: FastifyRequest, reply: FastifyReply, path: string): Promise<FastifyReply> {
    const [ownPath = "", query] = request.url.split(/\?(.*)/s, 2);
    const target = this.#basePath + path.replace(":id", () => readId(request)) + (query === undefined ? "" : `?${query}`);
    const { responses } = this.#options;
    const { orgId } = readerOf(request);
    responses.admit(orgId);
    const signal = goneSignal(reply);
    const headers = await this.#headers(request);
    try {
      const response = await this.#pool.request({
        signal,
        method: request.method,
        path: target,
        headers,
        body: request.body instanceof Buffer ? request.body : undefined,
      });
      const body = await readAtMost(MAX_RESPONSE_BYTES, response.body, tooLarge);
      copyHeaders(response.headers, reply.code(response.statusCode), ownPath);
      return await (body.length === 0 ? reply.send() : responses.send(orgId, reply, [body]));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof ApiError) throw error;
      throw new ApiError("unavailable", "the alerting service cannot be reached: try again", { cause: error, retryAfterS: 2 });
    }
  }

  async #headers(request: FastifyRequest): Promise<Record<string, string>> {
    const headers: Record<string, string> = { "x-request-id": request.id, "x-forwarded-for": request.ip };
    for (const name of REQUEST_HEADERS) {
      const value = request.headers[name];
      if (typeof value === "string") headers[name] = value;
    }
    const bearer = headers["authorization"] === undefined ? await this.#options.issueBearer(request) : undefined;
    return bearer === undefined ? headers : { ...headers, authorization: `Bearer ${bearer}` };
  }
}

const tooLarge = (): ApiError => new ApiError("internal", "the response of the alerting service is larger than 64 MiB");

/** A malformed id cannot belong to a resource, and is not forwarded. */
function readId(request: FastifyRequest): string {
  const id = parseUuid((request.params as { id: string }).id);
  if (id === undefined) throw new ApiError("not_found", "not found in your organisation");
  return id;
}

/** Links point to other pages of the same list. */
function copyHeaders(headers: Readonly<Record<string, unknown>>, reply: FastifyReply, ownPath: string): void {
  for (const name of RESPONSE_HEADERS) if (typeof headers[name] === "string") void reply.header(name, headers[name]);
  const { link } = headers;
  if (typeof link === "string")
    void reply.header(
      "link",
      link.replace(/^<[^?>]*/, () => `<${ownPath}`),
    );
}
