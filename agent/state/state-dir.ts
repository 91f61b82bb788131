// Assigns the state on this node (queue, file offsets, collector configuration) to identities. Each identity has its own folder: the first one
// uses STATE_DIR itself, others use STATE_DIR/identities/<id>. Invariants: a folder is used only by the identity that its mark (`owner.json`)
// names, and by one agent at a time (common/folder-lock.ts); another identity's state is reported, but neither sent, changed nor removed; a
// mark is written only under the folder's lock.
import { createHash } from "node:crypto";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeDurably, makeFolder } from "../../common/files.ts";
import { holderOf, tryLock } from "../../common/folder-lock.ts";
import type { Credential } from "../credentials/credential-store.ts";
import type { Log } from "../log.ts";

/** The agent's identity, as far as it is known when the agent claims its folder. */
export interface KnownIdentity {
  /** Undefined: not enrolled, or unknown. */
  readonly credential: Credential | undefined;
  /** False while the credential's store could not be read. */
  readonly isKnown: boolean;
}

/** `owner.json` of a folder. */
interface Mark {
  /** cluster_id or agent_id; null: the installation is not enrolled yet. */
  readonly id: string | null;
  /** Organisation; null: not known yet. */
  readonly org: string | null;
  /** The agent's installation: `<namespace>/<Secret>`, or `host:<credentials file>`. */
  readonly installation: string;
  /** RFC 3339; when the folder was last claimed. */
  readonly since: string;
}

/** State of another identity in this folder. */
interface OtherState {
  readonly folder: string;
  /** Undefined: the folder has no mark. */
  readonly id: string | undefined;
  readonly installation: string | undefined;
  readonly bytes: number;
}

export interface StateStatus {
  readonly folder: string | undefined;
  readonly owner: string | undefined;
  /** Why no folder is claimed yet. */
  readonly waits: string | undefined;
  readonly others: readonly OtherState[];
}

interface StateDirOptions {
  readonly root: string;
  readonly installation: string;
  /** Shown to another agent that tries to claim the same folder. */
  readonly holder: string;
  readonly log: Log;
}

/** Content of a state folder: if any of it exists, a folder without a mark belongs to another agent. */
const CONTENT = ["queue", "checkpoints", "collector", "remote-config.json"];
const MARK = "owner.json";
/** Files and folders that an agent creates before it claims the folder. */
const OWN_NAMES: ReadonlySet<string> = new Set([...CONTENT, MARK, "compiled", "lock", "lock.holder", "identities"]);

export class StateDir {
  readonly #options: StateDirOptions;

  constructor(options: StateDirOptions) {
    this.#options = options;
  }

  /** Returns the folder of this identity, locked and marked; or a sentence that says why it is not available. Throws StateDirError. */
  claim(identity: KnownIdentity): ClaimedState | string {
    const { root } = this.#options;
    return onDisk(root, () => {
      makeFolder(root, 0o700);
      this.#makePrivate();
      const folder = this.#findOwn(identity);
      if (folder !== undefined) return this.#claimFolder(folder, identity, (mark) => mark !== undefined && this.#belongs(mark, identity));
      if (this.#mayClaimUnmarked(identity)) return this.#claimFolder(root, identity, (mark) => mark === undefined);
      if (!identity.credential) return this.#explainWait(identity);
      return this.#claimFolder(this.#identityFolder(identity.credential.id), identity, (mark) => mark === undefined);
    });
  }

  /**
   * Kubelet and systemd create the folder with mode 0755. The mode is changed only if the folder is empty or has an agent's state, because
   * STATE_DIR may be a folder that others use, such as /tmp.
   */
  #makePrivate(): void {
    const { root } = this.#options;
    const { mode } = statSync(root);
    if ((mode & 0o077) === 0 || (mode & 0o002) !== 0) return;
    if (readMark(root) === undefined && readdirSync(root).some((name) => !OWN_NAMES.has(name))) return;
    try {
      chmodSync(root, 0o700);
    } catch (error) {
      // The files in it have their own modes; a folder of another user stays as it is.
      this.#options.log.debug({ event: "state.permissions_failed", err: error }, "cannot make STATE_DIR private");
    }
  }

  /** Returns the state of other identities; `ownFolder` is excluded. */
  others(ownFolder: string | undefined): OtherState[] {
    return onDisk(this.#options.root, () =>
      this.#folders()
        .filter((folder) => folder !== ownFolder && hasContent(folder))
        .map((folder) => {
          const mark = readMark(folder);
          return { folder, id: mark?.id ?? undefined, installation: mark?.installation, bytes: folderBytes(join(folder, "queue")) };
        }),
    );
  }

  get #identities(): string {
    return join(this.#options.root, "identities");
  }

  #identityFolder(id: string): string {
    const name = /^[\w-]{1,64}$/.test(id) ? id : createHash("sha256").update(id).digest("hex");
    return join(this.#identities, name);
  }

  #folders(): string[] {
    const { root } = this.#options;
    const names = existsSync(this.#identities) ? readdirSync(this.#identities).sort() : [];
    return existsSync(root) ? [root, ...names.map((name) => join(this.#identities, name))] : [];
  }

  /** The folder that is marked as this identity's; a match by id takes precedence. */
  #findOwn(identity: KnownIdentity): string | undefined {
    const marked = this.#folders().flatMap((folder) => {
      const mark = readMark(folder);
      return mark && this.#belongs(mark, identity) ? [{ folder, mark }] : [];
    });
    const latestFirst = marked.sort((a, b) => b.mark.since.localeCompare(a.mark.since));
    return (latestFirst.find(({ mark }) => mark.id === identity.credential?.id) ?? latestFirst[0])?.folder;
  }

