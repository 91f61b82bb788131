// Generates /openapi.json from the declarations of routes (route.ts) and the error responses that each kind of route can return. Invariant:
// every possible status is documented (test/contract/schemathesis.test.ts searches for one that is not).
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import swagger from "@fastify/swagger";
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from "fastify";
import { ERROR_CODES } from "../errors.ts";
import packageFile from "../package.json" with { type: "json" };
import { acceptsCoding } from "./http-client.ts";
import { MAX_CHOICES_LENGTH } from "./http-limits.ts";
import { addRoutes, NO_GUARDS } from "./route.ts";
import { objectSchema } from "./schemas.ts";

declare module "fastify" {
  interface FastifySchema {
    /** Documentation from `addRoutes` (route.ts), in addition to the schemas that Fastify applies. */
    documented?: {
      /** What a caller with limits to values of labels gets (route.ts). */
      limited?: "filtered" | "refused";
      querystring?: object;
      body?: object;
      bodyIsOptional?: boolean;
      response?: Readonly<Record<number, object>>;
      /** Statuses of errors beyond those of every route with this method and access. */
      errorStatuses?: readonly number[];
      /** Responses with these statuses that do not have our error format. */
      otherErrors?: Readonly<Record<number, object>>;
    };
  }
}

type Described = FastifySchema & { security?: Record<string, unknown>[]; response?: Record<string, unknown> };

/** Marks an operation between the two transformations. */
const BODY_IS_OPTIONAL = "x-body-is-optional";

const SECURITY_SCHEMES = {
  session: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "a token of POST /api/auth/login" },
  browser: {
    type: "apiKey",
    in: "cookie",
    name: "__Host-atherops",
    description: "together with the header X-Requested-With: atherops",
  },
  readToken: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "a token of POST /api/read-tokens" },
  readTokenAsPassword: { type: "http", scheme: "basic", description: "any user name; the password is a read token" },
  signature: {
    type: "apiKey",
    in: "header",
    name: "X-Signature",
    description: "with X-Timestamp and X-Key-Hash: see docs/direct-ingest.md",
  },
  ingestToken: { type: "http", scheme: "bearer", description: "a token of POST /api/ingest-tokens" },
  ingestTokenAsPassword: { type: "http", scheme: "basic", description: "any user name; the password is an ingest token" },
  ingestTokenAsApiKey: { type: "apiKey", in: "header", name: "X-API-Key", description: "an ingest token" },
  identityToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: "a token of an issuer of POST /api/issuers, whose rules permit this",
  },
  installToken: { type: "http", scheme: "bearer", description: "a one-time token of POST /api/install-tokens" },
} as const;

/** Registers the description and its route. Call before any other route is added. */
export async function describeApi(app: FastifyInstance, title: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title, version: packageFile.version },
      servers: [{ url: "/", description: "the backend that serves this description" }],
      components: {
        securitySchemes: SECURITY_SCHEMES,
      },
    },
    transform: ({ schema, url, route }) => {
      const { documented, ...validated } = (schema ?? {}) as Described;
      if (validated.hide) return { schema: validated, url };
      const { limited, bodyIsOptional, errorStatuses, otherErrors, ...rest } = documented ?? {};
      const described: Described = {
        ...validated,
        ...rest,
        ...(limited && { "x-label-limits": limited }),
        ...(bodyIsOptional && { [BODY_IS_OPTIONAL]: true }),
      };
      const success = Object.keys(described.response ?? {}).some((status) => /^[23]/.test(status))
        ? {}
        : { 200: { description: "success" } };
      const errors = errorResponses(described, { url, methods: [route.method].flat(), errorStatuses, otherErrors });
      return { schema: { ...described, response: { ...success, ...described.response, ...errors } }, url };
    },
    transformObject: (document) => {
      if (!("openapiObject" in document)) return document.swaggerObject;
      const { openapiObject: described } = document;
      const named = nameOperations(described.paths ?? {});
      const operations = [...named.values()];
      for (const [operationId, operation] of named) {
        operation.operationId = operationId;
        setBodyRequired(operation);
      }
      return { ...described, components: { ...described.components, responses: sharedErrors(operations) } } as typeof described;
    },
  });
  const response = {
    200: { type: "object", additionalProperties: true },
    304: { description: "unchanged since the response with the ETag of If-None-Match" },
  };
  let prepared: PreparedDocument | undefined;
  // All routes exist when the first request arrives.
  const handler = (request: FastifyRequest, reply: FastifyReply) => sendDocument((prepared ??= prepareDocument(app)), request, reply);
  const summary = "This description";
  addRoutes(app, NO_GUARDS, [{ method: "GET", path: "/openapi.json", access: "anyone", summary, documented: { response }, handler }]);
}

/** Built once, because anyone may request it, and building it takes 10 ms. */
interface PreparedDocument {
  readonly etag: string;
  readonly identity: Buffer;
  readonly gzip: Buffer;
}

function prepareDocument(app: FastifyInstance): PreparedDocument {
  const identity = Buffer.from(JSON.stringify(app.swagger()));
  return { etag: `W/"${createHash("sha256").update(identity).digest("base64url")}"`, identity, gzip: gzipSync(identity) };
}

