// One `audit` log line, and one entry for GET /api/audit, for every login and every change of a token, key, user, cluster, host, rule or channel.
// Invariant: it names who, from where and what, by ids and names, and holds no secret.
import type { FastifyRequest } from "fastify";

/** What happened, as it is kept. */
export interface AuditEntry {
  readonly action: string;
  /** Whom it was done to; undefined where nobody knows. */
  readonly orgId: string | undefined;
  /** An e-mail address; undefined for a key, and for who is not logged in. */
  readonly actor: string | undefined;
  /** Of the user or key. */
  readonly actorId: string | undefined;
  readonly actorOrgId: string | undefined;
  readonly address: string;
  readonly requestId: string;
  readonly subject: Readonly<Record<string, unknown>>;
}

declare module "fastify" {
  interface FastifyInstance {
    /** Keeps entries; none where only the log does. */
    auditTrail?: { add(entry: AuditEntry): void };
  }
}

/**
 * `action` is `<thing>.<verb>`; `subject` holds ids and names only. `of`: the organisation that it was done to, where that is not the one of
 * who asks.
 */
export function audit(request: FastifyRequest, action: string, subject: Record<string, unknown>, of?: string): void {
  const { user, signingKey } = request;
  const actor = user
    ? { actor_user_id: user.userId, actor: user.email, org_id: user.orgId }
    : signingKey
      ? { actor_key_id: signingKey.keyId, org_id: signingKey.orgId }
      : {};
  request.log.info({ audit: true, action, ...actor, address: request.ip, request_id: request.id, ...subject }, "audit");
  const named = textOf(subject["org_id"]);
  // Nobody was logged in before it.
  const loggedIn = action === "login" ? subject : {};
  const actorOrgId = user?.orgId ?? signingKey?.orgId ?? textOf(loggedIn["org_id"]);
  request.server.auditTrail?.add({
    action,
    orgId: of ?? named ?? actorOrgId,
    actor: user?.email ?? textOf(loggedIn["email"]),
    actorId: user?.userId ?? signingKey?.keyId ?? textOf(loggedIn["user_id"]),
    actorOrgId,
    address: request.ip,
    requestId: request.id,
    subject,
  });
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
