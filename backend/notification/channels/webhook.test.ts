// A Standard Webhooks library, which receivers use, accepts exactly the messages that are signed here.
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { newSigningSecret, signatureHeaders } from "./webhook.ts";

const body = JSON.stringify({ text: "ü" });
const id = "0198b7a4-1111-7000-8000-000000000000";

function signed(secrets: string[], atMs = Date.now()): Record<string, string> {
  return signatureHeaders(body, { id, secrets, atMs });
}

test("a Standard Webhooks library verifies a message, but not a changed one, one of another secret, or an old one", () => {
  const secret = newSigningSecret();
  expect(new Webhook(secret).verify(body, signed([secret]))).toEqual({ text: "ü" });
  expect(() => new Webhook(secret).verify(`${body} `, signed([secret]))).toThrow(/signature/);
  expect(() => new Webhook(newSigningSecret()).verify(body, signed([secret]))).toThrow(/signature/);
  expect(() => new Webhook(secret).verify(body, { ...signed([secret]), "webhook-id": "another" })).toThrow(/signature/);
  expect(() => new Webhook(secret).verify(body, signed([secret], Date.now() - 600_000))).toThrow(/timestamp/i);
});

test("rejects an invalid signing secret", () => {
  for (const secret of ["", "whsec_", "whsec_c2hvcnQ=", "plain text", `whsec_${Buffer.alloc(65).toString("base64")}`])
    expect(() => signed([secret])).toThrow("not a signing secret");
});
