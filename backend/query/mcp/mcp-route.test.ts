// POST /mcp and the routes that its tools ask: a client that disconnects ends the query, and what a request holds counts in the budget for
// responses.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import type { Guards } from "../../http/request-identity.ts";
import { closeRoutes, createApp } from "../../http/app.ts";
import { goneSignal } from "../../http/http-client.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { MAX_ROUTE_ANSWER_BYTES } from "../query-limits.ts";
import { registerMcpRoute } from "./mcp-route.ts";
import { readRange } from "./tool.ts";

const guards: Pick<Guards, "reader"> = {
  reader: () => async (request) => {
    request.user = { userId: "u", orgId: "org-1", email: "e", role: "viewer", labelLimits: undefined };
  },
};
const CALL = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "search_logs", arguments: {} } };
const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

/** The URL of /mcp in front of a route of logs that answers as `answer`. */
async function serve(answers: ResponseBudget, answer: (gone: AbortSignal) => Promise<Buffer>): Promise<string> {
  const app = await createApp({ log: pino({ level: "silent" }), openApiTitle: "test" });
  addRoute(app, guards, {
    ...endpoint("GET", "/query/logs", "reader"),
    handler: async (_request, reply) => reply.type("application/json").send(await answer(goneSignal(reply))),
  });
  registerMcpRoute(app, { answers, guards, publicUrl: "https://telemetry.example" });
  await closeRoutes(app);
  await app.listen({ host: "127.0.0.1", port: 0 });
  onTestFinished(() => app.close());
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/mcp`;
}

const post = (url: string, signal?: AbortSignal) =>
  fetch(url, { method: "POST", headers: HEADERS, body: JSON.stringify(CALL), ...(signal && { signal }) });

test("a client that disconnects ends the query of its tool", async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  const url = await serve(new ResponseBudget(), async (gone) => {
    asked.resolve(gone);
    await once(gone, "abort");
    return Buffer.from("[]");
  });
  const client = new AbortController();
  const response = post(url, client.signal);
  const gone = await asked.promise;
  expect(gone.aborted).toBe(false);
  client.abort();
  await expect(response).rejects.toThrow("aborted");
  if (!gone.aborted) await once(gone, "abort");
  expect(gone.aborted).toBe(true);
});

test("a range that begins before all times is refused", () => {
  const refused = expect.objectContaining({ code: "invalid_parameter" });
  expect(() => readRange({ end: "-271821-04-20T00:00:00Z" })).toThrow(refused);
});

test("the API description has every status and type of a response", async () => {
  const url = await serve(new ResponseBudget(), async () => Buffer.from("[]"));
  type Described = { paths: { "/mcp": { post: { responses: Record<string, { content?: Record<string, unknown> }> } } } };
  const { responses } = ((await (await fetch(new URL("/openapi.json", url))).json()) as Described).paths["/mcp"].post;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const modern = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "search_logs" };
  for (const [message, headers, status, type] of [
    [CALL, {}, 200, "text/event-stream"],
    [{ ...CALL, params: { ...CALL.params, _meta } }, modern, 200, "application/json"],
    [{ jsonrpc: "2.0", method: "notifications/initialized" }, {}, 202, null],
  ] as const) {
    const response = await fetch(url, { method: "POST", headers: { ...HEADERS, ...headers }, body: JSON.stringify(message) });
    expect([response.status, response.headers.get("content-type")]).toEqual([status, type]);
    expect(Object.keys(responses)).toContain(String(status));
    expect([null, ...Object.keys(responses[status]?.content ?? {})]).toContain(type);
  }
});

test("an answer is returned, and its memory is free again", async () => {
  const answers = new ResponseBudget();
  let heldBytes = 0;
  const url = await serve(answers, async () => {
    heldBytes = answers.heldBytes;
    return Buffer.from("[]");
  });
  const response = await post(url);
  expect(await response.text()).toContain("0 log records");
  expect(heldBytes).toBeGreaterThanOrEqual(MAX_ROUTE_ANSWER_BYTES);
  await expect.poll(() => answers.heldBytes).toBe(0);
});

test("without memory for responses, a request is refused before a tool asks anything", async () => {
  let isAsked = false;
  const url = await serve(new ResponseBudget({ bytes: 1024 }), async () => {
    isAsked = true;
    return Buffer.from("[]");
  });
  expect([(await post(url)).status, isAsked]).toEqual([503, false]);
});

test("a route's answer above the limit is an error of the tool, which says how to narrow it", async () => {
  const url = await serve(new ResponseBudget(), async () => Buffer.alloc(MAX_ROUTE_ANSWER_BYTES + 1, "x"));
  const data = /\{.*\}/.exec(await (await post(url)).text())?.[0] ?? "{}";
  const { result } = JSON.parse(data) as { result: { isError: boolean; content: { text: string }[] } };
  expect(result?.isError, data).toBe(true);
  expect(result.content[0]?.text).toMatch(
    /^Shorten the range[^]*<untrusted-telemetry>\n"the answer is too large"\n<\/untrusted-telemetry>$/,
  );
});
