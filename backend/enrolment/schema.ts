// Pieces of JSON schema that several routes of enrolment share.

/** Of the name of an installation: `<namespace>/<Secret>`. */
export const MAX_INSTALLATION = 400;

export const COLLECTOR_SCHEMA = {
  type: ["object", "null"],
  properties: { state: { type: "string" }, restarts: { type: "number" }, last_error: { type: "string" } },
} as const;