  /**
   * Folders of an identity: those with its id, and those of the same installation under a former id in the same organisation, or without an
   * id. While the identity cannot be read, it is assumed to be unchanged; nothing is sent before it is confirmed (`accepts`).
   */
  #belongs(mark: Mark, { credential, isKnown }: KnownIdentity): boolean {
    const isSameInstallation = mark.installation === this.#options.installation;
    if (!credential) return isSameInstallation && (!isKnown || mark.id === null);
    return mark.id === credential.id || (isSameInstallation && (mark.id === null || isSameOrg(mark, credential)));
  }

  /** A folder without state is free; state without a mark has an unknown owner. */
  #mayClaimUnmarked({ credential }: KnownIdentity): boolean {
    const { root } = this.#options;
    if (readMark(root) !== undefined || hasContent(root)) return false;
    return credential !== undefined || !existsSync(this.#identities);
  }

  /** Locks `folder` and marks it, if its current mark is as expected. */
  #claimFolder(folder: string, { credential }: KnownIdentity, isExpected: (mark: Mark | undefined) => boolean): ClaimedState | string {
    makeFolder(folder, 0o700);
    const lock = tryLock(folder, this.#options.holder);
    if (!lock)
      return `another agent uses ${folder} (${holderOf(folder) ?? "another agent"}): stop it, or set another STATE_DIR (chart: stateHostPath)`;
    try {
      const mark = readMark(folder);
      if (isExpected(mark)) return new ClaimedState({ ...this.#options, folder, lock, mark, credential });
      lock[Symbol.dispose]();
      return `${join(folder, MARK)} names another identity`;
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    }
  }

  #explainWait({ isKnown }: KnownIdentity): string {
    const condition = isKnown ? "is enrolled" : "can read its key";
    return `${this.#options.root} has the state of another or an unknown installation: the collector starts when this agent ${condition}`;
  }
}

interface ClaimOptions extends StateDirOptions {
  readonly folder: string;
  readonly lock: Disposable;
  readonly mark: Mark | undefined;
  readonly credential: Credential | undefined;
}

/** A folder that this agent owns until disposed. */
export class ClaimedState implements Disposable {
  readonly folder: string;
  readonly #options: ClaimOptions;
  #mark: Mark;

  constructor(options: ClaimOptions) {
    const { folder, installation, credential, mark } = options;
    this.#options = options;
    this.folder = folder;
    const since = new Date().toISOString();
    this.#mark = { id: credential?.id ?? mark?.id ?? null, org: credential?.org ?? mark?.org ?? null, installation, since };
    if (mark === undefined && !hasContent(folder)) this.#write();
    else this.#writeIfPossible();
  }

  /** Undefined until enrolled. */
  get owner(): string | undefined {
    return this.#mark.id ?? undefined;
  }

  /**
   * True if the content of this folder may be sent with this credential. A folder of an installation that was not enrolled is assigned to
   * the credential, and so is one whose cluster or host was removed and enrolled again in the same organisation.
   */
  accepts(credential: Credential): boolean {
    if (credential.id === this.#mark.id) return true;
    if (this.#mark.id !== null && !isSameOrg(this.#mark, credential)) return false;
    const before = this.#mark.id;
    this.#mark = { ...this.#mark, id: credential.id, org: credential.org ?? null };
    this.#options.log.info(
      { event: "state.owner_changed", folder: this.folder, id: credential.id, before },
      "the state on this node now belongs to this identity",
    );
    this.#writeIfPossible();
    return true;
  }

  /** Records the organisation of the identity `id`, as the backend reports it. */
  noteOrg(id: string, org: string): void {
    if (id !== this.#mark.id || org === this.#mark.org) return;
    this.#mark = { ...this.#mark, org };
    this.#writeIfPossible();
  }

  [Symbol.dispose](): void {
    this.#options.lock[Symbol.dispose]();
  }

  #write(): void {
    writeDurably(join(this.folder, MARK), `${JSON.stringify(this.#mark)}\n`);
  }

  /**
   * Only logs a failure: if there is already state, a full disk must not keep the queue from being sent, and the next start comes to the same
   * decision.
   */
  #writeIfPossible(): void {
    try {
      this.#write();
    } catch (error) {
      this.#options.log.warn(
        { event: "state.owner_not_written", folder: this.folder, err: (error as Error).message },
        "cannot write which identity owns the state on this node",
      );
    }
  }
}

function isSameOrg(mark: Mark, { org }: Credential): boolean {
  return mark.org !== null && mark.org === org;
}

/** A mark that cannot be read counts as another agent's. */
function readMark(folder: string): Mark | undefined {
  let text: string;
  try {
    text = readFileSync(join(folder, MARK), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const { id, org, installation, since } = JSON.parse(text) as Partial<Mark>;
    return { id: id === undefined ? "" : id, org: org ?? null, installation: installation ?? "unknown", since: since ?? "" };
  } catch {
    return { id: "", org: null, installation: "unknown", since: "" };
  }
}

function hasContent(folder: string): boolean {
  return CONTENT.some((name) => existsSync(join(folder, name)));
}

function folderBytes(folder: string): number {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder).reduce((sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** STATE_DIR cannot be written; the message says what to do. */
export class StateDirError extends Error {
  override readonly name = "StateDirError";
}

/** Returns an error with advice for a failed disk operation. */
export function stateDirError(stateDir: string, error: Error): StateDirError {
  const isFull = ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
  const why = isFull ? "no space left on the device: free some" : `${error.message}; set it to a writable folder`;
  return new StateDirError(`STATE_DIR ${stateDir}: ${why}`, { cause: error });
}

function onDisk<T>(root: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    if (error instanceof StateDirError) throw error;
    throw stateDirError(root, error as Error);
  }
}
