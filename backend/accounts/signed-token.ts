// What sessions and read tokens have in common: JWTs, made by jose, judged here. Invariant: algorithm and issuer are fixed; a signature is
// verified on the spot. jose's own way is a job for the threads that inflate bodies and hash passwords: whoever kept those busy would keep
// every reader waiting.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from "jose";

export const ALGORITHM = "HS256";
export const ISSUER = "atherops";

export interface SigningSecrets {
  jwtSecret: Buffer;
  /** Still verifies, never signs. */
  jwtPreviousSecret?: Buffer | undefined;
}

/** The one that signs, then those that only verify. */
export function verifyingSecrets({ jwtSecret, jwtPreviousSecret }: SigningSecrets): [KeyObject, ...KeyObject[]] {
  return [createSecretKey(jwtSecret), ...(jwtPreviousSecret ? [createSecretKey(jwtPreviousSecret)] : [])];
}

/** What a JWT of this algorithm says, whoever signed it; undefined for any other text. */
export function claimsIn(token: string): JWTPayload | undefined {
  try {
    const { alg, crit } = decodeProtectedHeader(token);
    return alg === ALGORITHM && crit === undefined ? decodeJwt(token) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the third part is the HMAC-SHA256 of the first two under one of these secrets, whatever algorithm the first one names. */
export function isSigned(token: string, secrets: readonly KeyObject[]): boolean {
  const at = token.lastIndexOf(".");
  const signature = Buffer.from(token.slice(at + 1), "base64url");
  return secrets.some((secret) => {
    const expected = createHmac("sha256", secret).update(token.slice(0, at)).digest();
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

/** Of claims whose signature was verified: whether they are our own, and last. */
export function isInForce({ iss, exp }: JWTPayload, nowMs: number): boolean {
  return iss === ISSUER && typeof exp === "number" && exp > Math.floor(nowMs / 1000);
}
