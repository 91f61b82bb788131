import type { AddressInfo } from "node:net";
import { fastify, type FastifyInstance } from "fastify";
import { expect, test } from "vitest";
import { ApiError } from "../errors.ts";
import { createLog } from "../operations/log.ts";
import type { Guards } from "../auth/request-identity.ts";
import { closeRoutes, createApp, listRoutes } from "../http/app.ts";
import { forwardAlerting } from "./forward.ts";
import { addServiceRoute, type ServiceRoute } from "./route-parts.ts";
import { registerRuleRoutes, RULE_ROUTES, type RuleRoutesOptions } from "./routes.ts";

/** A service that tells what it got. */
async function echo(): Promise<FastifyInstance> {
  const service = fastify({ bodyLimit: 2 ** 22 });
  service.removeAllContentTypeParsers();
  service.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  service.all("/*", async (request, reply) => {
    const { authorization, "content-type": type, "x-forwarded-for": forwarded, cookie } = request.headers;
    void reply
      .code(request.method === "DELETE" ? 204 : 418)
      .header("allow", "NOTHING")
      .header("x-secret", "internal");
    return request.method === "DELETE"
      ? undefined
      : { url: request.url, authorization, type, forwarded, ip: request.ip, cookie, bytes: (request.body as Buffer | undefined)?.length };
  });
  return service;
}

const loggedIn: ReturnType<Guards["reader"]> = async (request) => {
  if (request.headers.authorization === undefined) throw new ApiError("invalid_token", "log in");
};
const guards: Pick<Guards, "user" | "reader"> = { user: () => loggedIn, reader: () => loggedIn };

async function front(target: string | FastifyInstance): Promise<FastifyInstance> {
  const app = await createApp({ log: createLog("silent") });
  await forwardAlerting(app, { target, guards });
  await closeRoutes(app);
  return app;
}

const HEADERS = { authorization: "Bearer x", cookie: "a=b", "content-type": "application/json" };
const ID = "00000000-0000-4000-8000-000000000000";

test("over HTTP and in the process the service gets the same, and its answer comes back as it is", async () => {
  const service = await echo();
  await service.listen({ host: "127.0.0.1", port: 0 });
  const overHttp = await front(`http://127.0.0.1:${(service.server.address() as AddressInfo).port}`);
  const inProcess = await front(service);
  const ask = async (app: FastifyInstance, method: "GET" | "POST" | "PUT" | "DELETE", url: string, payload?: string) => {
    const answer = await app.inject({ method, url, payload, headers: HEADERS, remoteAddress: "192.0.2.7" });
    const { forwarded, ip, ...body } = answer.body ? answer.json() : {};
    return { status: answer.statusCode, allow: answer.headers["allow"], secret: answer.headers["x-secret"], body, client: forwarded ?? ip };
  };
  for (const app of [overHttp, inProcess]) {
    expect(await ask(app, "POST", "/alerting/rules?a=b%2F", "{}")).toEqual({
      status: 418,
      allow: "NOTHING",
      secret: undefined,
      body: { url: "/rules?a=b%2F", authorization: "Bearer x", type: "application/json", bytes: 2 },
      client: "192.0.2.7",
    });
    expect(await ask(app, "GET", `/alerting/rules/${ID}/status`)).toMatchObject({ body: { url: `/rules/${ID}/status` } });
    expect(await ask(app, "DELETE", `/alerting/rules/${ID}`)).toMatchObject({ status: 204, body: {} });
    expect(await ask(app, "PUT", `/alerting/rules/a%20b`, "x".repeat(200_000))).toMatchObject({
      body: { url: "/rules/a%20b", bytes: 200_000 },
    });
    expect((await ask(app, "PUT", `/alerting/rules/${ID}`, "x".repeat(2_000_000))).status).toBe(413);
    for (const url of [
      "/alerting/rules/..%2fx/status",
      "/alerting/rules/%2e%2e",
      "/alerting/rules/..",
      "/alerting/rules/a%5Cb",
      "/alerting/other",
    ]) {
      expect([url, (await ask(app, "PUT", url)).status]).toEqual([url, expect.toBeOneOf([404, 405])]);
    }
  }
  await Promise.all([overHttp.close(), inProcess.close()]);
  await service.close();
});

