// The authenticated identity of a request: the key of a signed request, an ingest token, the user of a session, or a read token. Invariant:
// it never comes from a payload, and handlers read it only through the functions of this file.
import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import type { LabelLimits } from "../admission/limited-labels.ts";
import { MAX_AUTHORIZATION_LENGTH } from "./http-limits.ts";

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

/** Who sent telemetry: the key that signed it, or an ingest token, whose id is `keyId`. */
export interface Sender extends SigningKey {
  /** An ingest token's own limits, per signal; unset: none. */
  readonly limits?: RateLimits;
}

export interface RateLimits {
  /** 0: unlimited. */
  readonly bytesPerSecond: number;
  /** 0: unlimited. */
  readonly recordsPerSecond: number;
}

export interface SessionUser {
  readonly userId: string;
  readonly orgId: string;
  readonly email: string;
  readonly role: Role;
  /** Undefined: no limits within the organisation. */
  readonly labelLimits: LabelLimits | undefined;
}

/** The read token of a request: a viewer of one organisation, and no user. */
export interface ReadToken {
  readonly tokenId: string;
  readonly orgId: string;
  /** Undefined: no limits within the organisation. */
  readonly labelLimits: LabelLimits | undefined;
}

/** `onRequest` hooks for routes; all run before the body is read. */
export interface Guards {
  /** Verifies the signature and the key's kind (403 `wrong_key_kind`), sets `request.signingKey` and `X-Key-Age-Days`. */
  signed(...kinds: KeyKind[]): onRequestAsyncHookHandler;
  /**
   * Verifies the session (a bearer token or a browser's cookie), requires at least this role (viewer < admin < operator), and sets
   * `request.user`. A read token is 403.
   */
  user(minimum: Role): onRequestAsyncHookHandler;
  /** Accepts any session and read tokens; sets `request.user` or `request.readToken`. Only for routes that read telemetry and rules. */
  reader(): onRequestAsyncHookHandler;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set on signed endpoints, before the body is read. */
    signingKey?: SigningKey;
    /** Set on endpoints that take ingest tokens, before the body is read. */
    ingestSender?: Sender;
    /** Set on endpoints that require a session JWT. */
    user?: SessionUser;
    /** Set instead of `user` if a read token was sent to an endpoint that reads. */
    readToken?: ReadToken;
  }
}

/** The logged-in user. Throws if the route has no user guard: a defect, which is logged and answered 500. */
export function callerOf({ user }: FastifyRequest): SessionUser {
  if (!user) throw new Error("the route has no user guard");
  return user;
}

/** The user or read token that reads. Throws if the route has no reader guard, like callerOf. */
export function readerOf({ user, readToken }: FastifyRequest): Pick<ReadToken, "orgId" | "labelLimits"> {
  const reader = user ?? readToken;
  if (!reader) throw new Error("the route has no reader guard");
  return reader;
}

/** Undefined if the caller may read all data of its organisation. */
export function labelLimitsOf({ user, readToken }: FastifyRequest): LabelLimits | undefined {
  return (user ?? readToken)?.labelLimits;
}

/** The key that signed the request. Throws if the route has no signed guard, like callerOf. */
export function signerOf({ signingKey }: FastifyRequest): SigningKey {
  if (!signingKey) throw new Error("the route has no signed guard");
  return signingKey;
}

/** The sender of telemetry. Throws if the route has neither a signed guard nor one of ingest tokens, like callerOf. */
export function senderOf({ signingKey, ingestSender }: FastifyRequest): Sender {
  const sender = signingKey ?? ingestSender;
  if (!sender) throw new Error("the route has no guard for senders");
  return sender;
}

export function orgOf({ signingKey, ingestSender, user, readToken }: FastifyRequest): string | undefined {
  return signingKey?.orgId ?? ingestSender?.orgId ?? user?.orgId ?? readToken?.orgId;
}

/**
 * Reads a read token or an ingest token from an Authorization header: the bearer token, or the password of Basic auth with any user name.
 * Undefined if the header contains neither.
 */
export function readCredential(authorization: string): string | undefined {
  if (authorization.length > MAX_AUTHORIZATION_LENGTH) return undefined;
  const [, scheme = "", credential = ""] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== "basic") return credential || undefined;
  const pair = Buffer.from(credential, "base64").toString("utf8");
  const colon = pair.indexOf(":");
  return colon < 0 ? undefined : pair.slice(colon + 1);
}
