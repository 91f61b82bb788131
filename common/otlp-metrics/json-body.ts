// JSON of a telemetry body as values, and the error of a body that is not passed on. Invariant: the memory of the values has a limit: `{}` has
// two bytes and becomes some sixty.

/** The kind decides how the sender is answered. */
export class BodyError extends Error {
  override readonly name = "BodyError";
  readonly kind: "too_large" | "no_room" | "malformed" | "unsupported_encoding";
  constructor(kind: BodyError["kind"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

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
