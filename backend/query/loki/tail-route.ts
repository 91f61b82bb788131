// Loki's tail: a WebSocket that tells records as they arrive. Invariant: it has the bounds of the tail of logs (tail-counts.ts,
// log-tail-stream.ts), and ends with its client, its credential, the process and a reader that takes nothing.
import { setTimeout } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { WebSocket } from "ws";
import { readerOf } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { goneSignal } from "../../http/client.ts";
import { isUpgrade, acceptWebSocket } from "../../http/websocket.ts";
import type { LogTail } from "../../storage/logs/store.ts";
import type { Arrived } from "../../storage/logs/tail.ts";
import { TailCounts } from "../../storage/logs/tail-counts.ts";
import { TAIL_TIMES, type TailForm, tailStream } from "../native/log-tail-stream.ts";
import { QUERY, text } from "./endpoint-parts.ts";
import { readTailFilter, type TailFilterJob, type TailMessageJob } from "./jobs.ts";
import { checkRepeated, type Given } from "./parameters.ts";
import { BASE, type LokiRouteOptions, lokiSchema } from "./route-parts.ts";

const IGNORED = text("ignored: a tail begins with what arrives from now on");
const PARAMETERS = { query: QUERY, start: IGNORED, limit: IGNORED, delay_for: IGNORED };
/** Of a client that takes it the status is 101. */
const MESSAGE = {
  description: "each message of the WebSocket, after 101",
  type: "object",
  properties: { streams: { type: "array", items: { type: "object" } }, dropped_entries: { type: ["array", "null"] } },
};
const DESCRIBED = { response: { 200: MESSAGE } };
/** Of RFC 6455. */
const [GOING_AWAY, POLICY] = [1001, 1008];
const RETRIED = new Set(["too_many_queries", "unavailable"]);
const RETRY_MS = 1000;

export function registerTail(app: FastifyInstance, options: LokiRouteOptions): void {
  const { sandbox, store, answers, guards, bounds, now = () => new Date(), tails = {} } = options;
  const counts = new TailCounts(tails);
  const stopping = new AbortController();
  app.addHook("preClose", async () => stopping.abort());
  const guard = guards.reader();
  const schema = lokiSchema("records as they arrive, by WebSocket", PARAMETERS, DESCRIBED);
  app.get(`${BASE}/tail`, { onRequest: guard, schema }, async (request: FastifyRequest, reply: FastifyReply) => {
    checkRepeated(request.query as Given, Object.keys(PARAMETERS));
    const given = { ...(request.query as Given) };
    const { orgId } = readerOf(request);
    if (!isUpgrade(request)) throw new ApiError("invalid_parameter", "tail is a WebSocket: send Upgrade: websocket");
    counts.enter(orgId);
    if (reply.raw.closed) counts.leave(orgId);
    else reply.raw.once("close", () => counts.leave(orgId));
    const signal = AbortSignal.any([goneSignal(reply), stopping.signal]);
    const filter = readTailFilter(await sandbox.run(orgId, { kind: "tail_filter", given } satisfies TailFilterJob, { signal }));
    const tail = await store.tail(orgId, filter, undefined, now().getTime());
    const next = () => tail.next({ signal, admit: () => answers.admit(orgId) }, now().getTime());
    const first = await next();
    const socket = await acceptWebSocket(request, reply);
    if (!socket) return;
    const evaluate = (rows: TailMessageJob["rows"]) => {
      return sandbox.run(orgId, { kind: "tail_message", given, rows, bounds } satisfies TailMessageJob, { signal });
    };
    const check = async (): Promise<void> => void (await guard.call(app, request, reply));
    await follow(socket, first, {
      tail: { ...tail, next },
      check,
      form: formOf(evaluate, signal),
      signal,
      times: { ...TAIL_TIMES, ...tails },
    });
  });
}

/** Other queries of the organisation, or a process that has just ended, may hold up a tail for a while. */
async function retried<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError) || !RETRIED.has(error.code)) throw error;
      await setTimeout(RETRY_MS, undefined, { signal });
    }
  }
}

function formOf(evaluate: (rows: TailMessageJob["rows"]) => Promise<Buffer>, signal: AbortSignal): TailForm {
  const events: TailForm["events"] = async (arrived) => {
    const rows = arrived.map(({ row }) => row);
    // A pull without records needs no evaluation.
    return rows.length === 0 ? "" : (await retried(() => evaluate(rows), signal)).toString("utf8");
  };
  return { begin: events, events, comment: "", failed: ({ code, message }) => JSON.stringify({ streams: [], error: code, message }) };
}

interface Following {
  readonly tail: LogTail & { readonly next: () => Promise<Arrived> };
  readonly check: () => Promise<void>;
  readonly form: TailForm;
  readonly signal: AbortSignal;
  readonly times: typeof TAIL_TIMES;
}

async function follow(socket: WebSocket, first: Arrived, { tail, ...options }: Following): Promise<void> {
  // What a client says, and how it leaves, is nobody's business: the signal tells that it has.
  socket.on("error", () => socket.terminate());
  const stream = tailStream(first, { ...options, ...tail, cutOff: () => socket.terminate() });
  for await (const message of stream) {
    if (message === "") socket.ping();
    else await sent(socket, message);
  }
  const isStopping = socket.readyState === socket.OPEN && options.signal.aborted;
  socket.close(isStopping ? GOING_AWAY : POLICY);
}

/** Resolves when the connection has taken it, or is gone. */
async function sent(socket: WebSocket, message: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.send(message, () => resolve());
  await promise;
}
