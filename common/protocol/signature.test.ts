// Checks signature.ts with vectors that were made with OpenSSL (test/vectors/make.sh), which can also be used to check any other
// implementation.
import { describe, expect, it } from "vitest";
import { type SignatureVector, vectors } from "../../test/fixtures/signature-vectors.ts";
import { KEY_HASH_HEADER, keyHash, sign, signedPath, SIGNATURE_HEADER, TIMESTAMP_HEADER, verify } from "./signature.ts";

/** What a verifier does with the three headers and the request line; the key has been looked up by its hash. */
function accepts(vector: SignatureVector): boolean {
  if (keyHash(vector.key) !== vector.keyHash) return false;
  return verify(vector.key, vector.timestamp, vector.method, signedPath(vector.target), vector.signature);
}

describe("signature vectors", () => {
  it("include accepted and rejected requests", () => {
    expect(vectors.filter((vector) => vector.valid).length).toBeGreaterThanOrEqual(15);
    expect(vectors.filter((vector) => !vector.valid).length).toBeGreaterThanOrEqual(30);
  });

  for (const vector of vectors) {
    it(`${vector.valid ? "accepts" : "rejects"}: ${vector.name}`, () => expect(accepts(vector)).toBe(vector.valid));
  }

  for (const vector of vectors.filter((one) => one.valid && one.signature === one.signature.toLowerCase())) {
    it(`equal what sign() returns: ${vector.name}`, () => {
      expect(sign(vector.key, vector.method, signedPath(vector.target), Number(vector.timestamp))).toEqual({
        [TIMESTAMP_HEADER]: vector.timestamp,
        [KEY_HASH_HEADER]: vector.keyHash,
        [SIGNATURE_HEADER]: vector.signature,
      });
    });
  }
});

describe("sign", () => {
  it("sends whole Unix seconds, rounded down", () => {
    expect(sign("ak_x", "POST", "/ingest", 1767225600.999)[TIMESTAMP_HEADER]).toBe("1767225600");
  });

  it("never sends the raw key", () => {
    expect(JSON.stringify(sign("ak_very-secret", "POST", "/ingest", 1767225600))).not.toContain("ak_very-secret");
  });
});
