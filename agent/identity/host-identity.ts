// Manages the host agent's identity: enrols once with an install token or an identity token, then reads the key from its file. Invariants: the
// Idempotency-Key and the body of a registration are stored in the file before the call, so that after a crash, the identical call is
// repeated and no token is wasted; while the backend is unavailable, it retries and never ends the process. A key that was enrolled under
// another machine id belongs to the host from which this one was cloned; it is replaced as soon as an unused token is available.
import { randomUUID } from "node:crypto";
import { type Backoff, Loop } from "../../common/loop.ts";
import { type CredentialsFile, CredentialsFileError, type HostCredentials } from "../credentials/file.ts";
import type { Credential } from "../credentials/credential-store.ts";
import type { EnrolmentToken } from "../enrolment-token.ts";
import type { Log } from "../log.ts";
import { HOST_HEARTBEAT_PATH, type RegisterHostRequest, type RegisterHostResponse } from "../../common/protocol/enrolment.ts";
import { BackendError, type BackendApi } from "../upstream/backend-api.ts";
import { type AgentIdentity, type AgentIdentityStatus, type Problem, ProblemReport } from "./identity.ts";

export interface HostIdentityOptions {
  readonly file: CredentialsFile;
  /** Called before each attempt, because identity tokens are replaced. */
  readonly token: () => EnrolmentToken | undefined;
  /** The host's data for its registration. */
  readonly host: RegisterHostRequest;
  /** From /etc/machine-id; undefined if the system has none. Then `host.machine_id` is the host name, which may change. */
  readonly systemId?: string | undefined;
  readonly backend: Pick<BackendApi, "registerHost" | "heartbeat">;
  readonly log: Log;
  readonly backoffMs?: Backoff;
}

/** A refused key is checked with the backend at most this often. */
const PROBE_EVERY_MS = 10_000;
/** A host without a key looks for a new token this often. */
const TOKEN_EVERY_MS = 30_000;

export class HostIdentity implements AgentIdentity {
  readonly #options: HostIdentityOptions;
  readonly #problem: ProblemReport;
  readonly #loop: Loop;
  #known: HostCredentials;
  #token: EnrolmentToken | undefined;
  #suspect = false;
  #probedAt = -Infinity;
  #refusedKey: string | undefined;
  #refusedToken = false;
  #keyAgeDays: number | undefined;

  /** Reads the file at once; throws CredentialsFileError if it exists but cannot be used. Enrolment continues in the background. */
  constructor(options: HostIdentityOptions) {
    this.#options = options;
    this.#token = options.token();
    this.#known = this.#read();
    if (options.file.isOpenToGroup)
      options.log.warn(
        { event: "identity.credentials_group_readable", file: options.file.path },
        "the group of the credentials file may read the key, and its mode cannot be changed on a read-only mount",
      );
    if (this.#known.credential)
      options.log.info(
        { event: "identity.enrolled_earlier", agentId: this.#known.credential.id },
        "already enrolled; using the key in the credentials file",
      );
    this.#markMachineId();
    this.#problem = new ProblemReport(options.log, "host");
    this.#loop = new Loop({
      step: (signal) => this.#step(signal),
      failed: (error) => this.#failed(error),
      backoffMs: options.backoffMs,
    });
  }

  current(): Credential | undefined {
    return this.#mustReenrol() ? undefined : this.#known.credential;
  }

  /** Always true: the file was read at start. */
  isKnown(): boolean {
    return true;
  }

  // oxlint-disable-next-line typescript/require-await -- the interface is asynchronous for the cluster's Secret
  async refresh(reason: string): Promise<Credential | undefined> {
    const before = this.#known.credential?.apiKey;
    try {
      this.#known = this.#read();
    } catch (error) {
      // The caller continues with the known credential, as the contract of CredentialSource requires.
      this.#options.log.warn(
        { event: "identity.credentials_unreadable", reason, err: (error as Error).message },
        "cannot reread the credentials file; keeping the key in memory",
      );
    }
    if (this.#known.credential?.apiKey === before) this.#suspect = true;
    else this.#options.log.info({ event: "identity.key_adopted", reason }, "the credentials file has another key; using it from now on");
    this.#loop.wake();
    return this.current();
  }

