// JWTs of sessions and read tokens, signed by jose and verified here. Invariant: algorithm and issuer are fixed, and signatures are verified
// synchronously. jose would verify them on the thread pool that also decompresses bodies and hashes passwords, so a client that keeps the
// pool busy would delay every reader.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from "jose";

export const ALGORITHM = "HS256";
export const ISSUER = "atherops";

export interface SigningSecrets {
  jwtSecret: Buffer;
  /** Still accepted, but not used for new tokens. */
  jwtPreviousSecret?: Buffer | undefined;
}

/** The secret for new tokens, then those that are only accepted. */
export function verifyingSecrets({ jwtSecret, jwtPreviousSecret }: SigningSecrets): [KeyObject, ...KeyObject[]] {
  return [createSecretKey(jwtSecret), ...(jwtPreviousSecret ? [createSecretKey(jwtPreviousSecret)] : [])];
}

/** The unverified claims of a JWT with this algorithm; undefined for any other text. */
export function parseClaims(token: string): JWTPayload | undefined {
  try {
    const { alg, crit } = decodeProtectedHeader(token);
    return alg === ALGORITHM && crit === undefined ? decodeJwt(token) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the third part is the HMAC-SHA256 of the first two under one of these secrets; the header is not trusted. */
export function isSigned(token: string, secrets: readonly KeyObject[]): boolean {
  const at = token.lastIndexOf(".");
  const signature = Buffer.from(token.slice(at + 1), "base64url");
  return secrets.some((secret) => {
    const expected = createHmac("sha256", secret).update(token.slice(0, at)).digest();
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

/** Whether verified claims have our issuer and have not expired. */
export function isCurrentlyValid({ iss, exp }: JWTPayload, nowMs: number): boolean {
  return iss === ISSUER && typeof exp === "number" && exp > Math.floor(nowMs / 1000);
}
