// Authenticates requests by ingest tokens of programs that cannot sign: a bearer token, the password of Basic auth with any user name, or
// X-API-Key; and by tokens of trusted issuers (issuers/trusted-issuers.ts) as bearer token or password. Invariant: the token's row or the
// issuer's rule alone decides the organisation, the identity and the signals; a request is refused before its body is read, and a removed
// token within 5 seconds by every replica. A request with two different tokens is refused, so that a proxy and the
// backend cannot disagree about its sender.
//
// To add another protocol that takes ingest tokens:
// 1. `access: ingestTokens.access("metrics")` on its route (http/route.ts), so that `senderOf(request)` of request-identity.ts is the sender.
// 2. `tokenRoutes` of sender-protocols.ts lists the route, and the route calls `handler.handle({ sender, signal, ingest, read })` of
//    ingest/ingest-handler.ts with `read: handler.readRequest(request)`: it reads the body and applies limits, quotas and usage.
// 3. Outside of HTTP routes (gRPC): `await ingestTokens.authenticate({ headers, address, isEncrypted }, signal)` returns the sender.
import type { BlockList } from "node:net";
import type { onRequestAsyncHookHandler } from "fastify";
import { isLoopback, networkList, networksContain, plainAddress } from "../../../common/ip-networks.ts";
import { Batcher } from "../../engines/batcher.ts";
import { ApiError } from "../../errors.ts";
import type { RouteGuard } from "../../http/route.ts";
import type { DatabaseOutage } from "../database-outage.ts";
import { isJwt } from "../issuers/identity-token.ts";
import type { TrustedIssuers } from "../issuers/trusted-issuers.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import { readCredential, type Sender } from "../../http/request-identity.ts";
import { changedRows } from "../../engines/relational/bulk-rows.ts";
import {
  findIngestTokens,
  INGEST_TOKEN,
  type IngestTokenDb,
  ingestTokenHash,
  type IngestTokenRow,
  type IngestTokenTables,
  recordLastUses,
  WATCHED_INGEST_TOKENS,
} from "./ingest-token-table.ts";

export type IngestSignal = "metrics" | "logs" | "traces";

export interface IngestTokensOptions {
  readonly db: IngestTokenDb;
  /** `settings.hasIngestTokens`; without it every token is refused. */
  readonly isEnabled: boolean;
  readonly allowsHttp: boolean;
  readonly now?: () => number;
  readonly outage?: DatabaseOutage;
  readonly issuers: Pick<TrustedIssuers, "verify">;
}

/** The parts of a request that are known before its body is read. */
export interface IncomingCredential {
  readonly headers: CredentialHeaders;
  /** The client's address, behind trusted proxies. */
  readonly address: string;
  /** TLS ends here, or at a trusted proxy. */
  readonly isEncrypted: boolean;
}

interface CachedToken {
  readonly hash: string;
  readonly sender: Sender;
  readonly signals: ReadonlySet<string>;
  /** Undefined: any. */
  readonly networks: BlockList | undefined;
  /** Time of expiry, or end of the overlap after a rotation; Infinity if there is none. */
  readonly endMs: number;
  recordedMs: number;
}

/** The last use of a token is stored at most this often. */
const RECORD_EVERY_MS = 60_000;
const MAX_RECORDS = 1000;
const RECORD_PAUSE_MS = 250;

export class IngestTokens {
  readonly #options: IngestTokensOptions;
  readonly #now: () => number;
  readonly #rows: LookupCache<CachedToken>;
  readonly #uses: Batcher<string>;

  constructor(options: IngestTokensOptions) {
    const { db, now, outage } = options;
    this.#options = options;
    this.#now = now ?? Date.now;
    const source: LookupSource<CachedToken> = {
      find: async (hashes) =>
        (await findIngestTokens(db, hashes)).map((row) => ({ id: row.token_hash, state: row.state, read: () => toCached(row) })),
      findChanged: async (states) => await changedRows<IngestTokenTables>(db, WATCHED_INGEST_TOKENS, states),
    };
    this.#rows = new LookupCache(source, { now, outage });
    this.#uses = new Batcher({
      write: (hashes) => recordLastUses(db, hashes, new Date(this.#now())),
      maxItems: MAX_RECORDS,
      pauseMs: () => RECORD_PAUSE_MS,
    });
  }

  get isEnabled(): boolean {
    return this.#options.isEnabled;
  }

  /** The access of routes that take ingest tokens for this signal. */
  access(signal: IngestSignal): RouteGuard {
    return { security: ["ingestToken", "ingestTokenAsPassword", "ingestTokenAsApiKey", "identityToken"], onRequest: this.guard(signal) };
  }

