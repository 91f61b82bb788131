// Administration of read tokens: create, list, remove. Invariant: the token itself is shown once, in the response to its creation. It
// belongs to the organisation and stays valid if its creator is removed.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Transaction } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { auditedLimits, LABEL_LIMITS_SCHEMA, shownLimits, storedLimits } from "../../auth/label-limits-schema.ts";
import { callerOf } from "../../http/request-identity.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import {
  closedSchema,
  ID_PARAMS,
  listResponse,
  nameSchema,
  NO_CONTENT,
  notFound,
  objectSchema,
  readDurationMs,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import { MAX_READ_TOKEN_TTL_MS } from "../tenant-limits.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import type { AccountTables, ReadTokenRow } from "../../auth/sessions/account-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

/** How long expired tokens stay in the list, so that users can see why a data source stopped. */
const EXPIRED_LISTED_MS = 30 * 86_400_000;
const TTL = { minMs: 60_000, maxMs: MAX_READ_TOKEN_TTL_MS };
const ROUTES = {
  create: {
    ...endpoint("POST", "/api/read-tokens", "admin", "accounts"),
    summary: "Create a read token; at most 5,000, with those that are listed after they expired",
    description:
      "A read token grants access to /query/, to POST /mcp, and to GET requests for alert rules, silences, service level objectives, and the APIs of Prometheus and Alertmanager for alerts. Send it as a bearer token or as the password of Basic auth. It stays valid if its creator is removed.",
    body: closedSchema(["name"], {
      name: nameSchema(200),
      ttl: { type: "string", maxLength: 40, default: "90d", description: "a duration such as 12h, 90d or 1y; at most 365 days" },
      label_limits: LABEL_LIMITS_SCHEMA,
    }),
    response: { 201: objectSchema({ id: UUID_SCHEMA, name: { type: "string" }, token: { type: "string" }, expires_at: TIME_SCHEMA }) },
  },
  list: {
    ...endpoint("GET", "/api/read-tokens", "viewer", "accounts"),
    summary: "Read tokens of your organisation, by name; expired tokens are listed for 30 days",
    description: "Pages have 500 entries; the Link header points to the next page.",
    query: CURSOR_QUERY,
    response: listResponse({
      id: UUID_SCHEMA,
      name: { type: "string" },
      created_by: { type: "string", description: "the e-mail address of the creator at that time" },
      created_at: TIME_SCHEMA,
      expires_at: TIME_SCHEMA,
      label_limits: LABEL_LIMITS_SCHEMA,
    }),
  },
  remove: {
    ...endpoint("DELETE", "/api/read-tokens/:id", "admin", "accounts"),
    summary: "Remove a read token; all replicas normally refuse it within 5 seconds",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

interface CreateBody {
  readonly name: string;
  readonly ttl: string;
  readonly label_limits?: LabelLimits | null;
}

export function registerReadTokenAdministration(
  app: FastifyInstance,
  { db, guards, readTokens, now = Date.now, pageRows }: AccountDeps,
): void {
  addHandlers(app, guards, ROUTES, {
    create: async (request: FastifyRequest<{ Body: CreateBody }>, reply: FastifyReply) => {
      const { orgId, email } = callerOf(request);
      const { name, ttl, label_limits } = request.body;
      const at = now();
      const expires = new Date(Math.floor((at + readDurationMs("ttl", ttl, TTL, "12h or 90d")) / 1000) * 1000);
      const row = {
        id: randomUUID(),
        org_id: orgId,
        name,
        created_by: email,
        created_at: new Date(at),
        expires_at: expires,
        label_limits: storedLimits(label_limits),
      };
      const tenantDb = tenantDatabase(db, orgId);
      await tenantDb.transaction().execute(async (trx) => await insertWithinLimit(trx, row));
      audit(request, "read_token.create", { read_token_id: row.id, name, expires_at: expires.toISOString(), ...auditedLimits(row) });
      const token = await readTokens.issue(row);
      return await reply.code(201).send({ id: row.id, name, token, expires_at: expires.toISOString() });
    },
    remove: async (request, reply) => {
      const id = readId(request, "read token");
      const { orgId } = callerOf(request);
      const removed = await tenantDatabase(db, orgId)
        .deleteFrom("read_tokens")
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .returning("name")
        .executeTakeFirst();
      if (!removed) throw notFound("read token");
      readTokens.forget(id);
      audit(request, "read_token.delete", { read_token_id: id, name: removed.name });
      return await reply.code(204).send();
    },
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const query = tenantDatabase(db, orgId)
        .selectFrom("read_tokens")
        .select(["id", "name", "created_by", "created_at", "expires_at", "label_limits"])
        .where("org_id", "=", orgId)
        .where("expires_at", ">", new Date(now() - EXPIRED_LISTED_MS));
      const rows = await readPage(request, reply, query, { sortedBy: "name", limit: pageRows });
      return rows.map((row) => ({ ...row, label_limits: shownLimits(row) }));
    },
  });
}

/** Tokens that expired long ago are deleted and do not count. */
async function insertWithinLimit(trx: Transaction<AccountTables>, row: ReadTokenRow): Promise<void> {
  const longAgo = new Date(row.created_at.getTime() - EXPIRED_LISTED_MS);
  const listed = trx.selectFrom("read_tokens").where("org_id", "=", row.org_id).where("expires_at", ">", longAgo);
  await requireCapacity(trx, row.org_id, "read tokens", listed);
  await trx.deleteFrom("read_tokens").where("org_id", "=", row.org_id).where("expires_at", "<=", longAgo).execute();
  await trx.insertInto("read_tokens").values(row).execute();
}
