// Serves POST /mcp: the Model Context Protocol over streamable HTTP, for assistants with a read token (docs/mcp.md). Invariant: tools ask the
// routes of this backend with the credential of the request, so a tool has the tenant, the rights and the limits of that credential; what a
// request holds in memory counts in the budget for responses, and its queries end when its client disconnects.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { mainThread } from "../../admission/main-thread.ts";
import { type Guards, readerOf } from "../../http/request-identity.ts";
import { goneSignal } from "../../http/http-client.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { MAX_ROUTE_ANSWER_BYTES } from "../query-limits.ts";
import type { Ask, Parameters } from "./tool.ts";
import type { openMcpHandler } from "./mcp-server.ts";

export interface McpRouteOptions {
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  readonly publicUrl: string | undefined;
}

const RESPONSE = {
  description: "A JSON-RPC message: as JSON, or for revisions of the protocol before 2026-07-28 as an event stream with one event.",
  content: {
    "application/json": { schema: { type: "object", additionalProperties: true } },
    "text/event-stream": { schema: { type: "string" } },
  },
};

/** Headers that authenticate a request, and nothing else of it. */
const CREDENTIALS = ["authorization", "cookie", "x-requested-with", "x-session-user"] as const;
/** Headers that the SDK reads. */
const PROTOCOL = ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"] as const;

export function registerMcpRoute(app: FastifyInstance, { answers, guards, publicUrl = "" }: McpRouteOptions): void {
  let handler: ReturnType<typeof openMcpHandler> | undefined;
  const open = async (request: FastifyRequest): Promise<ReturnType<typeof openMcpHandler>> => {
    const server = await import("./mcp-server.ts");
    return (handler ??= server.openMcpHandler({
      publicUrl,
      askAs: (asked) => askAs(app, asked),
      onError: (error) => request.log.warn({ event: "mcp.failed", err: error }, "a request of the Model Context Protocol failed"),
    }));
  };
  addRoute(app, guards, {
    ...endpoint("POST", "/mcp", "reader"),
    limited: "filtered",
    summary: "Model Context Protocol: tools for assistants, read-only",
    description: "Streamable HTTP without sessions. Body and response are JSON-RPC 2.0 messages of the protocol; batches are refused.",
    body: { type: "object", required: ["jsonrpc"], properties: { jsonrpc: { type: "string", const: "2.0" } }, additionalProperties: true },
    documented: { response: { 200: RESPONSE, 202: { description: "a notification was received", type: "null" } } },
    handler: async (request: FastifyRequest, reply: FastifyReply) => {
      const { orgId } = readerOf(request);
      const headers = new Headers(
        [...CREDENTIALS, ...PROTOCOL].flatMap((name) =>
          [request.headers[name] ?? []].flat().map((value): [string, string] => [name, value]),
        ),
      );
      const asked = new Request("http://localhost/mcp", {
        method: "POST",
        headers,
        body: JSON.stringify(request.body),
        signal: goneSignal(reply),
      });
      const mcp = await open(request);
      const answer = await mainThread.run(orgId, () => {
        answers.admit(orgId, reply);
        return mcp.fetch(asked, { parsedBody: request.body });
      });
      const type = answer.headers.get("content-type");
      if (type !== null) void reply.type(type);
      return answers.send(orgId, reply.code(answer.status), [Buffer.from(await answer.text())]);
    },
  });
}

/** Asks routes in this process, until the client of `asked` disconnects. Throws RouteError for any status of 400 or more. */
function askAs(app: FastifyInstance, { headers, signal }: Pick<Request, "headers" | "signal">): Ask {
  const credentials = Object.fromEntries(CREDENTIALS.flatMap((name) => (headers.has(name) ? [[name, headers.get(name) ?? ""]] : [])));
  return async (path, parameters = {}) => {
    const { RouteError } = await import("./tool.ts");
    const asked = { method: "GET", url: `${path}${queryOf(parameters)}`, headers: credentials } as const;
    const read = await readAnswer(app, asked, signal).catch((error: unknown) => {
      // A client that has disconnected is no failure.
      throw signal.aborted ? new RouteError(499, "", "the client disconnected") : error;
    });
    if (!read) throw new RouteError(400, "query_too_expensive", "the answer is too large");
    const { statusCode, body } = read;
    const answer: unknown = JSON.parse(body.toString("utf8") || "null");
    if (statusCode < 400) return answer;
    const { error, message, errorType } = (answer ?? {}) as { error?: string; message?: string; errorType?: string };
    throw new RouteError(statusCode, errorType ?? error ?? "", message ?? error ?? `status ${statusCode}`);
  };
}

type Asked = { readonly method: "GET"; readonly url: string; readonly headers: Readonly<Record<string, string>> };

/** Undefined if the answer is larger than the limit; the route then stops. Rejects if `gone` aborts. */
async function readAnswer(
  app: FastifyInstance,
  asked: Asked,
  gone: AbortSignal,
): Promise<{ statusCode: number; body: Buffer } | undefined> {
  gone.throwIfAborted();
  const tooLarge = new AbortController();
  const response = await app.inject({ ...asked, payloadAsStream: true, signal: AbortSignal.any([gone, tooLarge.signal]) });
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response.stream() as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ROUTE_ANSWER_BYTES) {
      tooLarge.abort();
      return undefined;
    }
    chunks.push(chunk);
  }
  return { statusCode: response.statusCode, body: Buffer.concat(chunks) };
}

function queryOf(parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, values] of Object.entries(parameters)) for (const value of [values ?? []].flat()) query.append(name, String(value));
  return query.size === 0 ? "" : `?${query.toString()}`;
}
