// JSON of a telemetry body as values, and the error of a body that is not passed on. Invariant: the memory of the values has a limit: `{}` has
// two bytes and becomes some sixty.
import { MAX_JSON_OBJECTS } from "./limits.ts";

/** The kind decides how the sender is answered. */
export class BodyError extends Error {
  override readonly name = "BodyError";
  readonly kind: "too_large" | "no_room" | "malformed" | "unsupported_encoding";
  constructor(kind: BodyError["kind"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/**
 * Bytes that are not UTF-8 become U+FFFD: an application can put them into one label, and a refused body would lose its whole batch.
 * Throws BodyError "too_large", or SyntaxError.
 */
export function parseDocument(json: Buffer): unknown {
  if (json.length > MAX_JSON_OBJECTS && openings(json) > MAX_JSON_OBJECTS) {
    throw new BodyError("too_large", `a body of more than ${MAX_JSON_OBJECTS} objects and lists`);
  }
  return JSON.parse(json.toString("utf8"));
}

/** `[` and `{`, those within texts too. */
function openings(json: Buffer): number {
  let count = 0;
  for (let i = 0; i < json.length; i++) if (((json[i] ?? 0) | 0x20) === 0x7b) count++;
  return count;
}
