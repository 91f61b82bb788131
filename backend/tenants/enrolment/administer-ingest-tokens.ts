// Administration of ingest tokens: create, list, rotate, remove. Invariant: a token is shown once, in the response to its creation or
// rotation, and stays valid if its creator is removed.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isNetwork } from "../../../common/ip-networks.ts";
import { audit } from "../../auth/audit-log.ts";
import { type IngestTokenRow, newIngestToken } from "../../auth/ingest-tokens/ingest-token-table.ts";
import { callerOf } from "../../http/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import {
  closedSchema,
  ID_PARAMS,
  listResponse,
  nameSchema,
  NO_CONTENT,
  notFound,
  objectSchema,
  OPTIONAL_TIME_SCHEMA,
  parseUuid,
  readDurationMs,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import type { EnrolmentDeps } from "./enrolment-tables.ts";
import {
  findIdentity,
  insertWithinLimit,
  listRetiring,
  selectListed,
  removeToken,
  rotate,
  type TokenIdentity,
} from "./ingest-token-table.ts";

const SIGNALS = ["metrics", "logs", "traces"] as const;
const TTL = { minMs: 60_000, maxMs: 10 * 365 * 86_400_000 };
const NAME = nameSchema(200);
const EXAMPLE = "12h or 90d";
const OVERLAP = { maxMs: 30 * 86_400_000 };
const MAX_NETWORKS = 32;
const RATE = { type: "integer", minimum: 0, maximum: 1e15 } as const;
const duration = { type: "string", maxLength: 40 };
const optionalId = { type: ["string", "null"], format: "uuid" } as const;
const token = { id: UUID_SCHEMA, name: { type: "string" }, token: { type: "string" }, expires_at: OPTIONAL_TIME_SCHEMA };

