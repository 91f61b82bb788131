// Removes a cluster or a host: one route for each. Invariant: its keys and ingest tokens are revoked in the same transaction, and in this
// process at once.
import type { FastifyInstance } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../http/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { ID_PARAMS, NO_CONTENT, notFound, readId } from "../../http/schemas.ts";
import { removeTokensOf } from "./ingest-token-table.ts";
import { revokeKeysOf } from "./key-table.ts";
import type { EnrolmentDeps } from "./enrolment-tables.ts";

interface Removal {
  readonly path: string;
  readonly kind: "cluster" | "host";
  /** The name of its id in the audit log. */
  readonly idField: string;
}

export function registerRemoval(app: FastifyInstance, deps: EnrolmentDeps, { path, kind, idField }: Removal): void {
  const { db, guards, keys, ingestTokens, now } = deps;
  addRoute(app, guards, {
    ...endpoint("DELETE", path, "admin", "enrolment"),
    summary: `Remove a ${kind} and revoke its keys and ingest tokens; all replicas normally refuse them within 5 seconds`,
    params: ID_PARAMS,
    response: NO_CONTENT,
    handler: async (request, reply) => {
      const id = readId(request, kind);
      const { orgId } = callerOf(request);
      const tenantDb = tenantDatabase(db, orgId);
      const { hashes, tokens } = await tenantDb.transaction().execute(async (trx) => {
        const result = await trx
          .deleteFrom(`${kind}s` as const)
          .where("id", "=", id)
          .where("org_id", "=", orgId)
          .executeTakeFirst();
        if (result.numDeletedRows === 0n) throw notFound(kind);
        return { hashes: await revokeKeysOf(trx, orgId, id, new Date(now())), tokens: await removeTokensOf(trx, orgId, id) };
      });
      keys.forget(...hashes);
      ingestTokens.forget(...tokens);
      audit(request, `${kind}.delete`, { [idField]: id, revoked_keys: hashes.length, removed_ingest_tokens: tokens.length });
      return await reply.code(204).send();
    },
  });
}