function sendDocument({ etag, identity, gzip }: PreparedDocument, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  void reply.header("etag", etag).header("cache-control", "no-cache").header("vary", "accept-encoding").type("application/json");
  const known = headers["if-none-match"]
    ?.slice(0, MAX_CHOICES_LENGTH)
    .split(",")
    .map((tag) => tag.trim());
  if (known?.some((tag) => tag === "*" || tag === etag || `W/${tag}` === etag)) return reply.code(304).send();
  if (!acceptsCoding(headers["accept-encoding"], "gzip")) return reply.send(identity);
  return reply.header("content-encoding", "gzip").send(gzip);
}

interface Operation {
  operationId?: string;
  [BODY_IS_OPTIONAL]?: boolean;
  requestBody?: { required?: boolean };
  responses?: Record<
    string,
    { content?: Record<string, { schema: { anyOf?: readonly { type?: string }[]; description?: string } }> } | { $ref: string }
  >;
}

/** Operation id → operation. Throws if two operations have the same id. */
function nameOperations(paths: Readonly<Record<string, object | undefined>>): Map<string, Operation> {
  const named = new Map<string, Operation>();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries((methods ?? {}) as Record<string, Operation>)) {
      const id = operationIdOf(method, path);
      if (named.has(id)) throw new Error(`two operations have the id ${id}: ${method} ${path} needs another path`);
      named.set(id, operation);
    }
  return named;
}

/**
 * `GET /api/orgs/{id}/limits` → `getOrgsByIdLimits`. Client generators name their functions after it, so it depends on nothing that can
 * change without breaking clients anyway: method and path, without the prefixes `api` and `v1`.
 */
export function operationIdOf(method: string, path: string): string {
  const words = path
    .replace(/^\/api(\/v1)?(?=\/)/, "")
    .replaceAll(/\{(\w+)\}/g, "by-$1")
    .split(/[^A-Za-z0-9]+/)
    .filter(Boolean);
  return method.toLowerCase() + words.map((word) => `${word[0]?.toUpperCase()}${word.slice(1)}`).join("");
}

function setBodyRequired(operation: Operation): void {
  if (operation[BODY_IS_OPTIONAL] && operation.requestBody) operation.requestBody.required = false;
  delete operation[BODY_IS_OPTIONAL];
}

/** Many routes have the same error responses, so each is documented once, as a component that the operations refer to. */
function sharedErrors(operations: readonly Operation[]): Record<string, unknown> {
  const shared = new Map<string, unknown>();
  for (const { responses = {} } of operations) {
    for (const [status, answer] of Object.entries(responses)) {
      if (Number(status) < 400 || "$ref" in answer) continue;
      const schemas = Object.values(answer.content ?? {}).map(({ schema }) => schema);
      // The response already has the same description.
      for (const schema of schemas) delete schema.description;
      const name = `Error${status}${schemas.map(({ anyOf }) => formatSuffix(anyOf)).find(Boolean) ?? ""}`;
      shared.set(name, answer);
      responses[status] = { $ref: `#/components/responses/${name}` };
    }
  }
  return Object.fromEntries([...shared].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** An error of Prometheus is an object, one of Alertmanager a string. */
function formatSuffix(anyOf: readonly { readonly type?: string }[] | undefined): string {
  return anyOf === undefined ? "" : anyOf.some(({ type }) => type === "string") ? "OrAlertmanager" : "OrPrometheus";
}

interface ErrorSource {
  readonly url: string;
  readonly methods: readonly string[];
  readonly errorStatuses: readonly number[] | undefined;
  readonly otherErrors: Readonly<Record<number, object>> | undefined;
}

function errorResponses(schema: Described, { url, methods, errorStatuses = [], otherErrors = {} }: ErrorSource): Record<number, object> {
  const security = (schema.security ?? []).flatMap((entry) => Object.keys(entry));
  const statuses = [400, 431, 500, 502, 503, ...errorStatuses];
  if (security.length > 0) statuses.push(401);
  if (security.includes("session") || security.includes("signature")) statuses.push(403);
  if (url.includes(":")) statuses.push(404);
  if (!methods.includes("GET") || security.includes("session") || security.includes("browser")) statuses.push(409);
  if (methods.includes("POST") || methods.includes("PUT")) statuses.push(408, 413, 417);
  if (security.includes("installToken")) statuses.push(422);
  if (security.includes("session") || security.includes("browser")) statuses.push(429);
  const sorted = [...new Set([...statuses, ...Object.keys(otherErrors).map(Number)])].sort((a, b) => a - b);
  return Object.fromEntries(sorted.map((status) => [status, errorResponse(status, otherErrors[status])]));
}

function errorResponse(status: number, other: object | undefined): object {
  const codes = Object.entries(ERROR_CODES).filter(([, [codeStatus]]) => codeStatus === status);
  const ownFormat = objectSchema({ error: { type: "string", enum: codes.map(([code]) => code) }, message: { type: "string" } });
  const description = codes.map(([code, [, when]]) => `${code}: ${when}`).join("; ");
  return other ? { description, anyOf: [ownFormat, other] } : { description, ...ownFormat };
}
