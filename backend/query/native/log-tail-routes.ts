// Serves GET /query/logs/tail: log records of the caller's organisation as they arrive (docs/contract.md, "Query"). Invariant: the number
// of tails is limited per organisation and in total, and no tail outlives its client, its credential or the process.
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { ApiError } from "../../errors.ts";
import { filterSchema } from "./log-filter-parameters.ts";
import { readSelection } from "./log-selection.ts";
import type { LogRouteOptions } from "../route-parts.ts";
import { TailRoute, tailStream } from "../log-tail-stream.ts";
import { optionalSchema } from "../../http/schemas.ts";

const SCHEMA = filterSchema({});

const EVENTS = {
  description:
    "Server-sent events: the data of each is a record as GET /query/logs has it. The event `skipped` says that records were left out, " +
    "because the tail is 5 minutes behind or one is larger than 512 KiB; the event `failed` contains the error that ends the tail.",
  content: { "text/event-stream": { schema: { type: "string" } } },
};

export function registerTailRoute(app: FastifyInstance, options: LogRouteOptions): void {
  const tails = new TailRoute(app, options);
  addRoute(app, options.guards, {
    ...endpoint("GET", "/query/logs/tail", "reader"),
    limited: "filtered",
    summary: "Log records as they arrive",
    description:
      `An endless response, with a comment after 15 s without an event. Filters as in GET /query/logs; records whose own time is more than an hour ago are ` +
      `left out. The Last-Event-ID header resumes after an event. An organisation can have at most ${tails.counts.perOrg} such tails in each replica; a tail ends when ` +
      "its session or token becomes invalid.",
    query: SCHEMA,
    headers: optionalSchema({ "last-event-id": { type: "string", description: "the id of the last event that was read" } }),
    documented: { response: { 200: EVENTS } },
    handler: async (request, reply) => {
      const { filter, staged } = await readSelection(request, reply, SCHEMA, options.sandbox);
      if (staged)
        throw new ApiError(
          "invalid_parameter",
          "query: a tail has a selector, line filters and filters of stored labels; Loki's API tails with more",
        );
      const after = lastEventId(request);
      const { signal } = tails.enter(request, reply);
      const begun = await tails.begin(request, reply, { filter, after, signal }).catch((error: unknown) => {
        if (signal.aborted && !tails.stopping.signal.aborted) return undefined;
        throw error;
      });
      if (!begun) return reply.code(499).send();
      const stream = tailStream(begun.first, { ...begun.rest, cutOff: () => reply.raw.destroy() });
      if (reply.raw.closed) return reply.code(499).send();
      void reply.type("text/event-stream; charset=utf-8").header("cache-control", "no-store").header("x-accel-buffering", "no");
      return reply.send(Readable.from(stream, { highWaterMark: 1 }));
    },
  });
}

/** Throws ApiError invalid_parameter that names the header. */
function lastEventId({ headers }: FastifyRequest): bigint | undefined {
  const text = headers["last-event-id"];
  if (text === undefined || text === "") return undefined;
  if (typeof text === "string" && /^\d{1,20}$/.test(text) && BigInt(text) < 1n << 63n) return BigInt(text);
  throw new ApiError("invalid_parameter", "Last-Event-ID: not one of ours; leave it out to begin with what arrives from now on");
}
