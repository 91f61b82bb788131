// Stores the host agent's key and pending enrolment in a file. Invariants: the file has mode 0600, and is replaced atomically with fsync, so
// that a crash or a power failure leaves either the old or the new content. A file on a read-only mount keeps its mode; its group, but no
// other users, may then read it, as with kubelet's fsGroup and systemd credentials.
import { chmodSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { writeDurably, makeFolder } from "../../common/files.ts";
import type { RegisterHostRequest } from "../../common/protocol/enrolment.ts";
import type { Credential } from "./credential-store.ts";

/** Content of the file; every field may be missing. */
export interface HostCredentials {
  readonly credential?: Credential | undefined;
  /** SHA-256 of the install token that was exchanged for the credential. */
  readonly usedTokenHash?: string | undefined;
  /**
   * The machine id (/etc/machine-id) under which the credential was enrolled; undefined if the system had none, or an older agent wrote the
   * file.
   */
  readonly machineId?: string | undefined;
  /** A registration that was started: the same call is repeated until it is answered. */
  readonly pending?: { readonly tokenHash: string; readonly idempotencyKey: string; readonly body: RegisterHostRequest } | undefined;
}

/** The file exists but cannot be used, or cannot be written; the message names the file and what to do. */
export class CredentialsFileError extends Error {
  override readonly name = "CredentialsFileError";
}

const GROUP_READS = 0o040;

interface Document {
  agent_id?: string;
  api_key?: string;
  key_created_at?: string;
  org_id?: string;
  install_token_sha256?: string;
  machine_id?: string;
  pending?: HostCredentials["pending"];
}

export class CredentialsFile {
  readonly path: string;
  /** From the last read: true if the file's group may read it and the mount is read-only. */
  isOpenToGroup = false;

  constructor(path: string) {
    this.path = path;
  }

  /**
   * Empty if the file does not exist. Removes permissions of group and others, except that a group may read a file on a read-only mount.
   * Throws CredentialsFileError.
   */
  read(): HostCredentials {
    let text: string;
    try {
      this.#restrictMode();
      text = readFileSync(this.path, "utf8");
    } catch (error) {
      if (error instanceof CredentialsFileError) throw error;
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
      throw new CredentialsFileError(`cannot read ${this.path}: ${(error as Error).message}`, { cause: error });
    }
    const document = parse(text, this.path);
    return {
      credential: readCredential(document),
      usedTokenHash: document.install_token_sha256,
      machineId: document.machine_id,
      pending: document.pending,
    };
  }

  #restrictMode(): void {
    this.isOpenToGroup = false;
    const stats = statSync(this.path);
    // The mode of a folder or device, such as /etc or /dev/null, must not be changed.
    if (!stats.isFile()) throw new CredentialsFileError(`${this.path} is not a file: set CREDENTIALS_FILE to the path of a file`);
    const rights = stats.mode & 0o077;
    if (rights === 0) return;
    try {
      chmodSync(this.path, 0o600);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EROFS") throw error;
      if (rights !== GROUP_READS) {
        const problem = "is on a read-only mount, and its mode grants more than read access to its group";
        const advice = "mount it with mode 0400, or 0440 if its group must read it (defaultMode of a Secret)";
        throw new CredentialsFileError(`${this.path} ${problem}: ${advice}`, { cause: error });
      }
      this.isOpenToGroup = true;
    }
  }

  /** Throws CredentialsFileError. */
  write({ credential, usedTokenHash, machineId, pending }: HostCredentials): void {
    const document: Document = {
      ...(credential && { agent_id: credential.id, api_key: credential.apiKey, key_created_at: credential.keyCreatedAt }),
      ...(credential?.org !== undefined && { org_id: credential.org }),
      ...(usedTokenHash !== undefined && { install_token_sha256: usedTokenHash }),
      ...(machineId !== undefined && { machine_id: machineId }),
      ...(pending && { pending }),
    };
    try {
      makeFolder(dirname(this.path), 0o700);
      writeDurably(this.path, `${JSON.stringify(document, undefined, 2)}\n`);
    } catch (error) {
      const advice = "set CREDENTIALS_FILE to a writable path, or run as another user";
      throw new CredentialsFileError(`cannot write ${this.path}: ${(error as Error).message}; ${advice}`, { cause: error });
    }
  }
}

function readCredential({ agent_id: id, api_key: apiKey, key_created_at: keyCreatedAt, org_id: org }: Document) {
  if (!id || !apiKey) return undefined;
  return { id, apiKey, keyCreatedAt: keyCreatedAt ?? "", ...(org && { org }) };
}

function parse(text: string, path: string): Document {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // The content is not shown, because it may contain the key.
  }
  if (typeof document === "object" && document !== null) return document;
  throw new CredentialsFileError(`${path} is not JSON: restore it, or remove it and set a new INSTALL_TOKEN`);
}
