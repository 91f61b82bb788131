// An issuer of identity tokens for tests: a key pair, its public key set, and signed tokens.
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";

export interface TestIssuer {
  readonly url: string;
  readonly jwk: JWK;
  readonly jwks: { readonly keys: readonly JWK[] };
  /** A token with these claims; `iss`, `sub`, `exp` have defaults. */
  token(claims: JWTPayload, header?: Readonly<Record<string, unknown>>): Promise<string>;
}

export async function testIssuer(
  url: string,
  { kid = "key-1", alg = "ES256", now = Date.now }: { kid?: string; alg?: string; now?: () => number } = {},
): Promise<TestIssuer> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid, alg, use: "sig" };
  return {
    url,
    jwk,
    jwks: { keys: [jwk] },
    token: async (claims, header = {}) => {
      const nowS = Math.floor(now() / 1000);
      const payload = { iss: url, sub: "system:serviceaccount:observability:cluster-agent", iat: nowS, exp: nowS + 3600, ...claims };
      return await new SignJWT(payload).setProtectedHeader({ alg, kid, ...header }).sign(privateKey);
    },
  };
}
