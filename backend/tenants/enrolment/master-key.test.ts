import { expect, test } from "vitest";
import { MasterKeys } from "./master-key.ts";

const [first, second] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];

test("decrypts with the same master key, organisation and key id only", () => {
  const keys = new MasterKeys(first);
  const sealed = keys.encrypt("ak_secret", "org", "key");
  expect(keys.decrypt(sealed, "org", "key")).toBe("ak_secret");
  expect(() => keys.decrypt(sealed, "other-org", "key")).toThrow("authenticate");
  expect(() => keys.decrypt(sealed, "org", "other-key")).toThrow("authenticate");
  const flipped = Buffer.from(sealed.ciphertext, "base64");
  flipped[15]! ^= 1;
  expect(() => keys.decrypt({ ...sealed, ciphertext: flipped.toString("base64") }, "org", "key")).toThrow("authenticate");
  expect(() => keys.decrypt({ ...sealed, ciphertext: "AAAA" }, "org", "key")).toThrow(Error);
});

test("never encrypts the same key to the same ciphertext, and contains neither the key nor the master key", () => {
  const keys = new MasterKeys(first);
  const [one, two] = [keys.encrypt("ak_secret", "org", "key"), keys.encrypt("ak_secret", "org", "key")];
  expect(one.ciphertext).not.toBe(two.ciphertext);
  expect(Buffer.from(one.ciphertext, "base64").includes("ak_secret")).toBe(false);
  expect(first.toString("hex")).not.toContain(one.master_key_id);
});

test("decrypts with the previous master key and never encrypts with it; reports a third one as missing", () => {
  const old = new MasterKeys(first).encrypt("ak_secret", "org", "key");
  const both = new MasterKeys(second, first);
  expect(both.decrypt(old, "org", "key")).toBe("ak_secret");
  expect(both.encrypt("ak_secret", "org", "key").master_key_id).toBe(new MasterKeys(second).currentId);
  expect(() => new MasterKeys(second).decrypt(old, "org", "key")).toThrow("not MASTER_KEY or MASTER_PREVIOUS_KEY");
});
