// Serves GET /query/logs/tail: log records of the caller's organisation as they arrive (docs/contract.md, "Query"). Invariant: the number
// of tails is limited per organisation and in total, and no tail outlives its client, its credential or the process.
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addRoute, endpoint } from "../../http/route.ts";
import { readerOf } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { goneSignal } from "../../http/client.ts";
import { filterSchema } from "./log-filter-parameters.ts";
import { readSelection } from "./log-selection.ts";
import type { LogRouteOptions } from "../route-parts.ts";
import { TailCounts } from "../../storage/logs/tail.ts";
import { TAIL_TIMES, tailStream } from "../log-tail-stream.ts";
import { optionalSchema } from "../../http/schemas.ts";

const SCHEMA = filterSchema({});

const EVENTS = {
  description:
    "Server-sent events: the data of each is a record as GET /query/logs has it. The event `skipped` counts records that were left out, " +
    "because the reader is 5 minutes behind or one is larger than 512 KiB; the event `failed` contains the error that ends the tail.",
  content: { "text/event-stream": { schema: { type: "string" } } },
};

export function registerTailRoute(
  app: FastifyInstance,
  { store, sandbox, answers, guards, now = () => new Date(), tails = {} }: LogRouteOptions,
): void {
  const counts = new TailCounts(tails);
  const stopping = new AbortController();
  app.addHook("preClose", async () => stopping.abort());
  const guard = guards.reader();
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs/tail", "reader"),
    summary: "Log records as they arrive",
    description:
      `An endless response, with a comment every 15 s. Filters as in GET /query/logs; records whose own time is more than an hour ago are ` +
      `left out. The header Last-Event-ID resumes after an event. An organisation can have at most ${counts.perOrg} tails; a tail ends when ` +
      "its session or token becomes invalid.",
    query: SCHEMA,
    headers: optionalSchema({ "last-event-id": { type: "string", description: "the id of the last event that was read" } }),
    documented: { response: { 200: EVENTS } },
    handler: async (request, reply) => {
      const { filter, staged } = await readSelection(request, reply, SCHEMA, sandbox);
      if (staged)
        throw new ApiError(
          "invalid_parameter",
          "query: a tail has a selector, line filters and filters of stored labels; Loki's API tails with more",
        );
      const after = lastEventId(request);
      const { orgId } = readerOf(request);
      counts.enter(orgId);
      if (reply.raw.closed) counts.leave(orgId);
      else reply.raw.once("close", () => counts.leave(orgId));
      const signal = AbortSignal.any([goneSignal(reply), stopping.signal]);
      const begin = async () => {
        const tail = await store.tail(orgId, filter, after, now().getTime());
        const next = () => tail.next({ signal, admit: () => answers.admit(orgId) }, now().getTime());
        return { tail, next, first: await next() };
      };
      const begun = await begin().catch((error: unknown) => {
        if (signal.aborted && !stopping.signal.aborted) return undefined;
        throw error;
      });
      if (!begun) return reply.code(499).send();
      const { tail, next, first } = begun;
      const check = async (): Promise<void> => void (await guard.call(app, request, reply));
      const stream = tailStream(first, {
        ...tail,
        next,
        check,
        cutOff: () => reply.raw.destroy(),
        signal,
        times: { ...TAIL_TIMES, ...tails },
      });
      return sendEvents(reply, Readable.from(stream, { highWaterMark: 1 }));
    },
  });
}

function sendEvents(reply: FastifyReply, stream: Readable): FastifyReply {
  if (reply.raw.closed) return reply.code(499).send();
  void reply.type("text/event-stream; charset=utf-8").header("cache-control", "no-store").header("x-accel-buffering", "no");
  return reply.send(stream);
}

/** Throws ApiError invalid_parameter that names the header. */
function lastEventId({ headers }: FastifyRequest): bigint | undefined {
  const text = headers["last-event-id"];
  if (text === undefined || text === "") return undefined;
  if (typeof text === "string" && /^\d{1,20}$/.test(text) && BigInt(text) < 1n << 63n) return BigInt(text);
  throw new ApiError("invalid_parameter", "Last-Event-ID: not one of ours; leave it out to begin with what arrives from now on");
}
