// The limits of backend/auth/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

/** Approximate number of audit entries of an organisation that are kept: the newest. */
export const MAX_AUDIT_ENTRIES_PER_ORG = 200_000;
/** @internal Entries that wait to be written, of which those of one organisation may be half; further ones are dropped and counted. */
export const MAX_WAITING_AUDIT_ENTRIES = 5_000;
/** @internal Details of an audit entry as JSON; longer ones are replaced by their length. */
export const MAX_SUBJECT_BYTES = 4096;
/** Values of one label to which a reader is limited. */
export const MAX_LABEL_LIMIT_VALUES = 50;
/** @internal JSON of all labels and values to which a reader is limited. */
export const MAX_LABEL_LIMITS_BYTES = 8192;
/** Rules of a trusted issuer. */
export const MAX_ISSUER_RULES = 50;
/** @internal Claims of a rule. */
export const MAX_RULE_CLAIMS = 10;
/** @internal Characters of a claim's pattern, and of a claim that is compared with one. */
export const MAX_CLAIM_LENGTH = 500;
/** @internal Members of all JSON objects in the header of an issuer's token, and in its payload. */
export const MAX_TOKEN_MEMBERS = 200;
/** The keys of an unreachable issuer are used for at most this time after they were fetched. */
export const MAX_KEYS_AGE_MS = 24 * 3_600_000;
/** @internal Size of the metadata of an issuer, and of its keys. */
export const MAX_ISSUER_RESPONSE_BYTES = 128 * 1024;
/** @internal Keys of an issuer; a larger set is refused. */
export const MAX_ISSUER_KEYS = 64;
/** @internal Base64url characters of an issuer's RSA modulus (4,096 bits); longer keys are ignored. */
export const MAX_MODULUS_LENGTH = 683;
/** @internal Characters of an issuer; the URL of its keys may have twice as many. */
export const MAX_ISSUER_URL_LENGTH = 500;
/** Trusted issuers of an organisation. */
export const MAX_ISSUERS_PER_ORG = 1000;
/** @internal Stored keys and rules of all trusted issuers of an organisation. */
export const MAX_ISSUERS_BYTES_PER_ORG = 4 * 1024 * 1024;
/** @internal Issuers that a replica remembers. */
export const MAX_CACHED_ISSUERS = 2000;
/** Enrolments with the tokens of an issuer within 48 hours. */
export const MAX_ENROLMENTS_PER_ISSUER = 20_000;
/**
 * @internal Tokens of issuers whose verification is cached for five minutes, at most until they expire; above this, the oldest is verified
 * again.
 */
export const MAX_CACHED_IDENTITIES = 20_000;
/** @internal Ids of one lookup statement. */
export const MAX_IDS_PER_LOOKUP = 500;
/** @internal Concurrent checks: one that hangs on a broken connection does not hide that the database is back. */
export const MAX_CACHE_CHECKS = 4;
/** @internal Rows of one cache of keys, tokens, browser sessions or trusted issuers. */
export const MAX_CACHED_ROWS = 50_000;
/** @internal Ids of one check statement, which takes the database about 10 ms. */
export const MAX_IDS_PER_CHECK = 10_000;
/** @internal Unknown ids are cached separately and for a shorter time, so that guessed ids cannot evict real ones. */
export const MAX_UNKNOWN_IDS = 5_000;
/** Age of a browser session. */
export const MAX_SESSION_AGE_S = 7 * 86_400;
/** Browser sessions of a user; above this, the oldest are removed. */
export const MAX_SESSIONS_PER_USER = 100;
/** @internal Untrusted reverse proxies about which the log has a warning, one for each. */
export const MAX_PROXIES = 5;
/** Longest wait after failed logins. */
export const MAX_LOGIN_WAIT_MS = 15 * 60_000;
/** @internal Pairs of client and user whose failures are remembered. */
export const MAX_LOGIN_PAIRS = 50_000;
/** @internal Pairs that have logged in before; above this, the one whose last successful login is the oldest is forgotten. */
export const MAX_SUCCEEDED_PAIRS = 10_000;
/** @internal Concurrent password logins with one e-mail address from one network. */
export const MAX_LOGINS_IN_FLIGHT = 4;
/** @internal Password hashes at one time. */
export const MAX_RUNNING_HASHES = 2;
/** @internal Requests of one organisation, or without a login of one network, that wait for a password hash. */
export const MAX_WAITING_HASHES_PER_CLIENT = 256;
/** @internal Requests that wait for a password hash. */
export const MAX_WAITING_HASHES = 2048;
/** @internal Users whose last change is cached. */
export const MAX_CACHED_USERS = 10_000;
/** @internal Longer messages are not remembered, because clients choose the length of the path. */
export const MAX_REMEMBERED_LENGTH = 256;
/** @internal Characters of the path in the error for a wrong signature. */
export const MAX_SHOWN_PATH_CHARACTERS = 200;
/** @internal Completed attempts are remembered until their cookie expires. */
export const MAX_ENDED_ATTEMPTS = 10_000;
/** @internal Size of a response of the identity provider. */
export const MAX_PROVIDER_RESPONSE_BYTES = 1024 * 1024;
/** @internal HTTP chunks of such a response, each of which takes time. */
export const MAX_PROVIDER_RESPONSE_PIECES = 4096;
/** @internal Groups of a user that single sign-on reads; further ones are ignored. */
export const MAX_GROUPS = 10_000;