  /** An `onRequest` hook for routes: sets `request.ingestSender`, which `senderOf` returns. */
  guard(signal: IngestSignal): onRequestAsyncHookHandler {
    return async (request) => {
      const { raw, ip: address, protocol } = request;
      request.ingestSender = await this.authenticate({ headers: raw.headers, address, isEncrypted: protocol === "https" }, signal);
    };
  }

  /** Throws `not_found` if tokens are switched off, `invalid_token`, and `forbidden` for a token that may not do this. */
  async authenticate({ headers, isEncrypted, ...from }: IncomingCredential, signal: IngestSignal): Promise<Sender> {
    this.requireEnabled();
    const address = plainAddress(from.address);
    if (!isEncrypted && !this.#options.allowsHttp && !isLoopback(address))
      throw new ApiError("forbidden", "ingest tokens are accepted over TLS only: use https, or set INGEST_TOKENS_OVER_HTTP=true");
    const text = readToken(headers);
    if (text !== undefined && isJwt(text)) return await this.#senderOfIdentity(text, signal);
    if (text === undefined || !INGEST_TOKEN.test(text))
      throw refused("send one ingest token: `Authorization: Bearer ig_…`, a Basic password or `X-API-Key`");
    const found = this.#rows.find(ingestTokenHash(text));
    const token = found instanceof Promise ? await found : found;
    if (!token || this.#now() >= token.endMs)
      throw refused("the ingest token is unknown, expired, rotated or removed: ask an administrator for a new one");
    if (token.networks && !networksContain(token.networks, address))
      throw new ApiError("forbidden", `the ingest token may not be used from ${address}: send from one of its networks`);
    if (!token.signals.has(signal))
      throw new ApiError("forbidden", `the ingest token may send ${[...token.signals].join(", ")}, but not ${signal}`);
    this.#recordUse(token);
    return token.sender;
  }

  async #senderOfIdentity(token: string, signal: IngestSignal): Promise<Sender> {
    const { senders, issuerName } = await this.#options.issuers.verify(token);
    const sender = senders[signal];
    if (!sender) throw new ApiError("forbidden", `no rule of the issuer ${issuerName} permits this token to send ${signal}`);
    return sender;
  }

  /** Throws `not_found` if tokens are switched off. */
  requireEnabled(): void {
    if (!this.#options.isEnabled)
      throw new ApiError("not_found", "ingest tokens are switched off here: the operator sets INGEST_TOKENS=true");
  }

  /** A change by this replica takes effect here immediately. */
  forget(...hashes: string[]): void {
    this.#rows.forget(...hashes);
  }

  /** Resolves when the uses so far are stored. */
  async flush(): Promise<void> {
    await this.#uses.flush();
  }

  #recordUse(token: CachedToken): void {
    const nowMs = this.#now();
    if (nowMs - token.recordedMs < RECORD_EVERY_MS) return;
    token.recordedMs = nowMs;
    // Safe to ignore: the list shows an older time of use until the next one is stored.
    this.#uses.add(token.hash, token.hash).catch(() => undefined);
  }
}

function toCached(row: IngestTokenRow): CachedToken {
  const { token_hash: hash, id, kind, org_id: orgId, owner_id: hostId, node, created_at: createdAt } = row;
  const { bytes_per_second: bytesPerSecond, records_per_second: recordsPerSecond } = row;
  const limits = bytesPerSecond > 0 || recordsPerSecond > 0 ? { bytesPerSecond, recordsPerSecond } : undefined;
  const ends = [row.expires_at, row.retires_at].map((end) => end?.getTime() ?? Number.POSITIVE_INFINITY);
  return {
    hash,
    sender: { keyId: id, kind, orgId, hostId, node, createdAt, ...(limits && { limits }) },
    signals: new Set(row.signals.split(",")),
    networks: row.networks === "" ? undefined : networkList(row.networks.split(",")),
    endMs: Math.min(...ends),
    recordedMs: row.last_used_at?.getTime() ?? 0,
  };
}

function refused(message: string): ApiError {
  return new ApiError("invalid_token", message);
}

interface CredentialHeaders {
  readonly authorization?: string | undefined;
  readonly "x-api-key"?: string | string[] | undefined;
}

/** Undefined if there is no token, or several. A token of an issuer is not accepted as X-API-Key. */
function readToken(headers: CredentialHeaders): string | undefined {
  const { authorization, "x-api-key": apiKey } = headers;
  const tokens = new Set([...(authorization === undefined ? [] : [readCredential(authorization)]), ...[apiKey ?? []].flat()]);
  const [token] = tokens;
  return tokens.size === 1 && (apiKey === undefined || INGEST_TOKEN.test(token ?? "")) ? token : undefined;
}
