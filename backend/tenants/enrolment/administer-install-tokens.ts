// Administration of install tokens: create, list, revoke. Invariant: the token itself is shown once, in the response to its creation.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { durationWithin } from "../../../common/duration.ts";
import { audit } from "../../auth/audit-log.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import { ApiError } from "../../errors.ts";
import { callerOf } from "../../http/request-identity.ts";
import {
  closedSchema,
  ID_PARAMS,
  listResponse,
  NO_CONTENT,
  notFound,
  objectSchema,
  OPTIONAL_TIME_SCHEMA,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { MAX_INSTALL_TOKEN_TTL_MS } from "../tenant-limits.ts";
import { installTokenRow, newInstallToken } from "./install-token.ts";
import type { EnrolmentDeps, InstallTokenRow } from "./enrolment-tables.ts";
import { type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";

const ROUTES = {
  create: {
    ...endpoint("POST", "/api/install-tokens", "admin", "enrolment"),
    summary: "Create an install token, which registers one cluster or host; at most 5,000 unused ones that have not expired",
    bodyIsOptional: true,
    body: closedSchema([], {
      ttl: {
        type: "string",
        pattern: "^[1-9][0-9]{0,7}[smhd]$",
        default: "24h",
        description: "a duration such as 30m, 24h or 7d; at most 365 days",
      },
    }),
    response: { 201: objectSchema({ id: UUID_SCHEMA, token: { type: "string" }, expires_at: TIME_SCHEMA }) },
  },
  list: {
    ...endpoint("GET", "/api/install-tokens", "viewer", "enrolment"),
    summary: "The newest 1,000 install tokens of your organisation, newest first",
    response: listResponse({ id: UUID_SCHEMA, created_at: TIME_SCHEMA, expires_at: TIME_SCHEMA, used_at: OPTIONAL_TIME_SCHEMA }),
  },
  remove: {
    ...endpoint("DELETE", "/api/install-tokens/:id", "admin", "enrolment"),
    summary: "Revoke an install token",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

export function registerInstallTokenAdministration(app: FastifyInstance, { db, guards, now }: EnrolmentDeps): void {
  addHandlers(app, guards, ROUTES, {
    list: async (request) => {
      const { orgId } = callerOf(request);
      return await tenantDatabase(db, orgId)
        .selectFrom("install_tokens")
        .select(["id", "created_at", "expires_at", "used_at"])
        .where("org_id", "=", orgId)
        .where("issuer_id", "is", null)
        .orderBy("created_at", "desc")
        .limit(1000)
        .execute();
    },
    remove: async (request, reply) => {
      const id = readId(request, "install token");
      const { orgId } = callerOf(request);
      const result = await tenantDatabase(db, orgId)
        .deleteFrom("install_tokens")
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .where("issuer_id", "is", null)
        .executeTakeFirst();
      if (result.numDeletedRows === 0n) throw notFound("install token");
      audit(request, "install_token.delete", { install_token_id: id });
      return await reply.code(204).send();
    },
    create: async (request: FastifyRequest<{ Body: { ttl: string } }>, reply: FastifyReply) => {
      const token = newInstallToken();
      const row = installTokenRow(callerOf(request).orgId, token, now(), ttlMs(request.body.ttl));
      const tenantDb = tenantDatabase(db, row.org_id);
      await tenantDb.transaction().execute(async (trx) => {
        await removeExpired(trx, row);
        const unused = trx.selectFrom("install_tokens").where("org_id", "=", row.org_id).where("used_at", "is", null);
        await requireCapacity(trx.$extendTables<OrgTable>(), row.org_id, "unused install tokens", unused);
        await trx.insertInto("install_tokens").values(row).execute();
      });
      const expiresAt = row.expires_at.toISOString();
      audit(request, "install_token.create", { install_token_id: row.id, expires_at: expiresAt });
      return await reply.code(201).send({ id: row.id, token, expires_at: expiresAt });
    },
  });
}

/** A used token stays, because its response may be requested again. */
async function removeExpired(trx: EnrolmentDeps["db"], { org_id: orgId, created_at: now }: InstallTokenRow): Promise<void> {
  const unused = trx.deleteFrom("install_tokens").where("org_id", "=", orgId).where("used_at", "is", null);
  await unused.where("expires_at", "<=", now).execute();
}

function ttlMs(text: string): number {
  const ms = durationWithin(text, { maxMs: MAX_INSTALL_TOKEN_TTL_MS });
  // The schema has validated the format.
  if (ms === undefined) throw new ApiError("invalid_field", "ttl: at most 365d");
  return ms;
}
