// Encrypts API keys at rest with AES-256-GCM and the master key, bound to organisation and key id. Invariant: a stolen database without the
// master key contains no usable API key, and a ciphertext that is moved to another row does not decrypt. A hash is not enough, because
// verifying an HMAC needs the raw key.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { StartError } from "../../errors.ts";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface Encrypted {
  /** nonce, ciphertext and tag, base64. */
  ciphertext: string;
  /** Identifies the master key without revealing it. */
  master_key_id: string;
}

/** The current master key, and the previous one, which only decrypts. */
export class MasterKeys {
  readonly #current: Buffer;
  readonly #byId: Map<string, Buffer>;
  readonly currentId: string;

  /** Both 32 bytes. */
  constructor(current: Buffer, previous?: Buffer) {
    this.#current = current;
    this.currentId = idOf(current);
    this.#byId = new Map([current, previous].filter((key) => key !== undefined).map((key) => [idOf(key), key]));
  }

  get ids(): string[] {
    return [...this.#byId.keys()];
  }

  encrypt(rawKey: string, orgId: string, keyId: string): Encrypted {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#current, nonce).setAAD(boundTo(orgId, keyId));
    const sealed = Buffer.concat([nonce, cipher.update(rawKey, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return { ciphertext: sealed.toString("base64"), master_key_id: this.currentId };
  }

  /** Throws if the master key is not configured, or the ciphertext belongs to another row. */
  decrypt({ ciphertext, master_key_id }: Encrypted, orgId: string, keyId: string): string {
    const master = this.#byId.get(master_key_id);
    if (!master) throw new Error(`secret ${keyId} needs master key ${master_key_id}, not MASTER_KEY or MASTER_PREVIOUS_KEY`);
    const sealed = Buffer.from(ciphertext, "base64");
    const decipher = createDecipheriv(CIPHER, master, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
      .setAAD(boundTo(orgId, keyId))
      .setAuthTag(sealed.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString("utf8");
  }
}

/** Rows that are re-encrypted before the next ones are read. */
export const REENCRYPTION_BATCH = 500;

/**
 * Throws StartError if no configured master key decrypts some rows: the backend must not start and then refuse part of its agents. `noun`:
 * what the rows are, for the message.
 */
export function requireNoForeignRows(
  foreign: { readonly master_key_id: string; readonly count: string } | undefined,
  { currentId }: MasterKeys,
  noun: string,
): void {
  if (foreign)
    throw new StartError(
      `${foreign.count} ${noun} are encrypted with the master key ${foreign.master_key_id}, but MASTER_KEY is ${currentId}: set MASTER_KEY (or MASTER_PREVIOUS_KEY) to the key ${foreign.master_key_id}`,
    );
}

function idOf(key: Buffer): string {
  return createHash("sha256").update("atherops master key").update(key).digest("hex").slice(0, 12);
}

function boundTo(orgId: string, keyId: string): Buffer {
  return Buffer.from(`${orgId}|${keyId}|v1`);
}
