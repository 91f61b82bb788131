// The final refusals: the error codes of 400, 413 and 429 that the backend can answer. Invariant: equal to the codes of these
// statuses in backend/errors.ts but `malformed_request`, which is a word on the connection, not on the body (a test of agent/proxy holds the
// two together). Because the collector drops data on 400 and 413, the proxy passes them on only when the body carries one of these codes:
// anything between agent and backend can answer a bare 400.

export const FINAL_REFUSALS: Readonly<Record<number, readonly string[]>> = {
  400: [
    "malformed_body",
    "invalid_payload",
    "invalid_field",
    "invalid_parameter",
    "missing_idempotency_key",
    "query_too_expensive",
    "unstorable",
  ],
  413: ["body_too_large", "batch_too_large"],
  429: ["over_quota", "too_many_queries", "login_backoff"],
};