  noteKeyAge(credential: Credential, days: number): void {
    if (credential.apiKey !== this.#known.credential?.apiKey) return;
    this.#keyAgeDays = days;
    this.#refusedKey = undefined;
    if (this.#problem.current?.code === "key_refused") this.#problem.report(undefined);
  }

  status(): AgentIdentityStatus {
    const credential = this.current();
    return {
      id: credential?.id,
      keyCreatedAt: credential?.keyCreatedAt,
      keyAgeDays: this.#keyAgeDays,
      signs: this.#signs(),
      problem: this.#problem.current,
    };
  }

  #signs(): boolean {
    const apiKey = this.current()?.apiKey;
    return apiKey !== undefined && apiKey !== this.#refusedKey;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** Returns when to look for a new token; undefined: it waits for a 401. */
  async #step(signal: AbortSignal): Promise<number | undefined> {
    await this.#verify(signal);
    const token = this.#options.token();
    if (token?.id !== this.#token?.id) this.#refusedToken = false;
    this.#token = token;
    if (this.#token && this.#mayEnrol()) await this.#enrol(this.#token, signal);
    else this.#advise();
    return this.#signs() ? undefined : TOKEN_EVERY_MS;
  }

  #mayEnrol(): boolean {
    const { credential } = this.#known;
    if (this.#token === undefined || this.#refusedToken) return false;
    if (!credential || this.#mustReenrol()) return true;
    return credential.apiKey === this.#refusedKey && this.#isUnused(this.#token);
  }

  /** An identity token can enrol any number of times. */
  #isUnused({ id, isIdentity }: EnrolmentToken): boolean {
    return isIdentity || id !== this.#known.usedTokenHash;
  }

  /** A registration that was started under another machine id belongs to the original host and is not repeated. */
  #read(): HostCredentials {
    const known = this.#options.file.read();
    const { systemId } = this.#options;
    if (known.pending === undefined || systemId === undefined || known.pending.body.machine_id === systemId) return known;
    return { ...known, pending: undefined };
  }

  /** True if the credential was enrolled under another machine id. */
  #isFromOtherMachine(): boolean {
    const { credential, machineId } = this.#known;
    const { systemId } = this.#options;
    return credential !== undefined && machineId !== undefined && systemId !== undefined && machineId !== systemId;
  }

  /** Without a usable token, the agent keeps its key: a new machine id alone never stops a host's telemetry. */
  #mustReenrol(): boolean {
    if (!this.#isFromOtherMachine() || this.#refusedToken) return false;
    return this.#token !== undefined && this.#isUnused(this.#token);
  }

  /** Files of earlier versions do not contain the machine id. */
  #markMachineId(): void {
    const { file, systemId, log } = this.#options;
    if (!this.#known.credential || this.#known.machineId !== undefined || systemId === undefined) return;
    try {
      file.write({ ...this.#known, machineId: systemId });
      this.#known = { ...this.#known, machineId: systemId };
    } catch (error) {
      // On a read-only mount, a changed machine id is not detected, as in earlier versions.
      log.debug({ event: "identity.machine_id_not_written", err: error }, "cannot write the machine id to the credentials file");
    }
  }

  async #enrol({ text, id: tokenHash, isIdentity }: EnrolmentToken, signal: AbortSignal): Promise<void> {
    const { file, backend, log } = this.#options;
    const pending = this.#announce(tokenHash);
    try {
      const { body, org } = await backend.registerHost(text, pending.idempotencyKey, pending.body, signal);
      const credential = readCredential(body, org);
      const enrolled = { credential, usedTokenHash: tokenHash, machineId: this.#options.systemId };
      file.write(enrolled);
      this.#known = enrolled;
      this.#problem.report(undefined);
      log.info({ event: "identity.enrolled", agentId: credential.id }, "enrolled; the key is in the credentials file");
    } catch (error) {
      // An identity token may be accepted later, after an administrator trusts its issuer. A clone keeps the key that it has until then.
      const isRefused = error instanceof BackendError && (isIdentity ? this.#isFromOtherMachine() : error.code === "invalid_install_token");
      if (!isRefused) throw error;
      this.#refusedToken = true;
      this.#advise();
    }
  }

  /** If a registration was already announced for this token, it is reused. */
  #announce(tokenHash: string): NonNullable<HostCredentials["pending"]> {
    if (this.#known.pending?.tokenHash === tokenHash) return this.#known.pending;
    const pending = { tokenHash, idempotencyKey: randomUUID(), body: this.#options.host };
    this.#options.file.write({ ...this.#known, pending });
    this.#known = { ...this.#known, pending };
    return pending;
  }

  /** After a 401 with the key that is still in the file: checks whether the key is the cause. */
  async #verify(signal: AbortSignal): Promise<void> {
    const credential = this.current();
    if (!this.#suspect || !credential || performance.now() - this.#probedAt < PROBE_EVERY_MS) return;
    this.#suspect = false;
    this.#probedAt = performance.now();
    try {
      await this.#options.backend.heartbeat(HOST_HEARTBEAT_PATH, credential, {}, signal);
      this.#refusedKey = undefined;
    } catch (error) {
      if (!(error instanceof BackendError && error.keyRefused)) throw error;
      this.#refusedKey = credential.apiKey;
    }
  }

  #advise(): void {
    const { credential, usedTokenHash } = this.#known;
    const where = this.#options.file.path;
    if (this.#signs()) return this.#problem.report(this.#isFromOtherMachine() ? foreignKey(where) : undefined);
    const newToken = "create one as an administrator with `atherops tokens create`, set INSTALL_TOKEN to it and restart the agent";
    if (this.#refusedToken)
      return this.#problem.report({ code: "install_token_refused", message: `the install token is unknown, expired or used: ${newToken}` });
    if (credential) {
      const why = usedTokenHash === this.#token?.id ? "and INSTALL_TOKEN was already used" : "and there is no INSTALL_TOKEN";
      return this.#problem.report({
        code: "key_refused",
        message: `the backend refuses the key in ${where} as unknown or revoked, ${why}: ${newToken}`,
      });
    }
    this.#problem.report({
      code: "no_install_token",
      message: `this host is not enrolled: there is no key in ${where}, no INSTALL_TOKEN and no IDENTITY_TOKEN; ${newToken}`,
    });
  }

  /** Returns the wait that the backend requested. */
  #failed(error: unknown): number {
    const code = failureCode(error);
    const problem = this.#mayEnrol() ? "not enrolled yet" : "cannot check the key with the backend";
    this.#problem.report({ code, message: `${problem}, retrying: ${error instanceof Error ? error.message : String(error)}` });
    return error instanceof BackendError ? (error.retryAfterS ?? 0) * 1000 : 0;
  }
}

function failureCode(error: unknown): string {
  if (error instanceof CredentialsFileError) return "credentials_file";
  return error instanceof BackendError && error.code === "host_in_use" ? error.code : "failing";
}

function foreignKey(file: string): Problem {
  const advice =
    "if this host is a clone, create an install token (`atherops tokens create`), set INSTALL_TOKEN to it and restart the agent, which then enrols as a separate host";
  return {
    code: "machine_id_changed",
    message: `/etc/machine-id has changed since the key in ${file} was created, so the key may belong to another host: ${advice}`,
  };
}

function readCredential(body: RegisterHostResponse, org: string | undefined): Credential {
  return { id: body.agent_id, apiKey: body.api_key, keyCreatedAt: body.key_created_at, ...(org !== undefined && { org }) };
}
