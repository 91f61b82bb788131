// Reads the token that a program sends in the Authorization header: a read token or an ingest token.
import { MAX_AUTHORIZATION_LENGTH } from "./limits.ts";

/** The bearer token, or the password of Basic auth with any user name. Undefined if the header contains neither. */
export function readCredential(authorization: string): string | undefined {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return undefined;
  const [, scheme = "", credential = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return credential || undefined;
  const pair = Buffer.from(credential, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon < 0 ? undefined : pair.slice(colon + 1);
}
