// Reads the header and the claims of an identity token (a JWT of an issuer) before its signature is verified, to find the issuer and to
// refuse what no issuer writes. Invariant: nothing is decided on these claims alone; the work is bounded by MAX_AUTHORIZATION_LENGTH.
import { MAX_AUTHORIZATION_LENGTH } from "../../http/http-limits.ts";
import { MAX_CLAIM_LENGTH, MAX_TOKEN_MEMBERS } from "../auth-limits.ts";

/** Signatures with a public key only: with a shared secret, the public key could be taken for the secret. */
export const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"];
const FORM = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const ORGANISATION = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/i;

export interface UnverifiedToken {
  readonly kid: string;
  readonly issuer: string;
  readonly audience: string;
  /** The organisation that the audience names. */
  readonly orgId: string;
}

export function isJwt(text: string): boolean {
  return text.length <= MAX_AUTHORIZATION_LENGTH && FORM.test(text);
}

/** The organisation's id in an audience, in lower case. */
export function organisationOf(audience: string): string | undefined {
  return ORGANISATION.exec(audience)?.[0].toLowerCase();
}

/** `token`: what isJwt accepts. Undefined if an issuer would not write such a token. */
export function readToken(token: string): UnverifiedToken | undefined {
  const [header, claims] = token.split(".", 2).map(parseObject);
  if (!header || !claims) return undefined;
  const { alg, kid, crit } = header;
  if (typeof alg !== "string" || !ALGORITHMS.includes(alg) || !isText(kid) || crit !== undefined) return undefined;
  const { iss: issuer, sub, aud } = claims;
  const audiences = [aud].flat();
  const [audience] = audiences;
  // A token for several audiences could be passed on by one of them to the others.
  if (audiences.length !== 1 || !isText(audience) || !isText(issuer) || !isText(sub)) return undefined;
  const orgId = organisationOf(audience);
  return orgId === undefined ? undefined : { kid, issuer, audience, orgId };
}

/** No control characters and no halves of a character: PostgreSQL stores no NUL, and all halves have the same UTF-8, so the same digest. */
function isText(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= MAX_CLAIM_LENGTH && !/[\p{Cc}\p{Cs}]/u.test(value);
}

function parseObject(part: string): Record<string, unknown> | undefined {
  const bytes = Buffer.from(part, "base64url");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value) || !hasUniqueMembers(text)) return undefined;
    return value as Record<string, unknown>;
  } catch {
    // Neither UTF-8 nor JSON.
    return undefined;
  }
}

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/**
 * Whether no object of this valid JSON text has two members of one name, of which programs may read different ones. `expected`: the last
 * string, which is a name if a colon follows.
 */
function hasUniqueMembers(text: string): boolean {
  // Only objects with members have a set: 3,000 brackets fit into a token.
  const open: (Set<string> | undefined)[] = [];
  let members = 0;
  let last = "";
  for (const [part] of text.matchAll(JSON_TOKEN)) {
    if (part === "{" || part === "[") open.push(undefined);
    else if (part === "}" || part === "]") open.pop();
    else if (part === ":") {
      const names = open.pop() ?? new Set();
      const name = JSON.parse(last) as string;
      if (names.has(name)) return false;
      open.push(names.add(name));
      members += 1;
      if (members > MAX_TOKEN_MEMBERS) return false;
    } else if (part !== ",") last = part;
  }
  return true;
}
