// Reads an ingest token from the headers that senders can set: a bearer token, the password of Basic auth with any user name, or X-API-Key.
// Invariant: a request with two different tokens is refused, so that a proxy and the backend cannot disagree about its sender.
import { INGEST_TOKEN } from "./table.ts";

/** A token has 46 characters; the rest is for the user name of Basic auth. */
const MAX_AUTHORIZATION_LENGTH = 2048;

export interface CredentialHeaders {
  readonly authorization?: string | undefined;
  readonly "x-api-key"?: string | string[] | undefined;
}

/** Undefined if there is no token, several, or one of another form. */
export function readIngestToken(headers: CredentialHeaders): string | undefined {
  const { authorization, "x-api-key": apiKey } = headers;
  const tokens = new Set([...(authorization === undefined ? [] : [fromAuthorization(authorization)]), ...[apiKey ?? []].flat()]);
  const [token] = tokens;
  return tokens.size === 1 && token !== undefined && INGEST_TOKEN.test(token) ? token : undefined;
}

function fromAuthorization(authorization: string): string | undefined {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return undefined;
  const [, scheme = "", credential = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return credential;
  const pair = Buffer.from(credential, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon < 0 ? undefined : pair.slice(colon + 1);
}