const ROUTES = {
  create: {
    ...endpoint("POST", "/api/ingest-tokens", "admin", "ingest tokens"),
    errors: ["not_found"] as const,
    summary:
      "Create an ingest token, which programs use to send telemetry without a signature; at most 5,000, with those that are listed after they expired, and previous secrets",
    body: closedSchema(["name"], {
      name: { ...NAME, description: `${NAME.description}; becomes \`node\` of the data, unless \`host\` or \`cluster\` is set` },
      signals: { type: "array", minItems: 1, uniqueItems: true, items: { enum: SIGNALS }, description: "all three by default" },
      host: { ...UUID_SCHEMA, description: "data is stored as that of this host; at most one of host and cluster" },
      cluster: { ...UUID_SCHEMA, description: "data is stored as that of this cluster" },
      networks: {
        type: "array",
        maxItems: MAX_NETWORKS,
        items: { type: "string", maxLength: 50 },
        description: "addresses or CIDRs from which the token may be used; any by default",
      },
      bytes_per_second: { ...RATE, description: "per signal, for all replicas together; 0, the default: only the organisation's limit" },
      records_per_second: { ...RATE, description: "per signal, for all replicas together; 0, the default: only the organisation's limit" },
      ttl: { ...duration, description: "a duration such as 12h, 90d or 1y, at most 10 years; without it the token does not expire" },
    }),
    response: { 201: objectSchema(token) },
  },
  list: {
    ...endpoint("GET", "/api/ingest-tokens", "viewer", "ingest tokens"),
    summary: "Ingest tokens of your organisation, by name; expired tokens are listed for 30 days",
    description: "Pages have 500 entries; the Link header points to the next page.",
    query: CURSOR_QUERY,
    response: listResponse({
      id: UUID_SCHEMA,
      name: { type: "string" },
      signals: { type: "array", items: { enum: SIGNALS } },
      host: optionalId,
      cluster: optionalId,
      networks: { type: "array", items: { type: "string" } },
      bytes_per_second: { type: "integer" },
      records_per_second: { type: "integer" },
      created_by: { type: "string", description: "the e-mail address of the creator at that time" },
      created_at: { ...TIME_SCHEMA, description: "of the current secret" },
      expires_at: OPTIONAL_TIME_SCHEMA,
      last_used_at: { ...OPTIONAL_TIME_SCHEMA, description: "of the current secret, within a minute" },
      previous_valid_until: {
        ...OPTIONAL_TIME_SCHEMA,
        description: "the secret before the last rotation is accepted until then, unless it expires before",
      },
      previous_last_used_at: OPTIONAL_TIME_SCHEMA,
    }),
  },
  rotate: {
    ...endpoint("POST", "/api/ingest-tokens/:id/rotate", "admin", "ingest tokens"),
    summary:
      "Replace the secret of an ingest token; the current one is accepted until the overlap ends or it expires, and older ones are refused",
    params: ID_PARAMS,
    bodyIsOptional: true,
    body: closedSchema([], {
      overlap: { ...duration, default: "24h", description: "a duration such as 0 or 24h; at most 30 days" },
      ttl: { ...duration, description: "of the new secret; by default as long as the current one had" },
    }),
    response: { 200: objectSchema({ ...token, previous_valid_until: TIME_SCHEMA }) },
  },
  remove: {
    ...endpoint("DELETE", "/api/ingest-tokens/:id", "admin", "ingest tokens"),
    summary: "Remove an ingest token; all replicas normally refuse it within 5 seconds",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

interface NewToken {
  readonly name: string;
  readonly signals?: readonly (typeof SIGNALS)[number][];
  readonly host?: string;
  readonly cluster?: string;
  readonly networks?: readonly string[];
  readonly bytes_per_second?: number;
  readonly records_per_second?: number;
  readonly ttl?: string;
}

export function registerIngestTokenAdministration(app: FastifyInstance, deps: EnrolmentDeps): void {
  const { guards, ingestTokens, now, pageRows } = deps;
  const tokenDb = (request: FastifyRequest) => tenantDatabase(deps.db, callerOf(request).orgId);
  addHandlers(app, guards, ROUTES, {
    create: async (request: FastifyRequest<{ Body: NewToken }>, reply: FastifyReply) => {
      ingestTokens.requireEnabled();
      const { token: secret, hash } = newIngestToken();
      const tenantDb = tokenDb(request);
      const row = await tenantDb.transaction().execute(async (trx) => {
        const created = await buildRow(trx, request, { hash, at: new Date(now()) });
        await insertWithinLimit(trx, created);
        return created;
      });
      const { id, name, signals, kind, owner_id, networks, bytes_per_second, records_per_second } = row;
      const expires_at = row.expires_at?.toISOString() ?? null;
      const rates = { bytes_per_second, records_per_second };
      audit(request, "ingest_token.create", { ingest_token_id: id, name, signals, kind, owner_id, networks, ...rates, expires_at });
      return await reply.code(201).send({ id, name, token: secret, expires_at });
    },
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const query = selectListed(tokenDb(request), orgId, now());
      const page = await readPage(request, reply, query, { sortedBy: "name", limit: pageRows });
      const ids = page.map(({ id }) => id);
      const retiring = await listRetiring(tokenDb(request), orgId, ids, now());
      return page.map((row) => describeToken(row, retiring.get(row.id)));
    },
    remove: async (request, reply) => {
      const id = readId(request, "ingest token");
      const removed = await removeToken(tokenDb(request), callerOf(request).orgId, id);
      const [first] = removed;
      if (!first) throw notFound("ingest token");
      ingestTokens.forget(...removed.map((row) => row.token_hash));
      audit(request, "ingest_token.delete", { ingest_token_id: id, name: first.name });
      return await reply.code(204).send();
    },
    ...rotationHandler(deps),
  });
}

function rotationHandler({ db, ingestTokens, now }: EnrolmentDeps) {
  return {
    rotate: async (request: FastifyRequest<{ Body: { overlap: string; ttl?: string } }>) => {
      ingestTokens.requireEnabled();
      const id = readId(request, "ingest token");
      const { orgId } = callerOf(request);
      const { overlap, ttl } = request.body;
      const overlapMs = readDurationMs("overlap", overlap, OVERLAP, EXAMPLE);
      const ttlMs = ttl === undefined ? undefined : readDurationMs("ttl", ttl, TTL, EXAMPLE);
      const { token: secret, hash } = newIngestToken();
      const rotation = { hash, at: new Date(now()), overlapMs, ttlMs };
      const tenantDb = tenantDatabase(db, orgId);
      const { row, retiresAt, changed } = await tenantDb.transaction().execute((trx) => rotate(trx, orgId, id, rotation));
      ingestTokens.forget(...changed);
      audit(request, "ingest_token.rotate", { ingest_token_id: id, name: row.name, overlap });
      const expiresAt = row.expires_at?.toISOString() ?? null;
      return { id, name: row.name, token: secret, expires_at: expiresAt, previous_valid_until: retiresAt.toISOString() };
    },
  };
}

async function buildRow(
  trx: Parameters<typeof findIdentity>[0],
  request: FastifyRequest<{ Body: NewToken }>,
  { hash, at }: { hash: string; at: Date },
): Promise<IngestTokenRow> {
  const { orgId, email } = callerOf(request);
  const { name, signals, networks = [], bytes_per_second = 0, records_per_second = 0, ttl } = request.body;
  const id = randomUUID();
  const { kind, ownerId, node } = (await readIdentity(trx, orgId, request.body)) ?? { kind: "direct", ownerId: id, node: name };
  return {
    token_hash: hash,
    id,
    org_id: orgId,
    name,
    kind,
    owner_id: ownerId,
    node,
    signals: SIGNALS.filter((signal) => signals?.includes(signal) ?? true).join(","),
    networks: readNetworks(networks),
    bytes_per_second,
    records_per_second,
    created_by: email,
    created_at: at,
    expires_at: ttl === undefined ? null : new Date(at.getTime() + readDurationMs("ttl", ttl, TTL, EXAMPLE)),
    retires_at: null,
    last_used_at: null,
  };
}

async function readIdentity(
  trx: Parameters<typeof findIdentity>[0],
  orgId: string,
  { host, cluster }: NewToken,
): Promise<TokenIdentity | undefined> {
  if (host !== undefined && cluster !== undefined) throw new ApiError("invalid_field", "cluster: set either host or cluster");
  if (host !== undefined) return await findIdentity(trx, orgId, "host", parseUuid(host) ?? host);
  return cluster === undefined ? undefined : await findIdentity(trx, orgId, "cluster", parseUuid(cluster) ?? cluster);
}

function readNetworks(networks: readonly string[]): string {
  const index = networks.findIndex((network) => !isNetwork(network));
  if (index >= 0) throw new ApiError("invalid_field", `networks[${index}]: must be an address or CIDR, such as 10.0.0.0/8`);
  return networks.join(",");
}

function describeToken(row: IngestTokenRow, previous: IngestTokenRow | undefined) {
  return {
    id: row.id,
    name: row.name,
    signals: row.signals.split(","),
    host: row.kind === "host" ? row.owner_id : null,
    cluster: row.kind === "cluster" ? row.owner_id : null,
    networks: row.networks === "" ? [] : row.networks.split(","),
    bytes_per_second: row.bytes_per_second,
    records_per_second: row.records_per_second,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    previous_valid_until: previous?.retires_at?.toISOString() ?? null,
    previous_last_used_at: previous?.last_used_at?.toISOString() ?? null,
  };
}
