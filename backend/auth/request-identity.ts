// Who a request comes from, as derived on the server: from the key of a signed request, from the claims of a session JWT, or
// from a read token.
// Invariant: nothing of it ever comes from a payload, and handlers learn of it by the functions of this file only.

import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";

export type KeyKind = "cluster" | "host" | "direct";
export type Role = "viewer" | "admin" | "operator";
export const RANK: Readonly<Record<Role, number>> = { viewer: 0, admin: 1, operator: 2 };

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

/** The read token of a request: a viewer of one organisation, and no user. */
export interface ReadToken {
  readonly tokenId: string;
  readonly orgId: string;
}

/** Hooks that routes put before their handlers; all run before the body is read. */
export interface Guards {
  /** Verifies the signature and the key's kind (403 `wrong_key_kind`), sets `request.signingKey` and `X-Key-Age-Days`. */
  signed(...kinds: KeyKind[]): onRequestAsyncHookHandler;
  /** Verifies the session, a bearer or a browser's cookie, requires at least this role (viewer < admin < operator), sets `request.user`. A read token is 403. */
  user(minimum: Role): onRequestAsyncHookHandler;
  /** Takes any session, and a read token too; sets `request.user` or `request.readToken`. For what reads telemetry and rules only. */
  reader(): onRequestAsyncHookHandler;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set on signed endpoints, before the body is read. */
    signingKey?: SigningKey;
    /** Set on endpoints that require a session JWT. */
    user?: SessionUser;
    /** Set instead of `user` on endpoints that read, where a read token asks. */
    readToken?: ReadToken;
  }
}

/** The logged-in user. Behind a route without a user guard it is our own mistake: throws, which is answered 500 and logged. */
export function callerOf({ user }: FastifyRequest): SessionUser {
  if (!user) throw new Error("the route has no user guard");
  return user;
}

/** Who reads: a user or a read token. Behind a route without a guard of either it is our own mistake: throws, as callerOf does. */
export function readerOf({ user, readToken }: FastifyRequest): { readonly orgId: string } {
  const reader = user ?? readToken;
  if (!reader) throw new Error("the route has no reader guard");
  return reader;
}

/** The key that signed it. Behind a route without a signed guard it is our own mistake: throws, which is answered 500 and logged. */
export function signerOf({ signingKey }: FastifyRequest): SigningKey {
  if (!signingKey) throw new Error("the route has no signed guard");
  return signingKey;
}

/** The organisation that it comes from, once it is authenticated. */
export function orgOf({ signingKey, user, readToken }: FastifyRequest): string | undefined {
  return signingKey?.orgId ?? user?.orgId ?? readToken?.orgId;
}
