// One `audit` log line for every login and every change of a token, key, user, cluster or host. Invariant: it names who, from where and
// what, by ids and names, and holds no secret.
import type { FastifyRequest } from "fastify";

/** `action` is `<thing>.<verb>`; `subject` holds ids and names only. */
export function audit(request: FastifyRequest, action: string, subject: Record<string, unknown>): void {
  const actor = request.user
    ? { actor_user_id: request.user.userId, actor: request.user.email, org_id: request.user.orgId }
    : request.signingKey
      ? { actor_key_id: request.signingKey.keyId, org_id: request.signingKey.orgId }
      : {};
  request.log.info({ audit: true, action, ...actor, address: request.ip, request_id: request.id, ...subject }, "audit");
}
