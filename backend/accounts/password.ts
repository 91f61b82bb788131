// Hashes and verifies passwords with Argon2id. Invariant: an unknown user costs the same work as a known one, and no more than a few
// hashes are computed at once (hash-turns.ts).
import { hash, verify, type Options } from "@node-rs/argon2";

/** OWASP Password Storage Cheat Sheet: Argon2id (the default of the library) with m=19 MiB, t=2, p=1. */
const PARAMETERS: Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** JSON schema of a new password. */
export const PASSWORD_SCHEMA = { type: "string", minLength: 8, maxLength: 256 } as const;

export async function hashPassword(password: string): Promise<string> {
  return await hash(password, PARAMETERS);
}

let decoy: Promise<string> | undefined;

/** True when the password is right. Without a hash (unknown user, or one without a password) it does the same work and answers false. */
export async function passwordMatches(passwordHash: string | undefined, password: string): Promise<boolean> {
  const known = passwordHash !== undefined;
  const matches = await verify(known ? passwordHash : await decoyHash(), password, PARAMETERS);
  return known && matches;
}

/** Made before the first login is answered, so that the first unknown user costs no second hash. */
export async function decoyHash(): Promise<string> {
  decoy ??= hashPassword("a password that nobody has");
  return await decoy;
}
