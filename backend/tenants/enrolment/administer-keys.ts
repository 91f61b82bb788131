// Administration of keys for direct ingest: create, list, revoke. Invariant: the key itself is shown once, in the response to its creation;
// revoked keys are not listed.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import { callerOf } from "../../http/request-identity.ts";
import {
  closedSchema,
  ID_PARAMS,
  listResponse,
  nameSchema,
  NO_CONTENT,
  notFound,
  objectSchema,
  OPTIONAL_TIME_SCHEMA,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { mintKey, revokeKeysOf } from "./key-table.ts";
import type { EnrolmentDeps, EnrolmentTables } from "./enrolment-tables.ts";
import type { Kysely } from "kysely";
import { type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";

const key = { key_id: UUID_SCHEMA, name: { type: "string" }, created_at: TIME_SCHEMA } as const;
const ROUTES = {
  create: {
    ...endpoint("POST", "/api/keys", "admin", "enrolment"),
    summary: "Create a key for direct ingest; its name becomes `node` of its data; at most 5,000",
    body: closedSchema({ name: nameSchema(200) }),
    response: { 201: objectSchema({ ...key, api_key: { type: "string" } }) },
  },
  list: {
    ...endpoint("GET", "/api/keys", "viewer", "enrolment"),
    summary: "Keys for direct ingest of your organisation",
    response: listResponse({ ...key, first_used_at: OPTIONAL_TIME_SCHEMA }),
  },
  remove: {
    ...endpoint("DELETE", "/api/keys/:id", "admin", "enrolment"),
    summary: "Revoke a key; all replicas normally refuse it within 5 seconds",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

export function registerKeyAdministration(app: FastifyInstance, { db, guards, masterKeys, keys, now }: EnrolmentDeps): void {
  addHandlers(app, guards, ROUTES, {
    create: async (request: FastifyRequest<{ Body: { name: string } }>, reply: FastifyReply) => {
      const { name } = request.body;
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const { row, rawKey } = await tenantDb.transaction().execute(async (trx) => {
        await requireCapacity(trx.$extendTables<OrgTable>(), orgId, "keys", selectDirectKeys(trx, orgId));
        return await mintKey(trx, masterKeys, { orgId, kind: "direct", node: name }, new Date(now()));
      });
      audit(request, "key.create", { key_id: row.id, name });
      return await reply.code(201).send({ key_id: row.id, name, api_key: rawKey, created_at: row.created_at.toISOString() });
    },
    list: async (request) => {
      const { orgId } = callerOf(request);
      const direct = selectDirectKeys(tenantDatabase(db, orgId), orgId);
      return await direct.select(["id as key_id", "node as name", "created_at", "first_used_at"]).orderBy("created_at", "desc").execute();
    },
    remove: async (request, reply) => {
      const id = readId(request, "key");
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const key = await selectDirectKeys(tenantDb, orgId).select("node").where("id", "=", id).executeTakeFirst();
      const hashes = key ? await revokeKeysOf(tenantDb, orgId, id, new Date(now())) : [];
      if (!key || hashes.length === 0) throw notFound("key");
      keys.forget(...hashes);
      audit(request, "key.revoke", { key_id: id, name: key.node });
      return await reply.code(204).send();
    },
  });
}

function selectDirectKeys(db: Kysely<EnrolmentTables>, orgId: string) {
  return db.selectFrom("api_keys").where("org_id", "=", orgId).where("kind", "=", "direct").where("revoked_at", "is", null);
}
