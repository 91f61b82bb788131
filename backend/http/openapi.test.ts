import { gunzipSync } from "node:zlib";
import type { FastifyInstance } from "fastify";
import { beforeAll, expect, test, vi } from "vitest";
import { addRoutesToApi } from "../alerting/mount.ts";
import { createRuleRoutes } from "../alerting/alert-rule-routes.ts";
import { registerEnrolmentRoutes } from "../tenants/tenant-routes.ts";
import { createLog } from "../log.ts";
import { registerMetricsRoutes } from "../query/prometheus/promql-routes.ts";
import { closeRoutes, createApp } from "./app.ts";
import { addRoutes, NO_GUARDS } from "./route.ts";
import { operationIdOf } from "./openapi.ts";

interface Operation {
  operationId?: string;
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: { required?: boolean; content: Record<string, unknown> };
  responses: Record<string, { $ref?: string }>;
}

interface ErrorAnswer {
  description: string;
  content: Record<string, { schema: { anyOf?: { required: string[] }[]; properties?: { error: { enum: string[] } } } }>;
}

let app: FastifyInstance;
let text: string;
let paths: Record<string, Record<string, Operation>>;
let shared: Record<string, ErrorAnswer>;

beforeAll(async () => {
  const noGuard = async () => undefined;
  const guards = { user: () => noGuard, reader: () => noGuard, signed: () => noGuard };
  app = await createApp({ log: createLog("silent"), openApiTitle: "test" });
  const parts = { guards } as never;
  registerMetricsRoutes(app, parts);
  registerEnrolmentRoutes(app, parts);
  addRoutesToApi(app, guards, createRuleRoutes({} as never));
  await closeRoutes(app);
  text = (await app.inject("/openapi.json")).body;
  ({
    paths,
    components: { responses: shared },
  } = JSON.parse(text));
});

const operations = () =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [path, method, operation] as const),
  );
/** The error response that an operation refers to. */
const errorOf = (operation: Operation, status: string) => shared[operation.responses[status]?.$ref?.split("/").at(-1) ?? ""];
const named = (operation: Operation | undefined, where: string) =>
  operation?.parameters?.filter((parameter) => parameter.in === where).map((parameter) => parameter.name);

test("the Prometheus routes describe their parameters, their form, and both formats of their errors", () => {
  const base = "/query/prometheus/api/v1";
  expect(named(paths[`${base}/query`]?.["get"], "query")).toEqual(["query", "time", "timeout"]);
  expect(named(paths[`${base}/query_range`]?.["get"], "query")).toEqual(["query", "start", "end", "step", "timeout"]);
  expect(named(paths[`${base}/series`]?.["get"], "query")).toContain("match[]");
  const post = paths[`${base}/query`]?.["post"];
  expect(Object.keys(post?.requestBody?.content ?? {})).toEqual(["application/x-www-form-urlencoded"]);
  expect(post?.requestBody?.required).toBe(false);
  const statuses = ["buildinfo", "config", "flags", "runtimeinfo"].map((name) => `status/${name}`);
  const ofOurs = [...statuses, "targets", "targets/metadata", "query_exemplars", "rules", "alerts"].map((path) => `${base}/${path}`);
  const ofPrometheus = operations().filter(([path]) => path.startsWith(base) && !ofOurs.includes(path));
  expect(ofPrometheus).toHaveLength(10);
  for (const [, , operation] of ofPrometheus)
    for (const status of ["400", "422"])
      expect(errorOf(operation, status)?.content["application/json"]?.schema.anyOf?.map(({ required }) => required[0])).toEqual([
        "error",
        "status",
      ]);
});

test("described parameters are validated by the engine, not by this application", async () => {
  const answer = await app.inject("/query/prometheus/api/v1/query?limit=x");
  expect(answer.json()).not.toMatchObject({ error: "invalid_parameter" });
});

