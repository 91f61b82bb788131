// The host agent's credentials file: its key, and what it must remember to enrol without ever burning an install token. Invariants:
// mode 0600; replaced atomically and synced, so that a crash or a power cut leaves the old content or the new. A file that is mounted
// read-only keeps its mode; its group may read it then, as kubelet with an fsGroup and systemd with its credentials have it, and no others.
import { chmodSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { writeDurably, makeFolder } from "../../common/files.ts";
import type { RegisterHostRequest } from "../../common/protocol/enrolment.ts";
import type { Credential } from "./store.ts";

/** What the file says; every part may be missing. */
export interface HostCredentials {
  readonly credential?: Credential | undefined;
  /** SHA-256 of the install token that the credential came from. */
  readonly usedTokenHash?: string | undefined;
  /** The system's machine id (/etc/machine-id) that the credential belongs to; undefined if the system had none, or the agent was older. */
  readonly machineId?: string | undefined;
  /** A registration that was begun: the same call is made again until it is answered. */
  readonly pending?: { readonly tokenHash: string; readonly idempotencyKey: string; readonly body: RegisterHostRequest } | undefined;
}

/** The file is there but cannot be used, or cannot be written; the message names it and what to do. */
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
  /** As last read: true if its group may read it and the mount is read-only. */
  isOpenToGroup = false;

  constructor(path: string) {
    this.path = path;
  }

  /**
   * Empty when there is no file. Takes group and others their rights away if they have any, but for a group that reads a file which is
   * mounted read-only. Throws CredentialsFileError.
   */
  read(): HostCredentials {
    let text: string;
    try {
      this.#closeToOthers();
      text = readFileSync(this.path, "utf8");
    } catch (error) {
      if (error instanceof CredentialsFileError) throw error;
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
      throw new CredentialsFileError(`cannot read ${this.path}: ${(error as Error).message}`, { cause: error });
    }
    const document = parse(text, this.path);
    return {
      credential: credentialOf(document),
      usedTokenHash: document.install_token_sha256,
      machineId: document.machine_id,
      pending: document.pending,
    };
  }

  #closeToOthers(): void {
    this.isOpenToGroup = false;
    const rights = statSync(this.path).mode & 0o077;
    if (rights === 0) return;
    try {
      chmodSync(this.path, 0o600);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EROFS") throw error;
      if (rights !== GROUP_READS) {
        const advice = "mount it with mode 0400, or 0440 where its group has to read it (a Secret: defaultMode)";
        throw new CredentialsFileError(`${this.path} is open to others than its group, on a read-only mount: ${advice}`, { cause: error });
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
      const advice = "set CREDENTIALS_FILE to a place that this user may write, or run as another user";
      throw new CredentialsFileError(`cannot write ${this.path}: ${(error as Error).message}; ${advice}`, { cause: error });
    }
  }
}

function credentialOf({ agent_id: id, api_key: apiKey, key_created_at: keyCreatedAt, org_id: org }: Document) {
  if (!id || !apiKey) return undefined;
  return { id, apiKey, keyCreatedAt: keyCreatedAt ?? "", ...(org && { org }) };
}

function parse(text: string, path: string): Document {
  try {
    return JSON.parse(text) as Document;
  } catch {
    // The text is not shown: it may hold the key.
    throw new CredentialsFileError(`${path} is not JSON: restore it, or remove it and give a new INSTALL_TOKEN`);
  }
}
