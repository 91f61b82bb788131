// Read tokens: long-lived JWTs with their own audience that may only read, for Grafana and programs that cannot log in. Invariant: the
// signature is verified before the lookup, so a forged token costs no statement. The row decides whether a token is valid and is cached for
// at most 4 s, so every replica refuses a removed token within 5 s; while the database does not respond, it is valid for up to 15 minutes
// (lookup-cache.ts).
import type { KeyObject } from "node:crypto";
import { SignJWT } from "jose";
import type { DatabaseOutage } from "../database-outage.ts";
import { MAX_AUTHORIZATION_LENGTH } from "../limits.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import type { ReadToken } from "../request-identity.ts";
import { ApiError } from "../../errors.ts";
import { parseUuid } from "../../http/schemas.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { ALGORITHM, parseClaims, isCurrentlyValid, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "./session.ts";
import { type AccountDb, findReadTokens, type ReadTokenRow, WATCHED_READ_TOKENS } from "./table.ts";

const AUDIENCE = "atherops-read";
const HEADER = { alg: ALGORITHM, typ: "JWT" };
/** All our tokens begin with this. */
const ENCODED_HEADER = Buffer.from(JSON.stringify(HEADER)).toString("base64url");
const TOKEN = new RegExp(`^${ENCODED_HEADER}\\.[\\w-]+\\.[\\w-]+$`);

export interface ReadTokensOptions extends SigningSecrets {
  db: AccountDb;
  now?: () => number;
  outage?: DatabaseOutage;
}

/** Issues and verifies read tokens, and caches their rows. */
export class ReadTokens {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #now: () => number;
  readonly #rows: LookupCache<ReadToken>;

  constructor({ db, now, outage, ...secrets }: ReadTokensOptions) {
    this.#secrets = verifyingSecrets(secrets);
    this.#now = now ?? Date.now;
    const source: LookupSource<ReadToken> = {
      find: async (ids) => (await findReadTokens(db, ids)).map((row) => ({ id: row.tokenId, state: row.orgId, read: () => row })),
      findChanged: async (states) => await changedRows(db, WATCHED_READ_TOKENS, states),
    };
    this.#rows = new LookupCache(source, { now, outage });
  }

  /** Creates the token of this row: claims `jti`, `org_id`, `role`, `iat`, `exp`, `iss`, `aud`. */
  async issue(row: ReadTokenRow): Promise<string> {
    return await new SignJWT({ org_id: row.org_id, role: "viewer" })
      .setProtectedHeader(HEADER)
      .setJti(row.id)
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setIssuedAt(Math.floor(row.created_at.getTime() / 1000))
      .setExpirationTime(Math.floor(row.expires_at.getTime() / 1000))
      .sign(this.#secrets[0]);
  }

  /** The valid read token of this header; undefined if there is none. Throws `invalid_token` if it is not valid. */
  async find(authorization: string | undefined): Promise<ReadToken | undefined> {
    const token = readToken(authorization ?? "");
    const claims = token !== undefined && TOKEN.test(token) ? parseClaims(token) : undefined;
    if (token === undefined || claims?.aud !== AUDIENCE) return undefined;
    if (!isSigned(token, this.#secrets) || !isCurrentlyValid(claims, this.#now())) throw invalidToken();
    const id = typeof claims.jti === "string" ? parseUuid(claims.jti) : undefined;
    if (id === undefined) throw invalidToken();
    const row = await this.#rows.find(id);
    if (!row || row.orgId !== claims["org_id"]) throw invalidToken();
    return row;
  }

  /** Call after this replica has removed the token, so that the token is rejected here immediately. */
  forget(id: string): void {
    this.#rows.forget(id);
  }
}

/** The bearer token, or the password of Basic auth with any user name. */
function readToken(authorization: string): string | undefined {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return undefined;
  const [, scheme = "", credential = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return credential || undefined;
  const pair = Buffer.from(credential, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon < 0 ? undefined : pair.slice(colon + 1);
}

function invalidToken(): ApiError {
  return new ApiError("invalid_token", "the read token is invalid, expired or removed: ask an administrator for a new one");
}
