// Serves GET /query/services and the paths below it: rate, errors and latency of services (docs/contract.md, "Query").
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { PAGE_PARAMETERS, readPage } from "../../storage/page.ts";
import { CONNECTIONS, type EdgeRow } from "../../storage/traces/graph.ts";
import { KINDS, minutesOf, type RedFilter, type RedKind } from "../../storage/traces/red.ts";
import { answerJson, type JsonQuery, refuseUnknown } from "../page-route.ts";
import type { TraceRouteOptions } from "../route-parts.ts";
import { listSchema, objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";

const text = { type: "string" } as const;
const number = { type: "number" } as const;
const milliseconds = { type: ["number", "null"], description: "null without calls" };
const arrayOf = (items: object) => ({ type: "array", items });

const FIGURES = {
  calls: { ...number, description: "spans" },
  errors: { ...number, description: "spans whose status is ERROR" },
  rate: { ...number, description: "average calls per second in the range" },
  error_ratio: { ...number, description: "errors / calls, 0 without calls" },
  p50_ms: milliseconds,
  p95_ms: milliseconds,
  p99_ms: milliseconds,
};

const SERVICES = listSchema({
  service: text,
  operations: listSchema({ operation: text, kinds: arrayOf(text) }),
  ...FIGURES,
  series: {
    type: "object",
    required: ["calls", "errors", "p95_ms"],
    properties: { calls: arrayOf(number), errors: arrayOf(number), p95_ms: arrayOf(milliseconds) },
    description: "one element for each point, oldest first",
  },
});
const OPERATIONS = listSchema({ operation: text, kind: text, ...FIGURES });
const POINTS = listSchema({ start: TIME_SCHEMA, end: TIME_SCHEMA, ...FIGURES });

const { start, end } = PAGE_PARAMETERS;
const points = {
  type: "integer",
  minimum: 1,
  maximum: 1500,
  default: 30,
  description: "maximum number of points; each covers a whole number of minutes",
} as const;
const kind = {
  type: "string",
  enum: ["entry", ...KINDS, "all"],
  default: "entry",
  description: "which spans are counted; entry: server and consumer spans, and spans without a parent",
} as const;
const operation = { ...text, description: "name of the span" } as const;

interface RedParameters {
  start?: string;
  end?: string;
  points?: number;
  kind?: RedKind;
  operation?: string;
}

interface RedRequest {
  Querystring: RedParameters;
  Params: { service?: string };
}

interface RedRoute {
  readonly path: string;
  readonly summary: string;
  readonly parameters: Readonly<Record<string, object>>;
  readonly items: object;
  readonly ask: "listServices" | "listOperations" | "readSeries";
}

const ROUTES: readonly RedRoute[] = [
  {
    path: "/query/services",
    summary: "Services by name, also those without calls in the range, with their operations and kinds, rate, errors and latency",
    parameters: { start, end, points, kind },
    items: SERVICES,
    ask: "listServices",
  },
  {
    path: "/query/services/:service/operations",
    summary: "Operations of a service, most calls first, with rate, errors and latency; at most 1,000",
    parameters: { start, end, kind: { ...kind, default: "all" } },
    items: OPERATIONS,
    ask: "listOperations",
  },
  {
    path: "/query/services/:service/timeseries",
    summary: "Rate, errors and latency of a service or one of its operations over time",
    parameters: { start, end, points: { ...points, default: 60 }, kind, operation },
    items: POINTS,
    ask: "readSeries",
  },
];

const DESCRIPTION =
  "The range is extended to whole minutes. Calls and errors are exact as long as the spans are kept; a quantile is accurate to within 19 %. Summaries keep the figures for at least 395 days, but not for users with label limits.";

const EDGE = {
  client: text,
  server: text,
  connection: {
    type: "string",
    enum: CONNECTIONS,
    description: "empty or messaging: both services send spans; otherwise only the client does",
  },
  calls: { ...number, description: "spans of the server, or of the client if the server sends none" },
  failed: {
    ...number,
    description: "calls that failed: the called span has the status ERROR, or the caller's, if it is a client or producer span",
  },
  rate: FIGURES.rate,
  error_ratio: { ...number, description: "failed / calls" },
  p50_ms: number,
  p95_ms: number,
  p99_ms: number,
};
const NODE = { name: text, kind: { type: "string", enum: ["service", "database", "queue", "external"] } };
const GRAPH = objectSchema({ nodes: listSchema(NODE), edges: listSchema(EDGE) });

export function registerServicesRoute(app: FastifyInstance, options: TraceRouteOptions): void {
  const { store, answers, guards, now = () => new Date() } = options;
  registerGraphRoute(app, options);
  for (const { path, summary, parameters, items, ask } of ROUTES) {
    addRoute(app, guards, {
      ...endpoint("GET", path, "reader"),
      limited: "filtered",
      summary,
      description: DESCRIPTION,
      ...(path.includes(":service") && { params: { type: "object", properties: { service: text } } }),
      query: { type: "object", properties: parameters },
      response: { 200: items },
      handler: async (request: FastifyRequest<RedRequest>, reply: FastifyReply) => {
        refuseUnknown(request, parameters, []);
        const filter = readRedFilter(request, now());
        return answerJson(request, reply, { answers, ask: async (orgId, options) => [await store.red(ask, orgId, filter, options)] });
      },
    });
  }
}

function readRedFilter(request: FastifyRequest<RedRequest>, now: Date): RedFilter {
  const { range } = readPage(request, now);
  const { points: count = 30, kind: kinds = "entry", operation: name } = request.query;
  return { ...minutesOf(range.start ?? 0n, range.end ?? 0n), points: count, kind: kinds, service: request.params.service, operation: name };
}

function registerGraphRoute(app: FastifyInstance, { store, answers, guards, now = () => new Date() }: TraceRouteOptions): void {
  addRoute(app, guards, {
    ...endpoint("GET", "/query/services/graph", "reader"),
    limited: "filtered",
    summary: "Calls between services, databases, queues and hosts",
    description: "The range is extended to whole minutes. Most calls first, at most 2,000 edges. Updated every minute.",
    query: { type: "object", properties: { start, end } },
    response: { 200: GRAPH },
    handler: async (request: FastifyRequest<{ Querystring: { start?: string; end?: string } }>, reply: FastifyReply) => {
      refuseUnknown(request, { start, end }, []);
      const { range } = readPage(request, now());
      const minutes = minutesOf(range.start ?? 0n, range.end ?? 0n);
      const ask: JsonQuery = async (orgId, options) => {
        const edges = await store.graph("listEdges", orgId, minutes, options);
        const nodes = nodesOf(JSON.parse(edges.toString("utf8")) as EdgeRow[]);
        return [Buffer.from(`{"nodes":${JSON.stringify(nodes)},"edges":`), edges, Buffer.from("}")];
      };
      return answerJson(request, reply, { answers, ask });
    },
  });
}

function nodesOf(edges: readonly EdgeRow[]): { name: string; kind: string }[] {
  const kinds = new Map<string, string>();
  for (const { server, connection } of edges) kinds.set(server, connection === "" || connection === "messaging" ? "service" : connection);
  for (const { client } of edges) kinds.set(client, "service");
  return [...kinds].map(([name, kind]) => ({ name, kind })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
