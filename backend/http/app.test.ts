import { Agent, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { currentOwner, NO_OWNER } from "../admission/request-owner.ts";
import { ApiError, ERROR_CODES, type ErrorCode } from "../errors.ts";
import { createLog } from "../log.ts";
import { closeRoutes, createApp, listRoutes } from "./app.ts";

async function exampleApp() {
  const app = await createApp({ log: createLog("silent"), openApiTitle: "test" });
  app.get(
    "/things/:id",
    { schema: { querystring: { type: "object", properties: { limit: { type: "integer", minimum: 1 } } } } },
    async () => ({ ok: true }),
  );
  app.post(
    "/things",
    {
      schema: {
        body: {
          type: "object",
          additionalProperties: false,
          required: ["name"],
          properties: { name: { type: "string" }, on: { type: "boolean" } },
        },
      },
    },
    async () => ({ ok: true }),
  );
  app.get("/broken", async () => {
    throw new Error("the password of the database is hunter2");
  });
  app.get("/busy", async () => {
    throw new ApiError("storage_unavailable", "the metrics store cannot be reached", { retryAfterS: 4.2 });
  });
  await closeRoutes(app);
  return app;
}

test("a validation error names the field or the parameter, and types are not coerced in bodies", async () => {
  const app = await exampleApp();
  const post = (payload: object) => app.inject({ method: "POST", url: "/things", payload });
  expect((await post({})).json()).toEqual({ error: "invalid_field", message: "name: required" });
  expect((await post({ name: "a", nme: 1 })).json()).toEqual({ error: "invalid_field", message: "nme: unknown field" });
  expect((await post({ name: "a", on: "true" })).json()).toEqual({ error: "invalid_field", message: "on: must be boolean" });
  const get = await app.inject({ method: "GET", url: "/things/7?limit=0" });
  expect(get.json()).toEqual({ error: "invalid_parameter", message: "limit: must be >= 1" });
});

test("a message describes the expected format, never as a regular expression", async () => {
  const app = await createApp({ log: createLog("silent") });
  const described = { type: "string", pattern: "^[0-9]{3}$", description: "three digits; leading zeros count" };
  const properties = { described, undescribed: { type: "string", pattern: "^x$" } };
  app.post("/forms", { schema: { body: { type: "object", properties } } }, async () => ({}));
  const message = async (payload: object) => (await app.inject({ method: "POST", url: "/forms", payload })).json().message;
  expect(await message({ described: "x" })).toBe("described: must be three digits");
  expect(await message({ undescribed: "y" })).toBe("undescribed: has the wrong form");
});

test("messages about size limits are easy to read", async () => {
  const app = await createApp({ log: createLog("silent") });
  const properties = { name: { type: "string", minLength: 1, maxLength: 3 }, secret: { type: "string", minLength: 8 } };
  const list = { type: "array", items: { type: "string" }, minItems: 1 };
  app.post("/bounds", { schema: { body: { type: "object", properties: { ...properties, list } } } }, async () => ({}));
  const message = async (payload: object) => (await app.inject({ method: "POST", url: "/bounds", payload })).json().message;
  expect(await message({ name: "" })).toBe("name: must not be empty");
  expect(await message({ name: "long" })).toBe("name: must have at most 3 characters");
  expect(await message({ secret: "short" })).toBe("secret: must have at least 8 characters");
  expect(await message({ list: [] })).toBe("list: must not be empty");
});

test("an empty body is no body, whatever its content type", async () => {
  const app = await createApp({ log: createLog("silent") });
  app.post("/optional", async ({ body }) => ({ got: body ?? "nothing" }));
  for (const type of ["application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"]) {
    const headers = { "content-type": type, "content-length": "0" };
    expect((await app.inject({ method: "POST", url: "/optional", headers, payload: "" })).json()).toEqual({ got: "nothing" });
  }
});

test("an unexpected failure is a generic 500 without the cause", async () => {
  const answer = await (await exampleApp()).inject({ method: "GET", url: "/broken" });
  expect(answer.statusCode).toBe(500);
  expect(answer.json().error).toBe("internal");
  expect(answer.body).not.toContain("hunter2");
});

test("logs data that an engine rejects with the cause, which the response does not contain", async () => {
  const lines: string[] = [];
  const app = await createApp({ log: pino({}, { write: (line) => void lines.push(line) }) });
  app.get("/refused", async () => {
    throw new ApiError("unstorable", "the store refuses this", { cause: new Error("too many labels") });
  });
  const answer = await app.inject("/refused");
  expect([answer.statusCode, answer.body.includes("too many labels")]).toEqual([400, false]);
  expect(lines.join("")).toContain("too many labels");
});

test("every error after which clients repeat a request has Retry-After, also if its cause names no time", () => {
  const codes = Object.entries(ERROR_CODES).flatMap(([code, [status]]) => ([429, 502, 503].includes(status) ? [code as ErrorCode] : []));
  expect(codes.filter((code) => new ApiError(code, "").retryAfterS === undefined)).toEqual([]);
  expect(new ApiError("internal", "").retryAfterS).toBeUndefined();
});

test("Retry-After is whole seconds, rounded up", async () => {
  const answer = await (await exampleApp()).inject({ method: "GET", url: "/busy" });
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([502, "5"]);
});

test("echoes a well-formed request id, and replaces an invalid one", async () => {
  const app = await exampleApp();
  const ask = async (id: string) =>
    (await app.inject({ method: "GET", url: "/things/7", headers: { "x-request-id": id } })).headers["x-request-id"];
  expect(await ask("abc-1")).toBe("abc-1");
  expect(await ask("a b<script>")).toMatch(/^[0-9a-f-]{36}$/);
});

test("unknown paths are 404 with a code, also with broken percent-encoding", async () => {
  const app = await exampleApp();
  expect((await app.inject({ method: "GET", url: "/nowhere" })).json().error).toBe("not_found");
  expect((await app.inject({ method: "GET", url: "/things/%zz" })).json().error).toBe("not_found");
});

test("listRoutes lists added routes without the 405 responses, and the OpenAPI document is served", async () => {
  const app = await exampleApp();
  expect([...listRoutes(app).entries()].map(([url, methods]) => [url, [...methods]])).toEqual([
    ["/openapi.json", ["GET"]],
    ["/things/:id", ["GET"]],
    ["/things", ["POST"]],
    ["/broken", ["GET"]],
    ["/busy", ["GET"]],
  ]);
  const document = (await app.inject({ method: "GET", url: "/openapi.json" })).json();
  expect(Object.keys(document.paths["/things"])).toEqual(["post"]);
});

test("a client that retries on its connection does not delay a stop", async () => {
  const app = await createApp({ log: createLog("silent") });
  let stopping: Promise<unknown> | undefined;
  app.get("/refused", async () => {
    stopping ??= Promise.resolve(app.close());
    await new Promise((done) => setImmediate(done));
    throw new ApiError("unavailable", "the backend is stopping");
  });
  await closeRoutes(app);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const statuses: unknown[] = [];
  for (let again = 0; again < 5 && statuses.at(-1) !== "ECONNREFUSED"; again += 1) {
    statuses.push(
      await new Promise((done) => {
        const call = send({ host: "127.0.0.1", port, path: "/refused", agent }, (answer) => {
          answer.resume().once("end", () => setImmediate(() => done(answer.statusCode)));
        });
        call.once("error", (error: NodeJS.ErrnoException) => done(error.code)).end();
      }),
    );
  }
  await stopping;
  agent.destroy();
  expect(statuses).toEqual([503, "ECONNREFUSED"]);
});

test("requests run for their owner, whose statements wait in one line, but those of ingest do not pay for it", async () => {
  const app = await createApp({ log: createLog("silent") });
  app.get("/page", async () => ({ owner: currentOwner() }));
  app.post("/ingest", { config: { signal: "logs" } }, async () => ({ owner: currentOwner() }));
  await closeRoutes(app);
  expect((await app.inject({ method: "GET", url: "/page", remoteAddress: "192.0.2.7" })).json()).toEqual({ owner: "192.0.2.7" });
  expect((await app.inject({ method: "POST", url: "/ingest" })).json()).toEqual({ owner: NO_OWNER });
  await app.close();
});

test("a start may take longer than Fastify's ten seconds", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  const app = await createApp({ log: createLog("silent") });
  const prepared = Promise.withResolvers<void>();
  app.addHook("onReady", async () => await prepared.promise);
  const started = app.ready();
  await vi.advanceTimersByTimeAsync(60_000);
  vi.useRealTimers();
  prepared.resolve();
  await expect(started).resolves.toBe(app);
  await app.close();
});
