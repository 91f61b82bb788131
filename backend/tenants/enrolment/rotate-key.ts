// POST /api/clusters/rotate-key: the agent of a cluster replaces its key; the old key stays valid for 5 minutes. Invariant: a lost response
// can be requested again with the same Idempotency-Key, during the overlap and afterwards until the new key has signed a request (at most
// 24 hours). A cluster has one current key, plus keys in overlap.
import type { FastifyInstance } from "fastify";
import type { Transaction } from "kysely";
import { ROTATE_KEY_PATH, ROTATION_OVERLAP_MS, type RotateKeyResponse } from "../../../common/protocol/enrolment.ts";
import { audit } from "../../auth/audit-log.ts";
import { createRotationGuard, revoked } from "../../auth/signed-requests.ts";
import { ApiError } from "../../errors.ts";
import { signerOf } from "../../http/request-identity.ts";
import { objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { idempotencyKey, REPLAY_MS } from "./install-token.ts";
import { mintKey, retireOtherKeys } from "./key-table.ts";
import type { EnrolmentDeps, EnrolmentTables, KeyRow } from "./enrolment-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

const schema = {
  summary: "Replace the cluster's key",
  description: "Needs the Idempotency-Key header. The old key is accepted for 5 more minutes.",
  tag: "enrolment",
  response: {
    200: objectSchema({ api_key: { type: "string" }, key_created_at: TIME_SCHEMA, previous_key_expires_at: TIME_SCHEMA }),
  },
} as const;

export function registerRotateKey(app: FastifyInstance, deps: EnrolmentDeps): void {
  const { db, masterKeys, keys, now } = deps;
  addRoute(app, deps.guards, {
    ...endpoint("POST", ROTATE_KEY_PATH, { security: ["signature"], onRequest: createRotationGuard({ keys, now }) }),
    ...schema,
    handler: async (request): Promise<RotateKeyResponse> => {
      const idempotency = idempotencyKey(request);
      const signing = signerOf(request);
      const at = new Date(now());
      const tenantDb = tenantDatabase(db, signing.orgId);
      const { fresh, old, rawKey, repeated } = await tenantDb.transaction().execute(async (trx) => {
        const clusterKeys = await keysOfCluster(trx, signing.hostId);
        const old = clusterKeys.find((key) => key.id === signing.keyId);
        if (!old || old.revoked_at) throw revoked();
        const earlier = clusterKeys.find(
          (key) => key.rotation_idempotency_key === idempotency && [key.id, key.rotated_from].includes(old.id),
        );
        if (earlier)
          return {
            ...repeatResponse(earlier, old, clusterKeys, at),
            rawKey: masterKeys.decrypt(earlier, earlier.org_id, earlier.id),
            repeated: true,
          };
        checkMayRotate(old, clusterKeys, at);
        const key = { orgId: old.org_id, kind: "cluster" as const, ownerId: old.owner_id, node: old.node };
        const minted = await mintKey(trx, masterKeys, { ...key, rotatedFrom: old.id, rotationIdempotencyKey: idempotency }, at);
        const expires = new Date(at.getTime() + ROTATION_OVERLAP_MS);
        await retireOtherKeys(trx, minted.row, expires);
        return { fresh: minted.row, old: { ...old, expires_at: expires }, rawKey: minted.rawKey, repeated: false };
      });
      keys.forget(old.key_hash);
      audit(request, "key.rotate", { cluster_id: old.owner_id, old_key_id: old.id, new_key_id: fresh.id, repeated });
      return {
        api_key: rawKey,
        key_created_at: fresh.created_at.toISOString(),
        previous_key_expires_at: (old.expires_at ?? at).toISOString(),
      };
    },
  });
}

/** All keys of a cluster, newest first. Locks the cluster, so that its rotations are serialised. */
async function keysOfCluster(trx: Transaction<EnrolmentTables>, clusterId: string): Promise<KeyRow[]> {
  await trx.selectFrom("clusters").select("id").where("id", "=", clusterId).forUpdate().execute();
  return await trx.selectFrom("api_keys").selectAll().where("owner_id", "=", clusterId).orderBy("created_at", "desc").execute();
}

/** Repeats the response of the rotation that created `fresh`, for that key or the key that it replaced. */
function repeatResponse(fresh: KeyRow, signedBy: KeyRow, clusterKeys: readonly KeyRow[], at: Date): { fresh: KeyRow; old: KeyRow } {
  if (fresh.revoked_at) throw revoked();
  const pending = fresh.first_used_at === null && at.getTime() - fresh.created_at.getTime() <= REPLAY_MS;
  if (isOver(signedBy, at) && !pending) throw revoked();
  return { fresh, old: clusterKeys.find((key) => key.id === fresh.rotated_from) ?? signedBy };
}

function checkMayRotate(old: KeyRow, clusterKeys: readonly KeyRow[], at: Date): void {
  if (isOver(old, at)) throw revoked();
  const newest = clusterKeys.find((key) => key.revoked_at === null);
  const leftMs = newest?.rotated_from ? newest.created_at.getTime() + ROTATION_OVERLAP_MS - at.getTime() : 0;
  if (leftMs <= 0 && old.expires_at === null) return;
  const reason =
    newest?.id === old.id
      ? "this key was created by a rotation less than 5 minutes ago: rotate again after the overlap, see Retry-After"
      : "this cluster has a newer key: use it, or repeat the Idempotency-Key of its rotation";
  throw new ApiError("rotation_in_progress", reason, { retryAfterS: (leftMs > 0 ? leftMs : ROTATION_OVERLAP_MS) / 1000 });
}

function isOver(key: KeyRow, at: Date): boolean {
  return key.expires_at !== null && key.expires_at <= at;
}
