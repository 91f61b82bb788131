// Enrolment with a token of a trusted issuer. Invariants: the rule of the issuer gives a cluster its name, so a cluster cannot enrol under
// the name of another one, even if that one was enrolled with an install token; a cluster or host that one issuer has enrolled is not
// enrolled again by another issuer; hosts also need the same subject.
import { createHash, randomUUID } from "node:crypto";
import type { Selectable, Transaction } from "kysely";
import { type Identity, NOT_ACCEPTED, type TrustedIssuers } from "../../auth/issuers/trusted-issuers.ts";
import { MAX_ENROLMENTS_PER_ISSUER } from "../../auth/auth-limits.ts";
import { ApiError } from "../../errors.ts";
import { lockOrg, type OrgTable } from "../../engines/relational/tenant-database.ts";
import type { ClusterTable, EnrolmentTables, HostTable } from "./enrolment-tables.ts";

export type EnrolPermission = "enrol_cluster" | "enrol_host";

/** The identity that enrols. `name`: the only name under which it may. */
export interface EnrollingIdentity extends Pick<Identity, "orgId" | "issuerId" | "issuerName" | "subject" | "subjectId"> {
  readonly name: string | undefined;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set on the routes of enrolment if the request has a token of a trusted issuer. */
    enrolling?: EnrollingIdentity;
  }
}

/** How long the record of an enrolment is kept; longer than a lost response can be requested again. */
const RECORD_MS = 48 * 3_600_000;

/** Throws `invalid_install_token`, whatever the reason, and `forbidden`. */
export async function permitEnrolment(
  issuers: Pick<TrustedIssuers, "verify">,
  token: string,
  permission: EnrolPermission,
): Promise<EnrollingIdentity> {
  const identity = await issuers.verify(token).catch((cause: unknown) => {
    const isRefused = cause instanceof ApiError && cause.code === "invalid_token";
    throw isRefused ? new ApiError("invalid_install_token", cause.message, { cause }) : cause;
  });
  const permitted = identity.enrol[permission];
  const kind = permission === "enrol_cluster" ? "cluster" : "host";
  if (!permitted) throw new ApiError("forbidden", `no rule of the issuer ${identity.issuerName} permits this token to enrol a ${kind}`);
  const { orgId, issuerId, issuerName, subject, subjectId } = identity;
  return { orgId, issuerId, issuerName, subject, subjectId, name: permitted.name };
}

/** Identifies an enrolment across new tokens of the same subject. */
export function enrolmentOf({ subjectId }: EnrollingIdentity, idempotencyKey: string): string {
  return `${subjectId} ${idempotencyKey}`;
}

/**
 * Adds the record of an enrolment, unless a request with the same Idempotency-Key has added it. Removes old ones. Throws
 * `invalid_install_token` if the issuer was removed. Enrolments of an organisation run one after another, so that two clusters cannot
 * take one name.
 */
export async function addEnrolment(
  trx: Transaction<EnrolmentTables>,
  { orgId, issuerId }: EnrollingIdentity,
  enrolment: string,
  nowMs: number,
): Promise<void> {
  const [createdAt, longAgo] = [new Date(nowMs), new Date(nowMs - RECORD_MS)];
  await trx
    .deleteFrom("install_tokens")
    .where("org_id", "=", orgId)
    .where("issuer_id", "is not", null)
    .where("created_at", "<", longAgo)
    .execute();
  await lockOrg(trx.$extendTables<OrgTable>(), orgId);
  const issuer = await trx
    .selectFrom("trusted_issuers")
    .select("id")
    .where("id", "=", issuerId)
    .where("org_id", "=", orgId)
    .forUpdate()
    .executeTakeFirst();
  if (!issuer) throw new ApiError("invalid_install_token", NOT_ACCEPTED);
  const { enrolments } = await trx
    .selectFrom("install_tokens")
    .select(({ fn }) => fn.countAll().as("enrolments"))
    .where("org_id", "=", orgId)
    .where("issuer_id", "=", issuerId)
    .executeTakeFirstOrThrow();
  if (Number(enrolments) >= MAX_ENROLMENTS_PER_ISSUER)
    throw new ApiError(
      "conflict",
      `more than ${MAX_ENROLMENTS_PER_ISSUER} enrolments with tokens of this issuer in 48 hours; try again later`,
    );
  const unused = { used_at: null, used_idempotency_key: null, used_body_hash: null, used_key_id: null };
  const times = { created_at: createdAt, expires_at: new Date(nowMs + RECORD_MS) };
  const hash = createHash("sha256").update(enrolment).digest("hex");
  await trx
    .insertInto("install_tokens")
    .values({ id: randomUUID(), org_id: orgId, token_hash: hash, issuer_id: issuerId, ...times, ...unused })
    .onConflict((conflict) => conflict.column("token_hash").doNothing())
    .execute();
}

/** Throws `forbidden` for another name than that of the rule. */
export function requireName({ name, issuerName }: EnrollingIdentity, requested: string, field: string): void {
  if (name !== undefined && name !== requested)
    throw new ApiError(
      "forbidden",
      `the rule of the issuer ${issuerName} permits only the name ${JSON.stringify(name)}: set ${field} to it`,
    );
}

/** Throws `conflict` if another issuer has enrolled the cluster, if it has another name, or if another cluster has its name. Call with the locked row. */
export async function requireOwnCluster(
  trx: Transaction<EnrolmentTables>,
  by: EnrollingIdentity,
  { id, name, issuer_id }: Selectable<ClusterTable>,
): Promise<void> {
  if (name !== by.name || (issuer_id !== null && issuer_id !== by.issuerId)) throw notOwn("cluster", name);
  const other = await trx
    .selectFrom("clusters")
    .select("id")
    .where("org_id", "=", by.orgId)
    .where("name", "=", by.name ?? "")
    .where("id", "!=", id)
    .executeTakeFirst();
  if (!other) return;
  throw new ApiError(
    "conflict",
    `another cluster (${other.id}) is called ${JSON.stringify(by.name)}: remove it first, or use another name`,
  );
}

/** Throws `conflict` if another issuer or subject has enrolled the host. Call with the locked row. */
export function requireOwnHost(by: EnrollingIdentity, { hostname, issuer_id, issuer_subject }: Selectable<HostTable>): void {
  const isOwn = issuer_id === null ? hostname === by.name : issuer_id === by.issuerId && issuer_subject === by.subject;
  if (!isOwn) throw notOwn("host", hostname);
}

function notOwn(kind: "cluster" | "host", name: string): ApiError {
  return new ApiError(
    "conflict",
    `the ${kind} ${JSON.stringify(name)} was enrolled in another way: remove it first, or use an install token`,
  );
}
