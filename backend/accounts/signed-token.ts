// The signature that sessions and read tokens have in common. Invariant: algorithm and issuer are fixed; a signature is verified on the spot.
// jose's own way is a job for the threads that inflate bodies and hash passwords: whoever kept those busy would keep every reader waiting.
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";

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

/** Whether the third part is the HMAC-SHA256 of the first two under this secret, whatever algorithm the first one names. */
export function isSignedWith(secret: KeyObject, token: string): boolean {
  const at = token.lastIndexOf(".");
  const expected = createHmac("sha256", secret).update(token.slice(0, at)).digest();
  const signature = Buffer.from(token.slice(at + 1), "base64url");
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}
