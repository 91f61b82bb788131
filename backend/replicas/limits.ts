// What bounds backend/replicas/. docs/reference/limits.md is made from this file: each limit has one sentence, and its unit is in its name.

// body-claims.ts
/** Bodies that one statement claims. */
export const MAX_CLAIMS_PER_STATEMENT = 500;
/** Bodies that wait for a claim; further ones are stored without. */
export const MAX_WAITING_CLAIMS = 10_000;

// replica-set.ts
/** Owners of limits whose demand a replica reports to the others; those with the largest demand come first. */
export const MAX_REPORTED_OWNERS = 5000;
