// Serves the alerting service under `/alerting/` of the API's address by forwarding, its Prometheus routes also beside those of metrics.
// Invariant: exactly the service's own routes are forwarded, to paths that are put together here and never taken from the request; nothing
// is read or forwarded for who is not logged in; answers are those of the service, byte for byte, and a Link leads back here.
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, InjectOptions } from "fastify";
import { Pool } from "../engines/http-pool.ts";
import { onBehalfOf } from "../http/client.ts";
import { ApiError } from "../errors.ts";
import { type Guards, readerOf } from "../auth/request-identity.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { READERS } from "../http/openapi.ts";
import { SMALL_BODY_BYTES } from "../http/small-bodies.ts";
import { answerOf } from "./api-description.ts";
import { PROMETHEUS_QUERY, PROMETHEUS_ROUTES } from "./prometheus-routes.ts";
import { descriptionOf, type ServiceRoute, withContractStatus } from "./route-parts.ts";
import { HISTORY_QUERY, RULE_ROUTES } from "./routes.ts";
import { DRAFT_SCHEMA, RULE_BODY_SCHEMA } from "./rule.ts";

export interface ForwardOptions {
  /** The alerting service: its address, or its application when it lives in this process. */
  readonly target: string | FastifyInstance;
  /** The service asks again, and knows which role a route needs. */
  readonly guards: Pick<Guards, "user" | "reader">;
  /** What the service is to be shown for a caller without an Authorization header: a browser's cookie is bound to the address it was given by. */
  readonly bearerFor?: (request: FastifyRequest) => Promise<string | undefined>;
  /** Holds the large answers until clients take them. */
  readonly answers?: ResponseBudget;
  /** Beside those of rules. */
  readonly routes?: readonly ServiceRoute[];
}

/** One request to the service and its answer. */
interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  /** The client's address, for audit lines. */
  readonly address: string;
  readonly body: Buffer | undefined;
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
}
interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

const PREFIX = "/alerting";
const REQUEST_HEADERS = ["authorization", "content-type", "accept"];
const ANSWER_HEADERS = ["allow", "content-type", "retry-after", "warning", "www-authenticate", "x-request-id"];
const TIMEOUT_MS = 60_000;

export async function forwardAlerting(
  app: FastifyInstance,
  { target, guards, bearerFor = async () => undefined, answers = new ResponseBudget(), routes = [] }: ForwardOptions,
): Promise<void> {
  const send = typeof target === "string" ? overHttp(app, target) : inProcess(target);
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", async (request: FastifyRequest) => await app.smallBodies.read(request, SMALL_BODY_BYTES));
    for (const { url, path, method, isRead, schema } of [...ruleRoutes(), ...routes.map(mounted)]) {
      scope.route({
        method,
        url,
        onRequest: [isRead ? guards.reader() : guards.user("viewer"), refuseOddPath],
        schema,
        errorHandler: (error) => {
          throw withContractStatus(error);
        },
        handler: (request, reply) => forward(request, reply, { path, send, bearerFor, answers: isLarge(path) ? answers : undefined }),
      });
    }
  });
}

interface Mounted {
  readonly url: string;
  /** At the service. */
  readonly path: string;
  readonly method: ServiceRoute["method"];
  /** A read token may. */
  readonly isRead: boolean;
  readonly schema: FastifySchema;
}

function ruleRoutes(): Mounted[] {
  const places = [
    ...Object.entries(RULE_ROUTES).map(([path, methods]) => ({ url: `${PREFIX}${path}`, path, methods })),
    ...Object.entries(PROMETHEUS_ROUTES).map(([path, methods]) => ({ url: `/query${path}`, path, methods })),
  ];
  return places.flatMap(({ url, path, methods }) =>
    methods.map((method) => ({
      url,
      path,
      method,
      isRead: method === "GET",
      schema: {
        tags: ["alerting"],
        security: method === "GET" ? READERS : [{ session: [] }],
        summary: `The alerting service's ${path}`,
        described: { ...toldOf(method, path), response: answerOf(`${method} ${path}`) },
      },
    })),
  );
}

function mounted(route: ServiceRoute): Mounted {
  const { method, path, who, body, toldQuery, querystring = toldQuery, response, otherErrors } = route;
  const described = {
    ...(body !== undefined && { body }),
    ...(querystring !== undefined && { querystring }),
    response,
    ...(otherErrors && { otherErrors: otherErrors.described }),
  };
  return { url: `${PREFIX}${path}`, path, method, isRead: who === "reader", schema: { ...descriptionOf(route), described } };
}