test("a body is described as required or optional", () => {
  const required = (path: string, method = "post") => paths[path]?.[method]?.requestBody?.required;
  expect(required("/api/install-tokens")).toBe(false);
  expect(required("/heartbeat")).toBe(false);
  expect(required("/ingest/agents/heartbeat")).toBe(false);
  expect(required("/api/keys")).toBe(true);
  expect(required("/alerting/rules")).toBe(true);
  expect(required("/alerting/rules/validate")).toBe(true);
  expect(required("/alerting/rules/{id}", "put")).toBe(true);
  expect(JSON.stringify(paths)).not.toContain("x-body-is-optional");
});

test("every operation documents 431, and every operation with a body documents 408", () => {
  const statuses = operations().map(([path, , { responses }]) => [path, Object.keys(responses)]);
  expect(statuses.filter(([, of]) => !of?.includes("431"))).toEqual([]);
  const withBody = operations().filter(([, , { requestBody }]) => requestBody !== undefined);
  expect(withBody.length).toBeGreaterThan(10);
  expect(withBody.filter(([, , { responses }]) => responses["408"] === undefined)).toEqual([]);
});

test("an error response is documented once: operations refer to it, and it lists the codes of its status", () => {
  const answers = operations().flatMap(([, , { responses }]) => Object.entries(responses).filter(([status]) => Number(status) >= 400));
  expect(answers.length).toBeGreaterThan(200);
  for (const [status, { $ref = "" }] of answers) {
    expect($ref).toMatch(new RegExp(`^#/components/responses/Error${status}(OrPrometheus|OrAlertmanager)?$`));
    expect(shared).toHaveProperty([$ref.split("/").at(-1) ?? ""]);
  }
  expect(shared["Error403"]).toMatchObject({
    description: expect.stringContaining("forbidden: the caller may not do this"),
    content: { "application/json": { schema: { properties: { error: { enum: ["wrong_key_kind", "forbidden"] } } } } },
  });
  // An operation that repeats them has about 6 kB.
  expect(text.length / operations().length).toBeLessThan(3000);
});

test("the document is built once, and a client with its current ETag gets 304", async () => {
  const ask = (headers: Record<string, string>) => app.inject({ url: "/openapi.json", headers });
  const plain = await ask({});
  const { etag } = plain.headers;
  const building = vi.spyOn(app, "swagger");
  expect(plain.rawPayload.equals((await ask({})).rawPayload)).toBe(true);
  const zipped = await ask({ "accept-encoding": "br, gzip;q=0.5" });
  expect([zipped.headers["content-encoding"], gunzipSync(zipped.rawPayload).toString()]).toEqual(["gzip", text]);
  expect((await ask({ "accept-encoding": "gzip;q=0" })).headers["content-encoding"]).toBeUndefined();
  for (const known of [etag, `"other", ${etag}`, String(etag).slice(2), "*"]) {
    const answer = await ask({ "if-none-match": String(known) });
    expect([answer.statusCode, answer.body, answer.headers.etag]).toEqual([304, "", etag]);
  }
  expect((await ask({ "if-none-match": '"other"' })).statusCode).toBe(200);
  expect(building).not.toHaveBeenCalled();
});

test("every operation has an id of its method and path, and clients know that the document's server is meant", () => {
  for (const [path, method, operation] of operations()) expect(operation.operationId).toBe(operationIdOf(method, path));
  expect(operationIdOf("get", "/api/orgs/{id}/limits")).toBe("getOrgsByIdLimits");
  expect(operationIdOf("post", "/api/v1/agents/register")).toBe("postAgentsRegister");
  expect((JSON.parse(text) as { servers: object[] }).servers).toEqual([{ url: "/", description: expect.any(String) }]);
});

test("routes whose operations would have the same id are refused when the document is made", async () => {
  const other = await createApp({ log: createLog("silent"), openApiTitle: "test" });
  const route = { method: "GET", access: "anyone", summary: "a", handler: () => "" } as const;
  addRoutes(other, NO_GUARDS, [
    { ...route, path: "/api/a-b" },
    { ...route, path: "/a/b" },
  ]);
  await closeRoutes(other);
  expect((await other.inject("/openapi.json")).statusCode).toBe(500);
  await other.close();
});
