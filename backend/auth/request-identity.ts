// Who a request comes from, as derived on the server: from the key of a signed request, or from the claims of a session JWT.
// Invariant: nothing of it ever comes from a payload. Set by authenticate.ts and accounts/session.ts, read by route handlers.

import type { onRequestAsyncHookHandler } from "fastify";

export type KeyKind = "cluster" | "host" | "direct";
export type Role = "viewer" | "admin" | "operator";

/** The key that signed a request. `hostId` is the cluster, host or key id; `node` its name. */
export interface SigningKey {
  readonly keyId: string;
  readonly kind: KeyKind;
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
  readonly createdAt: Date;
}

/** The logged-in user of a request. */
export interface SessionUser {
  readonly userId: string;
  readonly orgId: string;
  readonly email: string;
  readonly role: Role;
}

/** Hooks that routes put before their handlers; both run before the body is read. Implementations: authenticate.ts, accounts/session.ts. */
export interface Guards {
  /** Verifies the signature and the key's kind (403 `wrong_key_kind`), sets `request.signingKey` and `X-Key-Age-Days`. */
  signed(...kinds: KeyKind[]): onRequestAsyncHookHandler;
  /** Verifies the session JWT, requires at least this role (viewer < admin < operator), sets `request.user`. */
  user(minimum: Role): onRequestAsyncHookHandler;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set on signed endpoints, before the body is read. */
    signingKey?: SigningKey;
    /** Set on endpoints that require a session JWT. */
    user?: SessionUser;
  }
}
