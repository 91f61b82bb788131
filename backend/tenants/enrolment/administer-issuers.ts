// Administration of trusted issuers: create, list, replace, remove. Invariant: an issuer is stored only with usable keys, given or fetched,
// and its audience contains the id of the organisation, so that a token for one organisation is never accepted by another.
import { randomUUID } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { sql, type Transaction } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { MAX_ISSUER_URL_LENGTH, MAX_ISSUERS_BYTES_PER_ORG, MAX_ISSUERS_PER_ORG } from "../../auth/auth-limits.ts";
import { checkRules, type IssuerRule, RULES_SCHEMA } from "../../auth/issuers/claim-rules.ts";
import { organisationOf } from "../../auth/issuers/identity-token.ts";
import type { TrustedIssuerRow } from "../../auth/issuers/issuer-table.ts";
import { KeysUnavailable, readKeySet } from "../../auth/issuers/key-set.ts";
import { callerOf } from "../../http/request-identity.ts";
import { lockOrg, type OrgTable, tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { ApiError } from "../../errors.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import { addHandlers, endpoint } from "../../http/route.ts";
import {
  closedSchema,
  ID_PARAMS,
  invalidField,
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
import { requireCapacity, requireUniqueName } from "../../engines/relational/row-limits.ts";
import type { EnrolmentDeps, EnrolmentTables } from "./enrolment-tables.ts";

/** Rows with keys and rules may have 200 KiB each. */
const PAGE_ROWS = 50;
const MAX_BODY_BYTES = 256 * 1024;
const JWKS_SCHEMA = { type: ["object", "null"], additionalProperties: true } as const;

const BODY = closedSchema(["name", "issuer", "rules"], {
  name: nameSchema(100),
  issuer: {
    ...nameSchema(MAX_ISSUER_URL_LENGTH),
    description: "the claim `iss` of its tokens; without `jwks`, the https URL under which it publishes its metadata",
  },
  audience: {
    ...nameSchema(200),
    description: "the claim `aud` of its tokens, which contains the id of your organisation; by default atherops:<id>",
  },
  jwks: { ...JWKS_SCHEMA, description: 'the public keys of an issuer that the backend cannot reach: {"keys": […]}; null: fetch them' },
  rules: { ...RULES_SCHEMA, description: "of the rules that match a token, the first one that permits what the request needs applies" },
});

interface IssuerBody {
  readonly name: string;
  readonly issuer: string;
  readonly audience?: string;
  readonly jwks?: object | null;
  readonly rules: readonly IssuerRule[];
}

const STORED = objectSchema({ id: UUID_SCHEMA, name: { type: "string" }, audience: { type: "string" } });
const DESCRIPTION =
  "Without `jwks`, the backend fetches the keys once before it answers, and refuses an issuer whose keys it cannot fetch. It sends requests only over https, to public addresses and those in NOTIFY_ALLOWED_NETWORKS.";

const ROUTES = {
  create: {
    ...endpoint("POST", "/api/issuers", "admin", "enrolment"),
    errors: ["conflict"] as const,
    summary: `Trust an issuer of OpenID Connect tokens; at most ${MAX_ISSUERS_PER_ORG}`,
    description: DESCRIPTION,
    body: BODY,
    response: { 201: STORED },
    maxBodyBytes: MAX_BODY_BYTES,
  },
  replace: {
    ...endpoint("PUT", "/api/issuers/:id", "admin", "enrolment"),
    errors: ["conflict"] as const,
    summary: "Replace a trusted issuer; all replicas normally apply the change within 5 seconds",
    description: DESCRIPTION,
    params: ID_PARAMS,
    body: BODY,
    response: { 200: STORED },
    maxBodyBytes: MAX_BODY_BYTES,
  },
  list: {
    ...endpoint("GET", "/api/issuers", "viewer", "enrolment"),
    summary: "Trusted issuers of your organisation, by name",
    description: `Pages have ${PAGE_ROWS} entries; the Link header points to the next page.`,
    query: CURSOR_QUERY,
    response: listResponse({
      id: UUID_SCHEMA,
      name: { type: "string" },
      issuer: { type: "string" },
      audience: { type: "string" },
      jwks: { ...JWKS_SCHEMA, description: "null if the keys are fetched" },
      keys: { type: "integer", description: "the number of its keys" },
      keys_fetched_at: { ...OPTIONAL_TIME_SCHEMA, description: "null if an administrator gave the keys" },
      rules: { type: "array", items: { type: "object", additionalProperties: true } },
      created_by: { type: "string", description: "e-mail address" },
      created_at: TIME_SCHEMA,
      updated_by: { type: "string", description: "e-mail address" },
      updated_at: TIME_SCHEMA,
    }),
  },
  remove: {
    ...endpoint("DELETE", "/api/issuers/:id", "admin", "enrolment"),
    summary:
      "Remove a trusted issuer; all replicas normally refuse its tokens within 5 seconds, and enrolled clusters and hosts keep their keys",
    params: ID_PARAMS,
    response: NO_CONTENT,
  },
};

type BodyRequest = FastifyRequest<{ Body: IssuerBody }>;

export function registerIssuerAdministration(app: FastifyInstance, deps: EnrolmentDeps): void {
  const { db, guards, pageRows = PAGE_ROWS } = deps;
  const changed = (request: FastifyRequest, action: string, { id, ...names }: { id: string; name: string; issuer?: string }) => {
    deps.issuers.forget(callerOf(request).orgId);
    audit(request, action, { issuer_id: id, ...names });
  };
  addHandlers(app, guards, ROUTES, {
    create: async (request: BodyRequest, reply: FastifyReply) => {
      const { id, name, issuer, audience } = await addIssuer(deps, request);
      changed(request, "issuer.create", { id, name, issuer });
      return await reply.code(201).send({ id, name, audience });
    },
    replace: async (request: BodyRequest) => {
      const { id, name, issuer, audience } = await replaceIssuer(deps, request);
      changed(request, "issuer.update", { id, name, issuer });
      return { id, name, audience };
    },
    remove: async (request, reply) => {
      const id = readId(request, "trusted issuer");
      const { orgId } = callerOf(request);
      const removed = await tenantDatabase(db, orgId)
        .deleteFrom("trusted_issuers")
        .where("id", "=", id)
        .where("org_id", "=", orgId)
        .returning("name")
        .executeTakeFirst();
      if (!removed) throw notFound("trusted issuer");
      changed(request, "issuer.delete", { id, name: removed.name });
      return await reply.code(204).send();
    },
    list: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const query = tenantDatabase(db, orgId).selectFrom("trusted_issuers").selectAll().where("org_id", "=", orgId);
      return (await readPage(request, reply, query, { sortedBy: "name", limit: pageRows })).map(describe);
    },
  });
}

async function addIssuer(deps: EnrolmentDeps, request: BodyRequest): Promise<TrustedIssuerRow> {
  const { orgId, email } = callerOf(request);
  const row = await toRow(deps, request);
  const stored = { ...row, id: randomUUID(), org_id: orgId, version: 1, created_by: email, created_at: row.updated_at };
  return await changeIssuers(deps, request, row.name, async (trx) => {
    const existing = trx.selectFrom("trusted_issuers").where("org_id", "=", orgId);
    await requireCapacity(trx.$extendTables<OrgTable>(), orgId, "trusted issuers", existing, MAX_ISSUERS_PER_ORG);
    await requireDistinct(trx, stored);
    return await trx.insertInto("trusted_issuers").values(stored).returningAll().executeTakeFirstOrThrow();
  });
}

async function replaceIssuer(deps: EnrolmentDeps, request: BodyRequest): Promise<TrustedIssuerRow> {
  const id = readId(request, "trusted issuer");
  const { orgId } = callerOf(request);
  const row = await toRow(deps, request);
  const updated = await changeIssuers(deps, request, row.name, async (trx) => {
    await lockOrg(trx.$extendTables<OrgTable>(), orgId);
    await requireDistinct(trx, { ...row, id, org_id: orgId });
    return await trx
      .updateTable("trusted_issuers")
      .set((update) => ({ ...row, version: update("version", "+", 1) }))
      .where("id", "=", id)
      .where("org_id", "=", orgId)
      .returningAll()
      .executeTakeFirst();
  });
  if (!updated) throw notFound("trusted issuer");
  return updated;
}

async function changeIssuers<T>(
  { db }: EnrolmentDeps,
  request: FastifyRequest,
  name: string,
  change: (trx: Transaction<EnrolmentTables>) => Promise<T>,
): Promise<T> {
  const { orgId } = callerOf(request);
  const tenantDb = tenantDatabase(db, orgId);
  const changeWithinLimit = async (trx: Transaction<EnrolmentTables>): Promise<T> => {
    const changed = await change(trx);
    await requireBytes(trx, orgId);
    return changed;
  };
  return await requireUniqueName("trusted issuer", name, () => tenantDb.transaction().execute(changeWithinLimit));
}

/** Throws `conflict` if the issuers of the organisation have become too large. */
async function requireBytes(trx: Transaction<EnrolmentTables>, orgId: string): Promise<void> {
  const { bytes } = await trx
    .selectFrom("trusted_issuers")
    .select(sql<number | null>`sum(length(jwks) + length(rules))`.as("bytes"))
    .where("org_id", "=", orgId)
    .executeTakeFirstOrThrow();
  if (Number(bytes) > MAX_ISSUERS_BYTES_PER_ORG)
    throw new ApiError("conflict", "the keys and rules of all trusted issuers together have more than 4 MiB: use fewer");
}

type ChangedFields = Omit<TrustedIssuerRow, "id" | "org_id" | "version" | "created_by" | "created_at">;

/** Fetches the keys if the body has none. Throws `invalid_field`. */
async function toRow({ issuers, now }: EnrolmentDeps, request: BodyRequest): Promise<ChangedFields> {
  const { orgId, email } = callerOf(request);
  const { name, issuer, audience = `atherops:${orgId}`, jwks, rules } = request.body;
  if (organisationOf(audience) !== orgId)
    throw invalidField("audience", `must contain the id of your organisation, ${orgId}, and no other id before it`);
  checkRules(rules);
  const keys = jwks ? readGivenKeys(jwks) : await fetchKeys(issuers, issuer, orgId);
  const at = new Date(now());
  return {
    name,
    issuer,
    audience,
    jwks: JSON.stringify({ keys }),
    keys_fetched_at: jwks ? null : at,
    rules: JSON.stringify(rules),
    updated_by: email,
    updated_at: at,
  };
}

/** Throws `conflict` if the tokens of this issuer could also be those of another one, whose rules would then be ignored. */
async function requireDistinct(
  trx: Transaction<EnrolmentTables>,
  { id, org_id, issuer, audience, jwks }: Pick<TrustedIssuerRow, "id" | "org_id" | "issuer" | "audience" | "jwks">,
): Promise<void> {
  const others = await trx
    .selectFrom("trusted_issuers")
    .select(["name", "jwks"])
    .where("org_id", "=", org_id)
    .where("id", "!=", id)
    .where("issuer", "=", issuer)
    .where("audience", "=", audience)
    .execute();
  const ids = keyIds(jwks);
  const same = others.find((other) => !ids.isDisjointFrom(keyIds(other.jwks)));
  if (same)
    throw new ApiError("conflict", `issuer: ${JSON.stringify(same.name)} has the same issuer, audience and keys: add the rules to it`);
}

function keyIds(jwks: string): Set<string> {
  return new Set((JSON.parse(jwks) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid));
}

function readGivenKeys(jwks: object): object[] {
  try {
    const keys = readKeySet(jwks);
    if ((jwks as { keys: object[] }).keys.some((key) => "d" in key || "k" in key))
      throw invalidField("jwks", "contains a private key or a shared secret: send only public keys");
    if (keys.length === 0 || keys.length < (jwks as { keys: object[] }).keys.length)
      throw invalidField("jwks", "each key needs a `kid`, and must be RSA of 2,048 to 4,096 bits, P-256, P-384, P-521 or Ed25519");
    return keys;
  } catch (cause) {
    throw cause instanceof KeysUnavailable ? invalidField("jwks", cause.message, cause) : cause;
  }
}

async function fetchKeys(issuers: EnrolmentDeps["issuers"], issuer: string, orgId: string): Promise<readonly object[]> {
  if (!URL.canParse(issuer)) throw invalidField("issuer", "must be a URL, or send its keys as `jwks`");
  try {
    return await issuers.fetchKeys(issuer, orgId);
  } catch (cause) {
    if (!(cause instanceof KeysUnavailable)) throw cause;
    throw invalidField(
      "issuer",
      `its keys cannot be fetched: ${cause.message}; if the backend cannot reach it, send them as \`jwks\``,
      cause,
    );
  }
}

function describe(row: TrustedIssuerRow) {
  const { id, name, issuer, audience, keys_fetched_at, created_by, updated_by } = row;
  const jwks = JSON.parse(row.jwks) as { keys: object[] };
  return {
    id,
    name,
    issuer,
    audience,
    jwks: keys_fetched_at ? null : jwks,
    keys: jwks.keys.length,
    keys_fetched_at: keys_fetched_at?.toISOString() ?? null,
    rules: JSON.parse(row.rules) as object[],
    created_by,
    created_at: row.created_at.toISOString(),
    updated_by,
    updated_at: row.updated_at.toISOString(),
  };
}
