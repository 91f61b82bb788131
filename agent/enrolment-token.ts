// What an agent enrols with: a one-time install token, or a token that a trusted issuer signs for the pod or the host. Invariant: all identity
// tokens have one id, because they are replaced, for example every hour, and a pending enrolment must survive that.
import { createHash } from "node:crypto";

export interface EnrolmentToken {
  readonly text: string;
  /** Identifies the token in the Secret or the credentials file, which never contain the token itself: SHA-256 (hex) of an install token. */
  readonly id: string;
  /** An identity token can enrol any number of times, and may be accepted later, after an administrator trusts the issuer. */
  readonly isIdentity: boolean;
}

const IDENTITY_ID = "identity-token";

/** An identity token takes precedence. */
export function enrolmentToken(installToken: string | undefined, identityToken: string | undefined): EnrolmentToken | undefined {
  // Files and Secrets often end with several line breaks, or begin with a byte order mark.
  if (identityToken !== undefined) return { text: identityToken.trim(), id: IDENTITY_ID, isIdentity: true };
  const text = installToken?.trim();
  return text ? { text, id: createHash("sha256").update(text, "utf8").digest("hex"), isIdentity: false } : undefined;
}
