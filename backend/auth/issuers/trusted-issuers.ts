// Verifies identity tokens: JWTs of an issuer that an organisation trusts, such as the projected token of a Kubernetes pod or the token of a
// CI job. Invariants: the organisation is the one whose issuer it is, and whose id the audience contains; every refusal of a token has the
// same text; a verified token is cached until it expires, but never longer than its issuer is unchanged, which every replica notices within
// 5 s (lookup-cache.ts).
import { hash } from "node:crypto";
import { type JWK, type JWTPayload, jwtVerify } from "jose";
import { readLabelLimits, writeLabelLimits } from "../../admission/limited-labels.ts";
import { ApiError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { MAX_CACHED_IDENTITIES, MAX_CACHED_ISSUERS } from "../auth-limits.ts";
import type { DatabaseOutage } from "../database-outage.ts";
import { LookupCache, type LookupSource } from "../lookup-cache.ts";
import type { ReadToken, Sender } from "../../http/request-identity.ts";
import { type IssuerRule, matchesRule, type Permission, ruleName, SIGNALS } from "./claim-rules.ts";
import { ALGORITHMS, isJwt, readToken, type UnverifiedToken } from "./identity-token.ts";
import { IssuerKeys } from "./issuer-keys.ts";
import { findChangedIssuers, findIssuers, type IssuerDb, issuersState, storeFetchedKeys, type TrustedIssuerRow } from "./issuer-table.ts";
import type { FetchKeys } from "./key-set.ts";

/** Difference between the clocks of issuer and backend. */
const CLOCK_TOLERANCE_S = 30;
/** What a client sees, whatever the reason. */
export const NOT_ACCEPTED = "the token is not accepted: its issuer, audience, times or signature are not those of a trusted issuer";
/** A refusal is logged at most this often for each issuer. */
const LOG_EVERY_MS = 60_000;
/** After this time, a token is verified again, because the issuer may have withdrawn its key. */
const VERIFIED_MS = 300_000;

export interface TrustedIssuersOptions {
  readonly db: IssuerDb;
  readonly fetchKeys: FetchKeys;
  readonly log?: Pick<Log, "info" | "warn"> | undefined;
  readonly now?: (() => number) | undefined;
  readonly outage?: DatabaseOutage | undefined;
}

interface Issuer {
  readonly row: TrustedIssuerRow;
  readonly rules: readonly IssuerRule[];
  readonly keys: IssuerKeys;
  loggedMs: number;
}

/** A verified token and what the rules of its issuer permit. */
export interface Identity {
  readonly orgId: string;
  readonly issuerId: string;
  readonly issuerName: string;
  readonly subject: string;
  /** Identifies issuer and subject. */
  readonly subjectId: string;
  readonly senders: Readonly<Partial<Record<(typeof SIGNALS)[number], Sender>>>;
  readonly readToken: ReadToken | undefined;
  /** The permission to enrol, with the name that the rule gives. */
  readonly enrol: Readonly<Partial<Record<Permission, { readonly name: string | undefined }>>>;
}

interface CachedIdentity {
  readonly identity: Identity;
  readonly issuer: Issuer;
  readonly endMs: number;
}

export class TrustedIssuers {
  readonly #options: TrustedIssuersOptions;
  readonly #now: () => number;
  readonly #issuers: LookupCache<readonly Issuer[]>;
  readonly #verified = new Map<string, CachedIdentity>();
  /** By id. Kept when rows are read again, with the times of requests that limit the next ones. */
  readonly #opened = new Map<string, Issuer>();

  constructor(options: TrustedIssuersOptions) {
    const { db, now, outage } = options;
    this.#options = options;
    this.#now = now ?? Date.now;
    const source: LookupSource<readonly Issuer[]> = {
      find: async (orgIds) =>
        [...(await findIssuers(db, orgIds))].map(([id, rows]) => ({
          id,
          state: issuersState(rows),
          read: () => rows.map((row) => this.#open(row)),
        })),
      findChanged: async (states) => await findChangedIssuers(db, states),
    };
    this.#issuers = new LookupCache(source, { now, outage });
  }

  /** Throws `invalid_token`, with the same text for every reason. */
  async verify(token: string): Promise<Identity> {
    if (!isJwt(token)) throw refused();
    const digest = hash("sha256", token, "base64url");
    const cached = this.#verified.get(digest);
    if (cached && this.#now() < cached.endMs) {
      const found = this.#issuers.find(cached.identity.orgId);
      const issuers = found instanceof Promise ? await found : found;
      if (issuers?.includes(cached.issuer)) return cached.identity;
    }
    this.#verified.delete(digest);
    const unverified = readToken(token);
    if (!unverified) throw refused();
    const verified = await this.#verify(token, unverified);
    if (this.#verified.size >= MAX_CACHED_IDENTITIES) this.#verified.delete(this.#verified.keys().next().value as string);
    this.#verified.set(digest, verified);
    return verified.identity;
  }

  /** The keys of an issuer, as its administrator sees them. Throws KeysUnavailable. */
  async fetchKeys(issuer: string, orgId: string): Promise<readonly JWK[]> {
    return await this.#options.fetchKeys(issuer, orgId);
  }

  /** A change by this replica takes effect here immediately. */
  forget(orgId: string): void {
    this.#issuers.forget(orgId);
  }

  async #verify(token: string, { kid, issuer: iss, audience, orgId }: UnverifiedToken): Promise<CachedIdentity> {
    const issuers = (await this.#issuers.find(orgId)) ?? [];
    const named = issuers.filter(({ row }) => row.issuer === iss && row.audience === audience);
    // The issuer of Kubernetes has the same name in many clusters, each with its own keys.
    const issuer = named.find(({ keys }) => keys.has(kid)) ?? named.find(({ row }) => row.keys_fetched_at !== null) ?? named[0];
    if (!issuer) throw refused();
    const key = await issuer.keys.find(kid);
    if (!key) throw this.#refuse(issuer, "no key of the issuer has the key id of the token");
    try {
      const { payload } = await jwtVerify(token, key, {
        issuer: iss,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_TOLERANCE_S,
        currentDate: new Date(this.#now()),
        requiredClaims: ["exp", "sub"],
      });
      return {
        identity: toIdentity(issuer, payload),
        issuer,
        endMs: Math.min(((payload.exp ?? 0) + CLOCK_TOLERANCE_S) * 1000, this.#now() + VERIFIED_MS),
      };
    } catch (error) {
      // The codes and claims of jose's errors contain nothing of the token.
      const { code = "invalid", claim } = error as { code?: string; claim?: string };
      throw this.#refuse(issuer, claim === undefined ? code : `${code} (${claim})`);
    }
  }

  /** The client gets no reason; the operator's log has it. */
  #refuse(issuer: Issuer, reason: string): ApiError {
    const nowMs = this.#now();
    if (nowMs - issuer.loggedMs >= LOG_EVERY_MS) {
      issuer.loggedMs = nowMs;
      const { id: issuerId, org_id: orgId } = issuer.row;
      this.#options.log?.info({ event: "auth.identity_token_refused", orgId, issuerId, reason }, "refused a token of a trusted issuer");
    }
    return refused();
  }

  #open(row: TrustedIssuerRow): Issuer {
    const { db, fetchKeys, log } = this.#options;
    const { id: issuerId, org_id: orgId } = row;
    const opened = this.#opened.get(issuerId);
    if (opened?.row.version === row.version) return opened;
    const { keys } = JSON.parse(row.jwks) as { keys: JWK[] };
    const onFetched = (fetched: readonly JWK[]): void => {
      const stored = { jwks: JSON.stringify({ keys: fetched }), at: new Date(this.#now()) };
      // Safe to ignore: this replica has the keys, and the next request stores them.
      storeFetchedKeys(db, row, stored).catch(() => undefined);
    };
    const onFailed = (err: unknown): void =>
      log?.warn(
        { event: "auth.issuer_unavailable", orgId, issuerId, err },
        "cannot fetch the keys of a trusted issuer, using the last ones",
      );
    const fetchedMs = row.keys_fetched_at?.getTime();
    const options = { keys, fetchedMs, fetchKeys: () => fetchKeys(row.issuer, orgId), onFetched, onFailed, now: this.#now };
    const rules = JSON.parse(row.rules) as IssuerRule[];
    const issuer = { row, rules, keys: new IssuerKeys(options), loggedMs: Number.NEGATIVE_INFINITY };
    if (this.#opened.size >= MAX_CACHED_ISSUERS) this.#opened.delete(this.#opened.keys().next().value as string);
    this.#opened.set(issuerId, issuer);
    return issuer;
  }
}

function refused(): ApiError {
  return new ApiError("invalid_token", NOT_ACCEPTED);
}

function toIdentity({ row, rules }: Issuer, claims: JWTPayload): Identity {
  const { org_id: orgId, id: issuerId, name: issuerName } = row;
  const subject = String(claims.sub);
  const subjectId = toUuid(hash("sha256", `${issuerId}\0${subject}`, "hex"));
  const matching = rules.filter((rule) => matchesRule(rule, claims));
  const first = (permission: Permission) => matching.find(({ permit }) => permit === permission);
  const enrol = (["enrol_cluster", "enrol_host"] as const).flatMap((permission) => {
    const rule = first(permission);
    return rule ? [[permission, { name: ruleName(rule, claims) }] as const] : [];
  });
  const reader = first("read");
  const senders = SIGNALS.flatMap((signal) => {
    const rule = matching.find(({ permit, signals = SIGNALS }) => permit === "send" && signals.includes(signal));
    return rule ? [[signal, toSender(rule, claims, { orgId, subject, subjectId })] as const] : [];
  });
  return {
    orgId,
    issuerId,
    issuerName,
    subject,
    subjectId,
    senders: Object.fromEntries(senders),
    readToken: reader && { tokenId: subjectId, orgId, labelLimits: readLabelLimits(writeLabelLimits(reader.label_limits)) },
    enrol: Object.fromEntries(enrol),
  };
}

function toSender(
  rule: IssuerRule,
  claims: JWTPayload,
  { orgId, subject, subjectId }: { readonly orgId: string; readonly subject: string; readonly subjectId: string },
): Sender {
  const { bytes_per_second: bytesPerSecond = 0, records_per_second: recordsPerSecond = 0 } = rule;
  const limits = bytesPerSecond > 0 || recordsPerSecond > 0 ? { bytesPerSecond, recordsPerSecond } : undefined;
  // oxlint-disable-next-line no-control-regex -- a claim may contain any character, a label may not
  const node = (ruleName(rule, claims) ?? subject).replaceAll(/[\u0000-\u001f\u007f\ud800-\udfff]/g, "_").slice(0, 200);
  return { keyId: subjectId, kind: "direct", orgId, hostId: subjectId, node, createdAt: new Date(), ...(limits && { limits }) };
}

/** A UUID of version 8 (RFC 9562) from the first bytes of a digest. */
function toUuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
