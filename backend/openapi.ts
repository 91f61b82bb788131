// /openapi.json, made from the route schemas that really validate, with the error answers that every route of its kind can give.
// Invariant: a status that is not described here is a defect (test/contract/schemathesis.test.ts looks for one). Used by server.ts.
import swagger from "@fastify/swagger";
import type { FastifyInstance, FastifySchema } from "fastify";
import { ERROR_CODES } from "./errors.ts";

type Described = FastifySchema & { security?: Record<string, unknown>[]; response?: Record<string, unknown> };

/** Registers the description and its route. Before any other route. */
export async function describeApi(app: FastifyInstance, title: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title, version: "0.1.0" },
      components: {
        securitySchemes: {
          session: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "a token of POST /api/auth/login" },
          signature: {
            type: "apiKey",
            in: "header",
            name: "X-Signature",
            description: "with X-Timestamp and X-Key-Hash: see docs/direct-ingest.md",
          },
          installToken: { type: "http", scheme: "bearer", description: "a one-time token of POST /api/install-tokens" },
        },
      },
    },
    transform: ({ schema, url, route }) => {
      const described = (schema ?? {}) as Described;
      if (described.hide) return { schema: described, url };
      const success = Object.keys(described.response ?? {}).some((status) => status.startsWith("2"))
        ? {}
        : { 200: { description: "success" } };
      const errors = errorsOf(described, url, [route.method].flat());
      return { schema: { ...described, response: { ...success, ...described.response, ...errors } }, url };
    },
  });
  const document = { type: "object", additionalProperties: true };
  app.get("/openapi.json", { schema: { summary: "This description", response: { 200: document } } }, async () => app.swagger());
}

function errorsOf(schema: Described, url: string, methods: readonly string[]): Record<number, object> {
  const security = (schema.security ?? []).flatMap((entry) => Object.keys(entry));
  const statuses = [400, 500, 502, 503];
  if (security.length > 0) statuses.push(401);
  if (security.includes("session") || security.includes("signature")) statuses.push(403);
  if (url.includes(":")) statuses.push(404);
  if (!methods.includes("GET")) statuses.push(409);
  if (methods.includes("POST") || methods.includes("PUT")) statuses.push(413);
  if (security.includes("installToken")) statuses.push(422);
  if (url.startsWith("/ingest")) statuses.push(415, 429);
  if (url.endsWith("/login")) statuses.push(401, 429);
  return Object.fromEntries([...new Set(statuses)].sort((a, b) => a - b).map((status) => [status, errorAnswer(status)]));
}

function errorAnswer(status: number): object {
  const codes = Object.entries(ERROR_CODES).filter(([, [of]]) => of === status);
  return {
    description: codes.map(([code, [, when]]) => `${code}: ${when}`).join("; "),
    type: "object",
    required: ["error", "message"],
    properties: { error: { type: "string", enum: codes.map(([code]) => code) }, message: { type: "string" } },
  };
}
