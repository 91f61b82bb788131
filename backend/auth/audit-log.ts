// Records every login and every change of a token, key, user, cluster, host, rule or channel: one log line with `audit: true`, and one entry
// for GET /api/audit. Invariant: an entry contains the actor, the address and the subject as ids and names, and no secret.
import type { FastifyRequest } from "fastify";
import { plainAddress } from "../../common/ip-networks.ts";

export interface AuditEntry {
  readonly action: string;
  /** The organisation that was changed; undefined if it is unknown. */
  readonly orgId: string | undefined;
  /** An e-mail address; undefined for a key and for unauthenticated clients. */
  readonly actor: string | undefined;
  /** The id of the user or key. */
  readonly actorId: string | undefined;
  readonly actorOrgId: string | undefined;
  readonly address: string;
  readonly requestId: string;
  readonly subject: Readonly<Record<string, unknown>>;
}

declare module "fastify" {
  interface FastifyInstance {
    /** Stores entries; undefined if they are only logged. */
    auditTrail?: { add(entry: AuditEntry): void };
  }
}

/**
 * `action` is `<resource>.<verb>`; `subject` contains ids and names only. `targetOrgId`: the organisation that was changed, if it is not the
 * one of the actor.
 */
export function audit(request: FastifyRequest, action: string, subject: Record<string, unknown>, targetOrgId?: string): void {
  const { user, signingKey } = request;
  const actor = user
    ? { actor_user_id: user.userId, actor: user.email, org_id: user.orgId }
    : signingKey
      ? { actor_key_id: signingKey.keyId, org_id: signingKey.orgId }
      : {};
  request.log.info(
    { event: "audit.entry", audit: true, action, ...actor, address: plainAddress(request.ip), request_id: request.id, ...subject },
    "audit",
  );
  // Before a login there is no authenticated user.
  const loggedIn = action === "login" ? subject : {};
  const actorOrgId = user?.orgId ?? signingKey?.orgId ?? optionalText(loggedIn["org_id"]);
  request.server.auditTrail?.add({
    action,
    orgId: targetOrgId ?? optionalText(subject["org_id"]) ?? actorOrgId,
    actor: user?.email ?? optionalText(loggedIn["email"]),
    actorId: user?.userId ?? signingKey?.keyId ?? optionalText(loggedIn["user_id"]),
    actorOrgId,
    address: plainAddress(request.ip),
    requestId: request.id,
    subject,
  });
}

function optionalText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
