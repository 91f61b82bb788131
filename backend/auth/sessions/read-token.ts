// Read tokens: long-lived JWTs with their own audience that may only read, for Grafana and programs that cannot log in. Invariant: the
// signature is verified before the lookup, so a forged token costs no statement. The row decides whether a token is valid and is cached for
// at most 4 s, so every replica refuses a removed token within 5 s; while the database does not respond, it is valid for up to 15 minutes
// (lookup-cache.ts).
import type { KeyObject } from "node:crypto";
import { readLabelLimits } from "../../admission/limited-labels.ts";
import type { DatabaseOutage } from "../database-outage.ts";
import { isJwt } from "../issuers/identity-token.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import { readCredential, type ReadToken } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { parseUuid } from "../../http/schemas.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import { isCurrentlyValid, isSigned, JWT_HEADER, parseClaims, signClaims, type SigningSecrets, verifyingSecrets } from "./session.ts";
import { type AccountDb, findReadTokens, type ReadTokenRow, WATCHED_READ_TOKENS } from "./account-tables.ts";

const AUDIENCE = "atherops-read";
/** All our tokens begin with this. */
const ENCODED_HEADER = Buffer.from(JSON.stringify(JWT_HEADER)).toString("base64url");
const TOKEN = new RegExp(`^${ENCODED_HEADER}\\.[\\w-]+\\.[\\w-]+$`);

/** Whether this is a JWT that this backend has not issued. */
export function isIdentityToken(token: string): boolean {
  return isJwt(token) && !token.startsWith(`${ENCODED_HEADER}.`);
}

export interface ReadTokensOptions extends SigningSecrets {
  db: AccountDb;
  now?: () => number;
  outage?: DatabaseOutage;
}

export class ReadTokens {
  readonly #secrets: readonly [KeyObject, ...KeyObject[]];
  readonly #now: () => number;
  readonly #rows: LookupCache<ReadToken>;

  constructor({ db, now, outage, ...secrets }: ReadTokensOptions) {
    this.#secrets = verifyingSecrets(secrets);
    this.#now = now ?? Date.now;
    const source: LookupSource<ReadToken> = {
      find: async (ids) =>
        (await findReadTokens(db, ids)).map(({ id, org_id: orgId, state, label_limits }) => ({
          id,
          state,
          read: () => ({ tokenId: id, orgId, labelLimits: readLabelLimits(label_limits) }),
        })),
      findChanged: async (states) => await changedRows(db, WATCHED_READ_TOKENS, states),
    };
    this.#rows = new LookupCache(source, { now, outage });
  }

  /** Creates the token of this row: claims `jti`, `org_id`, `role`, `iat`, `exp`, `iss`, `aud`. */
  async issue({ id, org_id, created_at, expires_at }: ReadTokenRow): Promise<string> {
    const [iat, exp] = [created_at, expires_at].map((time) => Math.floor(time.getTime() / 1000)) as [number, number];
    return await signClaims(this.#secrets, AUDIENCE, { jti: id, org_id, role: "viewer", iat, exp });
  }

  /** The valid read token of this header; undefined if there is none. Throws `invalid_token` if it is not valid. */
  async find(authorization: string | undefined): Promise<ReadToken | undefined> {
    const token = readCredential(authorization ?? "");
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

function invalidToken(): ApiError {
  return new ApiError("invalid_token", "the read token is invalid, expired or removed: ask an administrator for a new one");
}