test("a link to the next page leads back to where it was asked, and a warning comes along", async () => {
  const service = fastify();
  service.get("/rules", async (_request, reply) => {
    void reply.header("link", '</rules?cursor=abc&status=failed>; rel="next"').header("warning", '299 - "there are more"');
    return [];
  });
  const app = await front(service);
  const { headers } = await app.inject({ method: "GET", url: "/alerting/rules?status=failed", headers: HEADERS });
  expect([headers["link"], headers["warning"]]).toEqual([
    '</alerting/rules?cursor=abc&status=failed>; rel="next"',
    '299 - "there are more"',
  ]);
  await Promise.all([app.close(), service.close()]);
});

test("a service that cannot be reached is 503 with Retry-After", async () => {
  const app = await front("http://127.0.0.1:1");
  const answer = await app.inject({ method: "GET", url: "/alerting/rules", headers: HEADERS });
  expect([answer.statusCode, answer.json().error, answer.headers["retry-after"]]).toEqual([503, "unavailable", "2"]);
  await app.close();
});

test("what is forwarded is exactly what the service offers", async () => {
  const service = await createApp({ log: createLog("silent") });
  registerRuleRoutes(service, { guards: { ...guards, signed: () => async () => undefined } } as unknown as RuleRoutesOptions);
  const app = await createApp({ log: createLog("silent") });
  await forwardAlerting(app, { target: service, guards });
  const table = (of: FastifyInstance): [string, string[]][] => [...listRoutes(of)].map(([url, methods]) => [url, [...methods].sort()]);
  const offered = Object.entries(RULE_ROUTES).map(([url, methods]): [string, string[]] => [url, [...methods].sort()]);
  expect(new Map(table(service))).toEqual(new Map(offered));
  const besideMetrics = offered
    .filter(([url]) => url.startsWith("/prometheus/"))
    .map(([url, methods]) => [`/query${url}`, methods] as const);
  const forwarded = [...offered.map(([url, methods]) => [`/alerting${url}`, methods] as const), ...besideMetrics];
  expect(besideMetrics).toHaveLength(2);
  expect(new Map(table(app))).toEqual(new Map(forwarded));
});

test("what other parts of the service bring along is forwarded too, a read token let through only where it may read", async () => {
  const made = (method: ServiceRoute["method"], path: string, who: ServiceRoute["who"]): ServiceRoute => ({
    method,
    path,
    who,
    summary: path,
    response: { 200: { type: "object", additionalProperties: true } },
  });
  const routes = [made("GET", "/things", "reader"), made("PUT", "/things/:id", "admin"), made("GET", "/things/:id", "viewer")];
  const service = await createApp({ log: createLog("silent") });
  const own: Guards = { signed: () => loggedIn, user: () => loggedIn, reader: () => loggedIn };
  for (const route of routes) addServiceRoute(service, own, route, async ({ params, body }) => ({ who: route.who, params, body }));
  const app = await createApp({ log: createLog("silent") });
  const readers = { reader: () => loggedIn, user: () => async () => Promise.reject(new ApiError("forbidden", "no user")) };
  await forwardAlerting(app, { target: service, guards: readers, routes });
  await closeRoutes(app);
  const ask = async (method: "GET" | "PUT", url: string) => (await app.inject({ method, url, headers: HEADERS, payload: "{}" })).json();
  expect(await ask("GET", "/alerting/things")).toMatchObject({ who: "reader" });
  expect(await ask("GET", `/alerting/things/${ID}`)).toMatchObject({ error: "forbidden" });
  expect(await ask("PUT", `/alerting/things/${ID}`)).toMatchObject({ error: "forbidden" });
  const users = { reader: readers.user, user: () => loggedIn };
  const open = await createApp({ log: createLog("silent") });
  await forwardAlerting(open, { target: service, guards: users, routes });
  const put = await open.inject({ method: "PUT", url: `/alerting/things/${ID}`, headers: HEADERS, payload: '{"a":1}' });
  expect(put.json()).toEqual({ who: "admin", params: { id: ID }, body: { a: 1 } });
  await Promise.all([app.close(), open.close(), service.close()]);
});
