// Read tokens: JWTs of an audience of their own, which live for months and read, for Grafana and programs that cannot log in. Invariant: the
// signature is judged before anything is looked up, so that a forged token costs no statement; the row says whether it is in force, and is
// asked again at most 4 s later, so that a removed token is refused within 5 s in every replica.
import type { KeyObject } from "node:crypto";
import { SignJWT } from "jose";
import type { DatabaseOutage } from "../auth/database-outage.ts";
import { LookupCache, type LookupSource } from "../auth/lookup-cache.ts";
import type { ReadToken } from "../auth/request-identity.ts";
import { ApiError } from "../errors.ts";
import { uuidOf } from "../http/schemas.ts";
import { ALGORITHM, claimsIn, isInForce, isSigned, ISSUER, type SigningSecrets, verifyingSecrets } from "./signed-token.ts";
import { type AccountDb, changedReadTokens, findReadTokens, type ReadTokenRow } from "./table.ts";

const AUDIENCE = "atherops-read";
const HEADER = { alg: ALGORITHM, typ: "JWT" };
/** The only first part that is ours. */
const ENCODED_HEADER = Buffer.from(JSON.stringify(HEADER)).toString("base64url");
const TOKEN = new RegExp(`^${ENCODED_HEADER}\\.[\\w-]+\\.[\\w-]+$`);
/** Ours have some 350 characters; of the name in Basic auth the rest. */
const MAX_AUTHORIZATION_LENGTH = 2048;

export interface ReadTokensOptions extends SigningSecrets {
  db: AccountDb;
  now?: () => number;
  outage?: DatabaseOutage;
}

/** Issues and verifies read tokens; holds the bounded cache of their rows. */
export class ReadTokens {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #now: () => number;
  readonly #rows: LookupCache<ReadToken>;

  constructor({ db, now, outage, ...secrets }: ReadTokensOptions) {
    this.#secrets = verifyingSecrets(secrets);
    this.#now = now ?? Date.now;
    const source: LookupSource<ReadToken> = {
      find: async (ids) => (await findReadTokens(db, ids)).map((row) => ({ id: row.tokenId, state: row.orgId, read: () => row })),
      changed: async (states) => await changedReadTokens(db, states),
    };
    this.#rows = new LookupCache(source, { now, outage });
  }

  /** The token of this row: claims `jti`, `org_id`, `role`, `iat`, `exp`, `iss`, `aud`. */
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

  /** The read token in force of this header; undefined where there is none. Throws `invalid_token` for one that is not in force. */
  async find(authorization: string | undefined): Promise<ReadToken | undefined> {
    const token = tokenIn(authorization ?? "");
    const claims = token !== undefined && TOKEN.test(token) ? claimsIn(token) : undefined;
    if (token === undefined || claims?.aud !== AUDIENCE) return undefined;
    if (!isSigned(token, this.#secrets) || !isInForce(claims, this.#now())) throw refused();
    const id = typeof claims.jti === "string" ? uuidOf(claims.jti) : undefined;
    if (id === undefined) throw refused();
    const row = await this.#rows.find(id);
    if (!row || row.orgId !== claims["org_id"]) throw refused();
    return row;
  }

  /** What this replica itself removed is refused at once. */
  forget(id: string): void {
    this.#rows.forget(id);
  }
}

/** The bearer, or the password of Basic auth: its user name is nobody's business. */
function tokenIn(authorization: string): string | undefined {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return undefined;
  const [, scheme = "", credential = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return credential || undefined;
  const pair = Buffer.from(credential, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon < 0 ? undefined : pair.slice(colon + 1);
}

function refused(): ApiError {
  return new ApiError("invalid_token", "the read token has expired, was removed, or is not valid: ask an administrator for a new one");
}
