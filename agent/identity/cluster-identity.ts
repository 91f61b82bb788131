// Manages the cluster's identity in one of its agents: follows the Secret and executes plans (enrol, rotate, restore) under the Lease.
// Invariants: an agent signs only with a key that is in the Secret; only the holder of the Lease registers the cluster or rotates the key; the
// plan is computed from the Secret each time (plan.ts), so any agent completes the work of a killed agent. No failure ends the process:
// without a key, the proxy answers 503 and the collector keeps its queue.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { Loop, pause, retryAfterMs, type Backoff } from "../../common/loop.ts";
import { ClusterSecret, type SecretSnapshot } from "../credentials/cluster-secret.ts";
import { FOLLOW_TIMING, SecretFollower, type FollowTiming, type SecretView } from "../credentials/secret-follower.ts";
import type { Credential } from "../credentials/credential-store.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { ClusterSettings } from "../settings.ts";
import { BackendError } from "../upstream/backend-api.ts";
import { ClusterKnowledge } from "./cluster-knowledge.ts";
import { execute, probe, type ExecutionContext } from "./execute.ts";
import { type AgentIdentity, type AgentIdentityStatus, describeError, ProblemReport } from "./identity.ts";
import { LeaderSession, type OnStep } from "./leader-session.ts";
import { Lease, LEASE_TIMING, LeaseLostError, type LeaseTerm, type LeaseTiming } from "./lease.ts";
import { identityPermissions, PermissionCheck } from "./permissions.ts";
import type { EnrolmentToken } from "../enrolment-token.ts";
import { advice, decidePlan, type Plan } from "./plan.ts";

export interface IdentityTiming {
  readonly lease: LeaseTiming;
  readonly follow: FollowTiming;
  /** Agents that make the same plan at the same time spread their attempts over this period. */
  readonly spreadMs: number;
  readonly backoffMs: Backoff;
  /** How often an agent that needs an install token checks for a new one. */
  readonly tokenEveryMs: number;
}

const IDENTITY_TIMING: IdentityTiming = {
  lease: LEASE_TIMING,
  follow: FOLLOW_TIMING,
  spreadMs: 500,
  backoffMs: [1_000, 30_000],
  tokenEveryMs: 30_000,
};

export interface ClusterIdentityOptions extends Omit<ExecutionContext, "token"> {
  /**
   * Called repeatedly while the identity has a problem that a new token solves: an operator can change the mounted file without a restart
   * of the pod.
   */
  readonly token: () => EnrolmentToken | undefined;
  readonly settings: Pick<ClusterSettings, "clusterName" | "podNamespace" | "podUid" | "secretName" | "leaseName" | "keyRotationDays">;
  readonly log: Logger;
  readonly timing?: IdentityTiming;
  /** Called after each step of a session; tests end the process in it. */
  readonly onStep?: OnStep;
}

/** Reads the Secret once and then follows it; enrolment and rotation run in the background. Never rejects because of an outage. */
export async function startClusterIdentity(options: ClusterIdentityOptions): Promise<ClusterIdentity> {
  const identity = new ClusterIdentity(options);
  await identity.start();
  return identity;
}

/** Problems that a retry may solve; they are reported until then. */
const RETRIED_PROBLEMS = ["failing", "other_installation"];
/** A refused key is checked with the backend at most this often. */
const PROBE_EVERY_MS = 10_000;
/** After 401 responses, the Secret is read again at most this often; the watch reports other changes. */
const REFRESH_EVERY_MS = 1_000;
/** A request waits at most this long for the Secret to be read again. */
const REFRESH_WITHIN_MS = 5_000;
const START_WITHIN_MS = 3_000;

export class ClusterIdentity implements AgentIdentity {
  readonly #options: ClusterIdentityOptions;
  readonly #timing: IdentityTiming;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  readonly #secret: ClusterSecret;
  readonly #follower: SecretFollower;
  readonly #lease: Lease;
  readonly #known = new ClusterKnowledge();
  readonly #problem: ProblemReport;
  #loop: Loop | undefined;
  #permissions: PermissionCheck | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #token: EnrolmentToken | undefined;
  #probedAt = -Infinity;
  #refreshedAt = -Infinity;
  #holdsLease = false;
  /** Failed sessions in a row. */
  #failedSessions = 0;

