import { fastify, type FastifyInstance } from "fastify";
import { afterEach, expect, test } from "vitest";
import { ApiError } from "../errors.ts";
import { createLog } from "../log.ts";
import type { Guards } from "../http/request-identity.ts";
import { closeRoutes, createApp, listRoutes } from "../http/app.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { bindHandlers, type Route, type RouteDeclaration } from "../http/route.ts";
import { addRoutesToApi, addServiceRoutes } from "./mount.ts";
import { addRemoteAlerting } from "./remote.ts";
import { createRuleRoutes, RULE_DECLARATIONS } from "./alert-rule-routes.ts";

const apps: FastifyInstance[] = [];
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

/** A service that returns what it got. */
async function startEcho(): Promise<string> {
  const service = fastify({ bodyLimit: 2 ** 22 });
  service.removeAllContentTypeParsers();
  service.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  service.all("/*", async (request, reply) => {
    const { authorization, "content-type": type, "x-forwarded-for": client, cookie } = request.headers;
    void reply
      .code(request.method === "DELETE" ? 204 : 418)
      .header("allow", "NOTHING")
      .header("x-secret", "internal");
    return request.method === "DELETE"
      ? undefined
      : { url: request.url, authorization, type, client, cookie, bytes: (request.body as Buffer | undefined)?.length };
  });
  return await listen(service);
}

async function listen(service: FastifyInstance): Promise<string> {
  apps.push(service);
  return await service.listen({ host: "127.0.0.1", port: 0 });
}

const loggedIn: ReturnType<Guards["reader"]> = async (request) => {
  if (request.headers.authorization === undefined) throw new ApiError("invalid_token", "log in");
  request.user = { userId: "u", orgId: "o", email: "e", role: "viewer", labelLimits: undefined };
};
const guards: Pick<Guards, "user" | "reader"> = { user: () => loggedIn, reader: () => loggedIn };

async function createFront(
  url: string,
  declarations = RULE_DECLARATIONS,
  ownGuards = guards,
  responses = new ResponseBudget(),
): Promise<FastifyInstance> {
  const app = await createApp({ log: createLog("silent") });
  apps.push(app);
  await addRemoteAlerting(app, { url, guards: ownGuards, issueBearer: async () => undefined, declarations, responses });
  await closeRoutes(app);
  return app;
}

const HEADERS = { authorization: "Bearer x", cookie: "a=b", "content-type": "application/json" };
const ID = "00000000-0000-4000-8000-000000000000";

test("forwards the request to the service, and its response unchanged", async () => {
  const app = await createFront(await startEcho());
  const ask = async (method: "GET" | "POST" | "PUT" | "DELETE", url: string, payload?: string) => {
    const response = await app.inject({ method, url, payload, headers: HEADERS, remoteAddress: "192.0.2.7" });
    const { allow, "x-secret": secret } = response.headers;
    return { status: response.statusCode, allow, secret, body: response.body ? response.json() : {} };
  };
  expect(await ask("POST", "/alerting/rules?a=b%2F", "{}")).toEqual({
    status: 418,
    allow: "NOTHING",
    secret: undefined,
    body: { url: "/rules?a=b%2F", authorization: "Bearer x", type: "application/json", bytes: 2, client: "192.0.2.7" },
  });
  expect(await ask("GET", `/alerting/rules/${ID}/status`)).toMatchObject({ body: { url: `/rules/${ID}/status` } });
  expect(await ask("DELETE", `/alerting/rules/${ID}`)).toMatchObject({ status: 204, body: {} });
  expect(await ask("PUT", `/alerting/rules/${ID}`, "x".repeat(200_000))).toMatchObject({ body: { url: `/rules/${ID}`, bytes: 200_000 } });
  expect((await ask("PUT", `/alerting/rules/${ID}`, "x".repeat(2_000_000))).status).toBe(413);
  for (const path of ["rules/..%2fx/status", "rules/%2e%2e", "rules/..", "rules/a%5Cb", "rules/a%20b", "other"]) {
    expect([path, (await ask("PUT", `/alerting/${path}`)).status]).toEqual([path, expect.toBeOneOf([404, 405])]);
  }
});

