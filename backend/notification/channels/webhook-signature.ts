// Standard Webhooks (https://www.standardwebhooks.com): how a receiver knows that a message is ours, and that it has seen it before.
// Invariant: the secret is made here or read here, never derived; while one rotates, messages carry a signature of each.
import { createHmac, randomBytes } from "node:crypto";

const PREFIX = "whsec_";
const SECRET_BYTES = 32;
/** The specification's bounds. */
const [LEAST_BYTES, MOST_BYTES] = [24, 64];

/** `whsec_` and 32 random bytes in base64. */
export function newSigningSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString("base64");
}

/** The headers of one attempt. `id` stays the same over attempts: a receiver that has seen it need not act again. */
export function signatureHeaders(
  body: string,
  { id, secrets, atMs }: { id: string; secrets: readonly string[]; atMs: number },
): Record<string, string> {
  const timestamp = String(Math.floor(atMs / 1000));
  const signed = `${id}.${timestamp}.${body}`;
  const signatures = secrets.map((secret) => `v1,${createHmac("sha256", keyOf(secret)).update(signed).digest("base64")}`);
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}

function keyOf(secret: string): Buffer {
  const key = Buffer.from(secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : "", "base64");
  // What would sign weakly signs nothing: it is no secret of ours.
  if (key.length < LEAST_BYTES || key.length > MOST_BYTES) throw new Error("not a signing secret");
  return key;
}
