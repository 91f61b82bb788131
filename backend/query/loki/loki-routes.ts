// Serves the part of Loki's HTTP API that Grafana's Loki data source uses, under /query/loki (docs/contract.md, "Query"). Invariants: a
// response has only rows of the caller's organisation; queries are parsed and evaluated in the sandbox, never in this process; a tail has
// the limits of the tail of logs.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { setTimeout } from "node:timers/promises";
import type { WebSocket } from "ws";
import { readerOf } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { addRoute, addRoutes, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { acceptWebSocket, isUpgrade } from "../../http/websocket.ts";
import type { Arrived } from "../../storage/logs/tail.ts";
import { type TailFormat, TailRoute, type TailRouteOptions, tailStream, type TailStreamOptions } from "../log-tail-stream.ts";
import { addFormParser, answerJson, FORM, formFields, PARTIAL } from "../page-route.ts";
import type { JobRunner } from "../sandbox/sandbox.ts";
import { ENDPOINTS, QUERY, textSchema } from "./endpoints.ts";
import { type EndpointJob, type FilterJob, readLogFilter, type TailMessageJob } from "./jobs.ts";
import { checkRepeated, type RequestParameters } from "./parameters.ts";
import type { Bounds } from "./regex.ts";

const BASE = "/query/loki/loki/api/v1";

export interface LokiRouteOptions extends TailRouteOptions {
  /** Parses and evaluates LogQL with runLokiJob. */
  readonly sandbox: JobRunner;
  /** Replaces limits of queries, in tests. */
  readonly bounds?: Bounds;
}

const ANSWER = { description: "in the format of Loki", type: "object", additionalProperties: true };

/** Declares a route of Loki's API. The handler validates its parameters. */
function declareRoute(
  method: "GET" | "POST",
  path: string,
  summary: string,
  parameters: Record<string, object>,
  response: Record<number, object> = { 200: ANSWER },
): RouteDeclaration {
  const query = { type: "object", properties: parameters };
  return {
    ...endpoint(method, `${BASE}/${path}`, "reader", "loki"),
    limited: "filtered",
    summary: `Loki's HTTP API: ${summary}`,
    ...(method === "POST" && FORM),
    documented: { query, ...(method === "POST" && { body: query }), response },
  };
}

export function registerLokiRoutes(app: FastifyInstance, options: LokiRouteOptions): void {
  const { sandbox, answers, guards, bounds, now = () => new Date() } = options;
  const routes: Route[] = Object.entries(CONSTANTS).map(([path, answer]) => ({
    ...declareRoute("GET", path, `${path}, a constant`, {}),
    handler: async (_request, reply) => await reply.type("application/json").send(JSON.stringify(answer)),
  }));
  for (const [path, { summary, parameters }] of ENDPOINTS) {
    const singleNames = Object.keys(parameters).filter((name) => name !== "match[]");
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      const parameters = parametersOf(request, [...singleNames, "match[]", "match"]);
      checkRepeated(parameters, singleNames);
      const job: EndpointJob = {
        kind: "endpoint",
        path,
        parameters,
        name: (request.params as { name?: string }).name,
        categorize: wantsCategories(request),
        nowNs: BigInt(now().getTime()) * 1_000_000n,
        bounds,
      };
      return answerJson(request, reply, {
        answers,
        ask: async (orgId, options) => {
          let warnings = "";
          const onPartial = (): void => {
            warnings = `{"warnings":["${PARTIAL}"],`;
            options.onPartial?.();
          };
          const json = await sandbox.run(orgId, job, { ...options, onPartial });
          return warnings === "" ? [json] : [Buffer.from(warnings), json.subarray(1)];
        },
      });
    };
    for (const method of ["GET", "POST"] as const) routes.push({ ...declareRoute(method, path, summary, parameters), handler });
  }
  void app.register(async (scope) => {
    addFormParser(scope);
    addRoutes(scope, guards, routes);
  });
  registerTail(app, options);
}

/** Clients such as Logs Drilldown choose their requests by this version of Loki. */
const COMPATIBLE_VERSION = "3.7.8";
/** Responses that contain no settings of this server and no data of an organisation. */
const CONSTANTS = {
  "status/buildinfo": { version: COMPATIBLE_VERSION, revision: "", branch: "", buildUser: "", buildDate: "", goVersion: "" },
  "drilldown-limits": { limits: {}, pattern_ingester_enabled: true, version: COMPATIBLE_VERSION },
} as const;