test("rewrites a link to the next page to the API's address, and forwards a warning", async () => {
  const service = fastify();
  service.get("/rules", async (_request, reply) => {
    void reply.header("link", '</rules?cursor=abc&status=failed>; rel="next"').header("warning", '299 - "there are more"');
    return [];
  });
  const app = await createFront(await listen(service));
  const { headers } = await app.inject({ method: "GET", url: "/alerting/rules?status=failed", headers: HEADERS });
  expect([headers["link"], headers["warning"]]).toEqual([
    '</alerting/rules?cursor=abc&status=failed>; rel="next"',
    '299 - "there are more"',
  ]);
});

test("returns 503 with Retry-After if the service is unreachable", async () => {
  const app = await createFront("http://127.0.0.1:1");
  const response = await app.inject({ method: "GET", url: "/alerting/rules", headers: HEADERS });
  expect([response.statusCode, response.json().error, response.headers["retry-after"]]).toEqual([503, "unavailable", "2"]);
});

test("rejects a response larger than 64 MiB, and forwards nothing while too many bytes are unread", async () => {
  const service = fastify();
  let requests = 0;
  service.get("/rules", async (_request, reply) => {
    requests += 1;
    return await reply.send(Buffer.alloc(64 * 1024 * 1024 + 1));
  });
  const url = await listen(service);
  const get = async (app: FastifyInstance) => await app.inject({ method: "GET", url: "/alerting/rules", headers: HEADERS });
  const tooLarge = await get(await createFront(url));
  expect([tooLarge.statusCode, tooLarge.json().error, requests]).toEqual([500, "internal", 1]);
  const full = await get(await createFront(url, RULE_DECLARATIONS, guards, new ResponseBudget({ bytes: 0 })));
  expect([full.statusCode, full.json().error, requests]).toEqual([503, "unavailable", 1]);
});

test("serves exactly the routes of the service on the API's address, in one process and in two", async () => {
  const routes = createRuleRoutes({} as never);
  const service = await createApp({ log: createLog("silent") });
  const api = await createApp({ log: createLog("silent") });
  apps.push(service, api);
  addServiceRoutes(service, guards, routes);
  addRoutesToApi(api, guards, routes);
  const list = (app: FastifyInstance) => new Map([...listRoutes(app)].map(([url, methods]) => [url, [...methods].sort()]));
  const own = [...list(service)];
  const underQuery = own.filter(([url]) => url.startsWith("/prometheus/")).map(([url, methods]) => [`/query${url}`, methods] as const);
  expect(underQuery).toHaveLength(2);
  const expected = new Map([...own.map(([url, methods]) => [`/alerting${url}`, methods] as const), ...underQuery]);
  expect(list(api)).toEqual(expected);
  expect(list(await createFront("http://127.0.0.1:1"))).toEqual(expected);
});

test("forwards a read token only on routes that it may read", async () => {
  const declare = (method: "GET" | "PUT", path: string, access: "reader" | "viewer" | "admin"): RouteDeclaration => ({
    method,
    path,
    access,
    summary: path,
    ...(method === "PUT" && { body: { type: "object" } }),
    response: { 200: { type: "object", additionalProperties: true } },
  });
  const declarations = {
    list: declare("GET", "/items", "reader"),
    show: declare("GET", "/items/:id", "viewer"),
    replace: declare("PUT", "/items/:id", "admin"),
  };
  const handler: Route["handler"] = async ({ params, body }) => ({ params, body });
  const service = await createApp({ log: createLog("silent") });
  addServiceRoutes(service, guards, bindHandlers(declarations, { list: handler, show: handler, replace: handler }));
  const url = await listen(service);
  const readers = { reader: () => loggedIn, user: () => async () => Promise.reject(new ApiError("forbidden", "no user")) };
  const forReaders = await createFront(url, Object.values(declarations), readers);
  const ask = async (app: FastifyInstance, method: "GET" | "PUT", path: string) =>
    (await app.inject({ method, url: path, headers: HEADERS, payload: '{"a":1}' })).json();
  expect(await ask(forReaders, "GET", "/alerting/items")).toMatchObject({ params: {} });
  expect(await ask(forReaders, "GET", `/alerting/items/${ID}`)).toMatchObject({ error: "forbidden" });
  expect(await ask(forReaders, "PUT", `/alerting/items/${ID}`)).toMatchObject({ error: "forbidden" });
  const forUsers = await createFront(url, Object.values(declarations));
  expect(await ask(forUsers, "PUT", `/alerting/items/${ID}`)).toEqual({ params: { id: ID }, body: { a: 1 } });
});
