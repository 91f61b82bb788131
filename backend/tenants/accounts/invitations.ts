// Creates, lists and removes invitations. The invited person opens the link, chooses a password that no administrator knows, and becomes a
// user (accept-invitation.ts). Invariants: the token is returned once, and only its hash is stored; users cannot grant a role higher than
// their own; only the newest invitation for an e-mail address is valid.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { auditedLimits, LABEL_LIMITS_SCHEMA, requireViewer, shownLimits, storedLimits } from "../../auth/label-limits-schema.ts";
import { callerOf, type Role } from "../../http/request-identity.ts";
import type { AccountDeps } from "../../auth/sessions/login.ts";
import { type AccountDb, EMAIL_SCHEMA, type InvitationRow, normalEmail, requireFreeEmail } from "../../auth/sessions/account-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";
import {
  closedSchema,
  ID_PARAMS,
  NO_CONTENT,
  notFound,
  objectSchema,
  readDurationMs,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import { MAX_INVITATION_TTL_MS, MAX_INVITATIONS_PER_ORG } from "../tenant-limits.ts";
import { requireCapacity } from "../../engines/relational/row-limits.ts";
import { requireOperator, ROLE_SCHEMA } from "./users.ts";

const TTL = { minMs: 60_000, maxMs: MAX_INVITATION_TTL_MS };
const INVITATION = {
  invitation_id: UUID_SCHEMA,
  email: { type: "string" },
  role: ROLE_SCHEMA,
  created_by: { type: "string", description: "the e-mail address of the user who created the invitation" },
  created_at: TIME_SCHEMA,
  expires_at: TIME_SCHEMA,
  label_limits: LABEL_LIMITS_SCHEMA,
};
const token = { type: "string", description: "the link is `<console URL>/#/invitation/<token>`" };
const ROUTES = {
  create: {
    ...endpoint("POST", "/api/invitations", "admin", "accounts"),
    errors: ["conflict", "limit_reached"] as const,
    summary: `Invite a person, who chooses a password; at most ${MAX_INVITATIONS_PER_ORG} invitations`,
    description:
      "The token is returned once and can be used once. A newer invitation for the same e-mail address replaces this one. An invitation becomes invalid if its creator is removed or may no longer grant the role.",
    body: closedSchema(["email", "role"], {
      email: EMAIL_SCHEMA,
      role: ROLE_SCHEMA,
      ttl: { type: "string", maxLength: 40, default: "7d", description: "a duration such as 12h or 7d; at most 30 days" },
      label_limits: LABEL_LIMITS_SCHEMA,
    }),
    response: { 201: objectSchema({ ...INVITATION, token }) },
  },
  list: {
    ...endpoint("GET", "/api/invitations", "admin", "accounts"),
    summary: "List the valid invitations of your organisation, ordered by e-mail address",
    response: { 200: { type: "array", items: objectSchema(INVITATION) } },
  },
  remove: {
    ...endpoint("DELETE", "/api/invitations/:id", "admin", "accounts"),
    summary: "Remove an invitation; its link is rejected immediately",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

interface CreateBody {
  readonly email: string;
  readonly role: Role;
  readonly ttl: string;
  readonly label_limits?: LabelLimits | null;
}

export interface InvitationDeps extends AccountDeps {
  readonly isPasswordLogin: boolean;
}

export function invitationHash(secret: string): string {
  return createHash("sha256").update(secret, "utf8").digest("hex");
}

/** Throws `conflict` if password login is disabled, because an invited user could not log in. */
export function requirePasswordLogin({ isPasswordLogin }: InvitationDeps): void {
  if (!isPasswordLogin)
    throw new ApiError("conflict", "users log in through single sign-on (PASSWORD_LOGIN=false), which also creates their accounts");
}

export function registerInvitationRoutes(app: FastifyInstance, deps: InvitationDeps): void {
  const { db, guards, now = Date.now } = deps;
  addHandlers(app, guards, ROUTES, {
    create: async (request: FastifyRequest<{ Body: CreateBody }>, reply: FastifyReply) => {
      requirePasswordLogin(deps);
      const { role, ttl } = request.body;
      const caller = callerOf(request);
      if (role === "operator") requireOperator(caller);
      const label_limits = storedLimits(request.body.label_limits);
      requireViewer(role, { label_limits });
      const email = normalEmail(request.body.email);
      await requireFreeEmail(db, email);
      const secret = randomBytes(32).toString("base64url");
      const at = now();
      const row = {
        id: randomUUID(),
        org_id: caller.orgId,
        token_hash: invitationHash(secret),
        email,
        role,
        label_limits,
        created_by: caller.userId,
        created_at: new Date(at),
        expires_at: new Date(at + readDurationMs("ttl", ttl, TTL, "12h or 7d")),
      };
      await replaceWithinLimit(deps, row);
      audit(request, "invitation.create", {
        invitation_id: row.id,
        email,
        role,
        expires_at: row.expires_at.toISOString(),
        ...auditedLimits(row),
      });
      return await reply.code(201).send({ ...describeInvitation({ ...row, creator: caller.email }), token: secret });
    },
    list: async (request) => await listInvitations(db, callerOf(request).orgId, new Date(now())),
    remove: async (request, reply) => {
      const { orgId } = callerOf(request);
      const id = readId(request, "invitation");
      const removed = await tenantDatabase(db, orgId)
        .deleteFrom("invitations")
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .returning("email")
        .executeTakeFirst();
      if (!removed) throw notFound("invitation");
      audit(request, "invitation.delete", { invitation_id: id, email: removed.email });
      return await reply.code(204).send();
    },
  });
}

async function listInvitations(db: AccountDb, orgId: string, at: Date) {
  const rows = await tenantDatabase(db, orgId)
    .selectFrom("invitations")
    .innerJoin("users", "users.id", "invitations.created_by")
    .selectAll("invitations")
    .select("users.email as creator")
    .where("invitations.org_id", "=", orgId)
    .where("invitations.expires_at", ">", at)
    .orderBy("invitations.email")
    .execute();
  return rows.map(describeInvitation);
}

/** Deletes expired invitations and an earlier one for the same e-mail address, which do not count towards the limit. */
async function replaceWithinLimit({ db }: AccountDeps, row: InvitationRow): Promise<void> {
  const { org_id, email, created_at } = row;
  const tenantDb = tenantDatabase(db, org_id);
  await tenantDb.transaction().execute(async (trx) => {
    const others = trx.selectFrom("invitations").where("org_id", "=", org_id).where("email", "<>", email);
    await requireCapacity(trx, org_id, "invitations", others.where("expires_at", ">", created_at), MAX_INVITATIONS_PER_ORG);
    await trx
      .deleteFrom("invitations")
      .where("org_id", "=", org_id)
      .where((any) => any.or([any("email", "=", email), any("expires_at", "<=", created_at)]))
      .execute();
    await trx.insertInto("invitations").values(row).execute();
  });
}

function describeInvitation(row: InvitationRow & { readonly creator: string }) {
  return {
    invitation_id: row.id,
    email: row.email,
    role: row.role,
    created_by: row.creator,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at.toISOString(),
    label_limits: shownLimits(row),
  };
}
