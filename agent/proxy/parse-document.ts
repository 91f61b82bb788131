// JSON of a body as values. Invariant: what they take has a bound, whatever stands in the body: `{}` is two bytes and becomes some sixty.
import { BodyError } from "./body.ts";

/** They take some 400 MB. The collector's largest batches, 4 MB before they are JSON, have less than a million. */
const MOST_OBJECTS = 3_000_000;

/** Throws BodyError "too_large", or SyntaxError. */
export function parseDocument(json: Buffer): unknown {
  if (json.length > MOST_OBJECTS && openings(json) > MOST_OBJECTS) {
    throw new BodyError("too_large", `a body of more than ${MOST_OBJECTS} objects and lists`);
  }
  return JSON.parse(json.toString("utf8"));
}

/** `[` and `{`, those within texts too. */
function openings(json: Buffer): number {
  let count = 0;
  for (let i = 0; i < json.length; i++) if (((json[i] ?? 0) | 0x20) === 0x7b) count++;
  return count;
}