/** Thousands of alerts. */
function isLarge(path: string): boolean {
  return path in PROMETHEUS_ROUTES || path.startsWith("/alertmanager/");
}

/** The service checks them. */
function toldOf(method: string, path: string): FastifySchema["described"] {
  if (path === "/rules/validate") return { body: DRAFT_SCHEMA };
  if (method === "POST" || method === "PUT") return { body: RULE_BODY_SCHEMA };
  if (path === "/prometheus/api/v1/rules") return { querystring: PROMETHEUS_QUERY };
  return path === "/rules/:id/history" ? { querystring: HISTORY_QUERY } : {};
}

async function forward(
  request: FastifyRequest,
  reply: FastifyReply,
  {
    path,
    send,
    bearerFor,
    answers,
  }: { path: string; send: (exchange: Exchange) => Promise<Answer>; answers: ResponseBudget | undefined } & Required<
    Pick<ForwardOptions, "bearerFor">
  >,
): Promise<FastifyReply> {
  if (answers) answers.admit(readerOf(request).orgId);
  const [ownPath, query] = splitOnce(request.url, "?");
  const { id } = request.params as { id?: string };
  const forwarded = path.replace(":id", encodeURIComponent(id ?? ""));
  const headers: Record<string, string> = { "x-request-id": request.id };
  for (const name of REQUEST_HEADERS) {
    const value = request.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  const bearer = headers["authorization"] === undefined ? await bearerFor(request) : undefined;
  if (bearer !== undefined) headers["authorization"] = `Bearer ${bearer}`;
  const body = request.body instanceof Buffer ? request.body : undefined;
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  const answer = await send({
    method: request.method,
    path: query === undefined ? forwarded : `${forwarded}?${query}`,
    headers,
    address: request.ip,
    body,
    signal: gone.signal,
  }).catch((error: unknown) => {
    if (!gone.signal.aborted) throw error;
  });
  // Nobody is there to be answered.
  if (!answer) return await reply.code(499).send();
  for (const name of ANSWER_HEADERS) if (typeof answer.headers[name] === "string") void reply.header(name, answer.headers[name]);
  const { link } = answer.headers;
  // The service's links lead to other pages of the same list.
  if (typeof link === "string") void reply.header("link", link.replace(/^<[^?>]*/, `<${ownPath}`));
  void reply.code(answer.status);
  if (answers) return answers.send(readerOf(request).orgId, reply, [answer.body]);
  return await reply.send(answer.body.length === 0 ? undefined : answer.body);
}

/** Before the body is read, too. */
async function refuseOddPath(request: FastifyRequest): Promise<void> {
  const [rawPath] = splitOnce(request.url, "?");
  if (/%2f|%5c|%2e|\\|\/\.\.?(?:\/|$)/i.test(rawPath)) throw new ApiError("not_found", "the path must not hold encoded slashes or dots");
}

function inProcess(service: FastifyInstance): (exchange: Exchange) => Promise<Answer> {
  return async ({ method, path, headers, address, body, signal }) => {
    const options = {
      signal,
      method: method as InjectOptions["method"],
      url: path,
      headers,
      remoteAddress: address,
      ...(body && { payload: body }),
    };
    const answer = await onBehalfOf(signal, async () => await service.inject(options));
    return { status: answer.statusCode, headers: answer.headers, body: answer.rawPayload };
  };
}

function overHttp(app: FastifyInstance, url: string): (exchange: Exchange) => Promise<Answer> {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, { connections: 64, headersTimeout: TIMEOUT_MS, bodyTimeout: TIMEOUT_MS, connectTimeout: 3000 });
  app.addHook("onClose", async () => await pool.destroy());
  return async ({ method, path, headers, address, body, signal }) => {
    try {
      const request = {
        signal,
        method: method as "GET",
        path: pathname.replace(/\/+$/, "") + path,
        headers: { ...headers, "x-forwarded-for": address },
        body,
      };
      const answer = await pool.request(request);
      return { status: answer.statusCode, headers: answer.headers, body: Buffer.from(await answer.body.arrayBuffer()) };
    } catch (error) {
      throw new ApiError("unavailable", "the alerting service cannot be reached: try again", { cause: error, retryAfterS: 2 });
    }
  };
}

function splitOnce(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}