  constructor(options: ClusterIdentityOptions) {
    const { settings, kubernetes, log } = options;
    this.#options = options;
    this.#timing = options.timing ?? IDENTITY_TIMING;
    this.#log = log;
    this.#problem = new ProblemReport(log, "cluster");
    this.#secret = new ClusterSecret(kubernetes, { namespace: settings.podNamespace, name: settings.secretName });
    this.#follower = new SecretFollower(kubernetes, this.#secret, {
      timing: this.#timing.follow,
      log,
      onChange: (view) => this.#adopt(view),
    });
    this.#lease = new Lease(kubernetes, {
      namespace: settings.podNamespace,
      name: settings.leaseName,
      identity: settings.podUid,
      timing: this.#timing.lease,
      log,
    });
  }

  current(): Credential | undefined {
    return this.#known.credential;
  }

  isKnown(): boolean {
    return this.#known.hasSeenSecret;
  }

  async refresh(reason: string): Promise<Credential | undefined> {
    const before = this.#known.credential;
    if (performance.now() - this.#refreshedAt > REFRESH_EVERY_MS) await this.#reread(reason);
    const after = this.#known.credential;
    if (after && after.apiKey === before?.apiKey) {
      this.#known.suspect(after);
      this.#loop?.wake();
    }
    return after;
  }

  /** A response with a key age also means that the key is accepted. */
  noteKeyAge(credential: Credential, days: number): void {
    if (this.#known.noteKeyAge(credential, days)) this.#loop?.wake();
  }

  status(): AgentIdentityStatus {
    const { credential, keyAgeDays, signs } = this.#known;
    const missing = this.#permissions?.missing;
    return {
      id: credential?.id,
      keyCreatedAt: credential?.keyCreatedAt,
      keyAgeDays,
      holdsLease: this.#holdsLease,
      signs,
      problem: this.#problem.current ?? (missing === undefined ? undefined : { code: "missing_permission", message: missing }),
    };
  }

  async start(): Promise<void> {
    const { signal } = this.#stop;
    const { kubernetes: api, settings } = this.#options;
    const reading = this.#follower.poll(signal).catch((error: unknown) => this.#reportFailure(error));
    // The caller waits for this start before the proxy can respond, with or without a key.
    await Promise.race([reading, sleep(START_WITHIN_MS, undefined, { ref: false })]);
    const failed = (error: unknown): number => {
      this.#reportFailure(error);
      return requestedWaitMs(error);
    };
    this.#loop = new Loop({ signal, step: () => this.#step(), failed, backoffMs: this.#timing.backoffMs });
    this.#permissions = new PermissionCheck({ api, required: identityPermissions(settings), log: this.#log, signal });
    this.#running = Promise.all([this.#follower.run(signal), this.#loop.done, this.#permissions.done]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  // ---- state of the Secret

  #adopt(secret: SecretView): void {
    const isFirst = this.#known.credential === undefined;
    const isNew = this.#known.adopt(secret);
    const now = this.#known.credential;
    if (isNew && now) {
      const message = isFirst ? "using the cluster's key" : "using the cluster's new key";
      this.#log.info({ event: "identity.key_adopted", clusterId: now.id, keyCreatedAt: now.keyCreatedAt }, message);
    }
    this.#loop?.wake();
  }

  async #reread(reason: string): Promise<void> {
    try {
      const bounded = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(REFRESH_WITHIN_MS)]);
      await Promise.race([this.#follower.poll(this.#stop.signal), rejectionOf(bounded)]);
    } catch (error) {
      // The caller continues with the known state, as the contract of CredentialSource requires. The follower logs the outage.
      this.#log.debug({ event: "identity.reread_failed", err: error, reason }, "cannot reread the Secret; keeping the key in memory");
    }
    this.#refreshedAt = performance.now();
  }

  /** After a 401 with the key that is still in the Secret: checks whether the key is the cause. */
  async #verify(): Promise<void> {
    const suspect = this.#known.takeSuspect();
    if (!suspect || performance.now() - this.#probedAt < PROBE_EVERY_MS) return;
    this.#probedAt = performance.now();
    try {
      this.#known.noteRefusal(await probe(suspect, this.#options.backend, this.#stop.signal));
    } catch (error) {
      // Only a refusal of the key matters here, and the next 401 triggers another check.
      this.#log.debug({ event: "identity.key_check_failed", err: error }, "cannot check the key with the backend");
    }
  }

  // ---- execution of plans

  /** Returns how long to wait; undefined: until woken, if only the operator or a change of the Secret can help. */
  async #step(): Promise<number | undefined> {
    try {
      await this.#verify();
      if (!this.#known.hasSeenSecret) await this.#follower.poll(this.#stop.signal);
      this.#token = this.#options.token();
      const plan = this.#plan();
      this.#report(plan);
      if (plan.kind === "none") return plan.againInMs ?? (plan.problem && this.#timing.tokenEveryMs);
      if (plan.kind === "create") return await this.#createSecret();
      return await this.#tryToLead();
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      this.#log.debug({ event: "identity.overtaken", err: error }, "another agent changed the Secret or Lease first, reading them again");
      return this.#timing.backoffMs[0] * (0.125 + Math.random() / 4);
    }
  }

  /** The next plan writes the key into it: the one in memory, or that of a new enrolment. */
  async #createSecret(): Promise<number> {
    await this.#secret.create(this.#stop.signal);
    const { namespace, name } = this.#secret.objectName;
    this.#log.info({ event: "identity.secret_created", namespace, name }, "created the cluster's Secret, which was missing");
    await this.#follower.poll(this.#stop.signal);
    return 0;
  }

  #plan(): Plan {
    return decidePlan(this.#known.situation(this.#token, this.#options.settings.keyRotationDays));
  }

  /** Tries once to acquire the Lease and execute the plan. Returns how long to wait, which is longer if another agent holds the Lease. */
  async #tryToLead(): Promise<number> {
    await sleep(Math.random() * this.#timing.spreadMs, undefined, { signal: this.#stop.signal });
    const term = await this.#lease.tryAcquire(this.#stop.signal);
    if (!term) return this.#timing.lease.durationMs * (1.05 + Math.random() * 0.25);
    try {
      await using activeTerm = term;
      this.#holdsLease = true;
      await this.#lead(activeTerm).catch((error: unknown) => this.#failedInSession(activeTerm.signal, error));
    } finally {
      this.#holdsLease = false;
    }
    await this.#options.onStep?.("lease-released");
    return 0;
  }

  async #lead(term: LeaseTerm): Promise<void> {
    const onStep: OnStep = this.#options.onStep ?? (() => undefined);
    await onStep("lease-acquired");
    const snapshot = await this.#secret.read(term.signal);
    this.#follower.apply(snapshot);
    const plan = this.#plan();
    if (!snapshot || plan.kind === "none" || plan.kind === "create") return;
    const onWrite = (written: SecretSnapshot): void => this.#follower.apply(written);
    this.#log.info({ event: "identity.acting", plan: plan.kind, ...("why" in plan && { why: plan.why }) }, "acting for the cluster");
    const session = new LeaderSession(term, this.#secret, snapshot, { onWrite, onStep });
    this.#known.noteRefusal(await execute(plan, session, { ...this.#options, token: this.#token }));
    this.#failedSessions = 0;
  }

  /**
   * Keeps the Lease during the pause before the next attempt, so that only one agent of the cluster calls the backend at a time.
   */
  async #failedInSession(term: AbortSignal, error: unknown): Promise<void> {
    if (term.aborted || isOvertaken(error)) throw error;
    this.#failedSessions += 1;
    this.#reportFailure(error);
    await pause(retryAfterMs(this.#failedSessions, requestedWaitMs(error), this.#timing.backoffMs), term);
  }

  // ---- reporting

  /** Logs once that there is a problem that only the operator can solve, and once that it is solved. */
  #report(plan: Plan): void {
    const code = plan.kind === "none" ? plan.problem : undefined;
    const { namespace, name } = this.#secret.objectName;
    if (code !== undefined) this.#problem.report({ code, message: advice(code, `${namespace}/${name}`) });
    else if (plan.kind === "none" || !RETRIED_PROBLEMS.includes(this.#problem.current?.code ?? "")) this.#problem.report(undefined);
  }

  /** Logs a failure that a retry may fix. */
  #reportFailure(error: unknown): void {
    if (this.#stop.signal.aborted || isOvertaken(error)) return;
    const code = error instanceof BackendError && error.code === "cluster_in_use" ? "other_installation" : "failing";
    this.#problem.report({ code, message: describeError(error) });
  }
}

function requestedWaitMs(error: unknown): number {
  return error instanceof BackendError ? (error.retryAfterS ?? 0) * 1000 : 0;
}

/** True if another agent acted first, which is not an error. */
function isOvertaken(error: unknown): boolean {
  return error instanceof LeaseLostError || (error instanceof KubernetesError && error.status === 409);
}

/** Rejects when `signal` aborts. */
function rejectionOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error);
    else signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}