/** The parameters of the query string and of a form. A name that occurs in both, or twice in one, gets a list of values. */
function parametersOf(request: FastifyRequest, names: readonly string[]): RequestParameters {
  const query = request.query as RequestParameters;
  const form = formFields(request);
  const entries = names.map((name) => {
    const values = [query[name] ?? [], form.getAll(name)].flat();
    return [name, values.length > 1 ? values : values[0]] as const;
  });
  return Object.fromEntries(entries);
}

function wantsCategories(request: FastifyRequest): boolean {
  return String(request.headers["x-loki-response-encoding-flags"] ?? "")
    .split(",")
    .some((flag) => flag.trim() === "categorize-labels");
}

const IGNORED = textSchema("ignored: a tail begins with records that arrive from now on");
const PARAMETERS = { query: QUERY, start: IGNORED, limit: IGNORED, delay_for: IGNORED };
/** The response to a successful upgrade is 101. */
const MESSAGE = {
  description: "each message of the WebSocket, after 101",
  type: "object",
  properties: { streams: { type: "array", items: { type: "object" } }, dropped_entries: { type: ["array", "null"] } },
};
/** Close codes of RFC 6455. */
const [GOING_AWAY, POLICY] = [1001, 1008];
const RETRIED = new Set(["too_many_queries", "unavailable"]);
const RETRY_MS = 1000;

function registerTail(app: FastifyInstance, options: LokiRouteOptions): void {
  const { sandbox, guards, bounds } = options;
  const tails = new TailRoute(app, options);
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const parameters = { ...(request.query as RequestParameters) };
    checkRepeated(parameters, Object.keys(PARAMETERS));
    if (!isUpgrade(request)) throw new ApiError("invalid_parameter", "tail is a WebSocket: send Upgrade: websocket");
    const { orgId, signal } = tails.enter(request, reply);
    const { labelLimits } = readerOf(request);
    const { filter } = readLogFilter(await sandbox.run(orgId, { kind: "filter", parameters } satisfies FilterJob, { labelLimits, signal }));
    const { first, rest } = await tails.begin(request, reply, { filter, signal });
    const socket = await acceptWebSocket(request, reply);
    if (!socket) return;
    const evaluate = (rows: TailMessageJob["rows"]) => {
      return sandbox.run(orgId, { kind: "tail_message", parameters, rows, bounds } satisfies TailMessageJob, { labelLimits, signal });
    };
    await follow(socket, first, { ...rest, format: createTailFormat(evaluate, signal) });
  };
  addRoute(app, guards, { ...declareRoute("GET", "tail", "records as they arrive, by WebSocket", PARAMETERS, { 200: MESSAGE }), handler });
}

/** Retries, because other queries of the organisation, or a process that has just ended, may delay a tail for a while. */
async function retry<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError) || !RETRIED.has(error.code)) throw error;
      await setTimeout(RETRY_MS, undefined, { signal });
    }
  }
}

function createTailFormat(evaluate: (rows: TailMessageJob["rows"]) => Promise<Buffer>, signal: AbortSignal): TailFormat {
  const events: TailFormat["events"] = async (arrived) => {
    const rows = arrived.map(({ row }) => row);
    // Without records, nothing needs to be evaluated.
    return rows.length === 0 ? "" : (await retry(() => evaluate(rows), signal)).toString("utf8");
  };
  return { begin: events, events, comment: "", failed: ({ code, message }) => JSON.stringify({ streams: [], error: code, message }) };
}

async function follow(socket: WebSocket, first: Arrived, options: Omit<TailStreamOptions, "cutOff">): Promise<void> {
  // Messages from the client are ignored; the signal aborts when the client disconnects.
  socket.on("error", () => socket.terminate());
  const stream = tailStream(first, { ...options, cutOff: () => socket.terminate() });
  for await (const message of stream) {
    if (message === "") socket.ping();
    else await new Promise<void>((resolve) => socket.send(message, () => resolve()));
  }
  const isStopping = socket.readyState === socket.OPEN && options.signal.aborted;
  socket.close(isStopping ? GOING_AWAY : POLICY);
}
