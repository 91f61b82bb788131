// The life of the cluster's one identity in one of its N agents: read it, follow it, and, when there is something to do, do it under
// the Lease. Invariants: an agent signs only with a key that is in the Secret; only the holder of the Lease calls register or
// rotate-key; what to do is decided anew from the Secret each time (plan.ts), so any agent finishes what a dead one began. Nothing
// here ends the process: without a key the proxy answers 503 and the collector keeps its queue. Started by main.ts; its
// CredentialSource is what the proxy and the backend client sign with.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { ClusterSecret, rotationWaitMs, tokenHash, type SecretSnapshot } from "../credentials/cluster-secret.ts";
import { FOLLOW_TIMING, SecretFollower, type FollowTiming, type SecretView } from "../credentials/secret-follower.ts";
import type { Credential } from "../credentials/store.ts";
import { KubernetesError } from "../kubernetes/api.ts";
import { keyHash } from "../protocol/signature.ts";
import type { ClusterSettings } from "../settings.ts";
import { BackendError } from "../upstream/backend-api.ts";
import { advice, decideDuty, type Duty, type Situation } from "./plan.ts";
import type { AgentIdentity, AgentIdentityStatus } from "./identity.ts";
import { Lease, LEASE_TIMING, LeaseLostError, type LeaseTerm, type LeaseTiming } from "./lease.ts";
import { grantingRule, identityPermissions, missingPermissions } from "./permissions.ts";
import { perform, probe, type Finding, type Means } from "./execute.ts";
import { Turn, type OnStep } from "./leader-session.ts";

export interface IdentityTiming {
  readonly lease: LeaseTiming;
  readonly follow: FollowTiming;
  /** Agents that see the same duty at the same time spread over this long. */
  readonly spreadMs: number;
  /** Between attempts that failed, doubling from the first to the second. */
  readonly backoffMs: readonly [number, number];
  /** How often an agent that needs an install token looks for a new one. */
  readonly tokenEveryMs: number;
}

export const IDENTITY_TIMING: IdentityTiming = {
  lease: LEASE_TIMING,
  follow: FOLLOW_TIMING,
  spreadMs: 500,
  backoffMs: [1_000, 30_000],
  tokenEveryMs: 30_000,
};

export interface ClusterIdentityOptions extends Omit<Means, "installToken"> {
  /** Asked again while the identity has a problem that a new token solves: an operator changes the mounted file, and no pod restarts. */
  readonly installToken: () => string | undefined;
  readonly settings: Pick<ClusterSettings, "clusterName" | "podNamespace" | "podUid" | "secretName" | "leaseName" | "keyRotationDays">;
  readonly log: Logger;
  readonly timing?: IdentityTiming;
  /** Called after each step of a turn; tests end the process in it. */
  readonly onStep?: OnStep;
}

/** Reads the Secret once and follows it from then on; enrolment and rotation go on in the background. Never rejects for an outage. */
export async function startClusterIdentity(options: ClusterIdentityOptions): Promise<ClusterIdentity> {
  const identity = new ClusterIdentity(options);
  await identity.start();
  return identity;
}

/** Problems that trying again may cure: they last until it did. */
const PASSING = ["failing", "other_installation"];
/** A refused key is asked about at most this often. */
const PROBE_EVERY_MS = 10_000;
/** A storm of 401s re-reads the Secret at most this often; a change in between arrives by the watch. */
const REFRESH_EVERY_MS = 1_000;
/** A request that waits for a re-read is not kept longer than this. */
const REFRESH_WITHIN_MS = 5_000;
const PERMISSIONS_EVERY_MS = 60_000;
const START_WITHIN_MS = 3_000;

export class ClusterIdentity implements AgentIdentity {
  readonly #options: ClusterIdentityOptions;
  readonly #timing: IdentityTiming;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  readonly #secret: ClusterSecret;
  readonly #follower: SecretFollower;
  readonly #lease: Lease;
  readonly #refusedTokens = new Set<string>();
  #running: Promise<unknown> = Promise.resolve();
  #installToken: string | undefined;
  #woken = Promise.withResolvers<void>();
  #view: { secret: SecretView } | undefined;
  #credential: Credential | undefined;
  #credentialToken: string | undefined;
  #keyAge: Situation["keyAge"];
  #suspectKey: string | undefined;
  #refusedKey: string | undefined;
  #probedAt = -Infinity;
  #refreshedAt = -Infinity;
  #holdsLease = false;
  #missing: string | undefined;
  #problem: AgentIdentityStatus["problem"];
  #failures = 0;

  constructor(options: ClusterIdentityOptions) {
    const { settings, kubernetes, log } = options;
    this.#options = options;
    this.#timing = options.timing ?? IDENTITY_TIMING;
    this.#log = log;
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
    return this.#credential;
  }

  isKnown(): boolean {
    return this.#view !== undefined;
  }

  async refresh(reason: string): Promise<Credential | undefined> {
    const before = this.#credential;
    if (performance.now() - this.#refreshedAt > REFRESH_EVERY_MS) await this.#reread(reason);
    const after = this.#credential;
    if (after && after.apiKey === before?.apiKey) {
      this.#suspectKey = keyHash(after.apiKey);
      this.#wake();
    }
    return after;
  }

  /** Such an answer also says that the key is accepted. */
  noteKeyAge(credential: Credential, days: number): void {
    const hash = keyHash(credential.apiKey);
    if (hash === this.#refusedKey) this.#refusedKey = undefined;
    const news = this.#keyAge?.keyHash !== hash || this.#keyAge.days !== days;
    this.#keyAge = { keyHash: hash, days };
    if (news) this.#wake();
  }

  status(): AgentIdentityStatus {
    const credential = this.#credential;
    const ageIsKnown = credential && this.#keyAge?.keyHash === keyHash(credential.apiKey);
    return {
      id: credential?.id,
      keyCreatedAt: credential?.keyCreatedAt,
      keyAgeDays: ageIsKnown ? this.#keyAge?.days : undefined,
      holdsLease: this.#holdsLease,
      signs: credential !== undefined && keyHash(credential.apiKey) !== this.#refusedKey,
      problem: this.#problem ?? (this.#missing === undefined ? undefined : { code: "missing_permission", message: this.#missing }),
    };
  }

  async start(): Promise<void> {
    const reading = this.#follower.poll(this.#stop.signal).catch((error: unknown) => this.#failed(error));
    // Whoever waits for a start waits for a proxy that answers, key or no key.
    await Promise.race([reading, sleep(START_WITHIN_MS, undefined, { ref: false })]);
    this.#running = Promise.all([this.#follower.run(this.#stop.signal), this.#work(), this.#watchPermissions()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  // ---- knowing

  #adopt(secret: SecretView): void {
    const before = this.#credential;
    this.#view = { secret };
    if (secret?.credential) {
      this.#credential = secret.credential;
      this.#credentialToken = secret.usedTokenHash;
    }
    const now = this.#credential;
    if (now && now.apiKey !== before?.apiKey) {
      const story = before ? "signing with the cluster's new key from now on" : "the cluster's key is here";
      this.#log.info({ clusterId: now.id, keyCreatedAt: now.keyCreatedAt }, story);
    }
    this.#wake();
  }

  async #reread(reason: string): Promise<void> {
    try {
      const bounded = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(REFRESH_WITHIN_MS)]);
      await Promise.race([this.#follower.poll(this.#stop.signal), rejectionOf(bounded)]);
    } catch (error) {
      // Safe: the caller goes on with what is known, which the contract of CredentialSource asks for. The follower tells the outage.
      this.#log.debug({ err: error, reason }, "cannot re-read the Secret; keeping the key that is known");
    }
    this.#refreshedAt = performance.now();
  }

  async #checkPermissions(): Promise<void> {
    try {
      const missing = await missingPermissions(this.#options.kubernetes, identityPermissions(this.#options.settings), this.#stop.signal);
      const rules = missing.map((permission) => grantingRule(permission));
      const message = rules.length > 0 ? `the service account lacks permissions; grant:\n${rules.join("\n")}` : undefined;
      if (message !== undefined && message !== this.#missing)
        this.#log.error({ missing: rules }, "the service account lacks permissions; grant these");
      if (message === undefined && this.#missing !== undefined) this.#log.info("the service account has all permissions now");
      this.#missing = message;
    } catch (error) {
      // Safe: a permission that is indeed missing shows again when it is needed.
      if (!this.#stop.signal.aborted) this.#log.warn({ err: error }, "cannot check the service account's permissions");
    }
  }

  async #watchPermissions(): Promise<void> {
    await this.#checkPermissions();
    while (!this.#stop.signal.aborted) {
      await sleep(PERMISSIONS_EVERY_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
      if (this.#missing !== undefined) await this.#checkPermissions();
    }
  }

  // ---- doing

  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#woken = Promise.withResolvers<void>();
      try {
        await this.#verify();
        if (!this.#view) await this.#follower.poll(this.#stop.signal);
        this.#installToken = this.#options.installToken();
        const duty = this.#decide();
        this.#report(duty);
        if (duty.kind === "none") await this.#pause(duty.againInMs ?? (duty.problem && this.#timing.tokenEveryMs));
        else await this.#campaign();
      } catch (error) {
        this.#failed(error);
        await this.#pause(this.#retryAfterMs(error));
      }
    }
  }

  #decide(): Duty {
    return decideDuty({
      secret: this.#view?.secret,
      remembered: this.#credential,
      ownTokenHash: this.#installToken === undefined ? undefined : tokenHash(this.#installToken),
      rememberedTokenHash: this.#credentialToken,
      refusedTokens: this.#refusedTokens,
      refusedKey: this.#refusedKey,
      keyAge: this.#keyAge,
      keyRotationDays: this.#options.settings.keyRotationDays,
      rotationWaitMs: this.#view?.secret ? rotationWaitMs(this.#view.secret) : 0,
    });
  }

  /** One attempt to take the Lease and do what is to be done; waits when another agent has it. */
  async #campaign(): Promise<void> {
    await sleep(Math.random() * this.#timing.spreadMs, undefined, { signal: this.#stop.signal });
    const term = await this.#lease.tryAcquire(this.#stop.signal);
    if (!term) {
      await this.#pause(this.#timing.lease.durationMs * (1.05 + Math.random() * 0.25));
      return;
    }
    try {
      await using held = term;
      this.#holdsLease = true;
      await this.#takeTurn(held).catch((error: unknown) => this.#failedInTurn(held.signal, error));
    } finally {
      this.#holdsLease = false;
    }
    await this.#options.onStep?.("lease-released");
  }

  async #takeTurn(term: LeaseTerm): Promise<void> {
    const onStep: OnStep = this.#options.onStep ?? (() => undefined);
    await onStep("lease-acquired");
    const snapshot = await this.#secret.read(term.signal);
    this.#follower.apply(snapshot);
    const duty = this.#decide();
    if (!snapshot || duty.kind === "none") return;
    const onWrite = (written: SecretSnapshot): void => this.#follower.apply(written);
    this.#log.info({ duty: duty.kind, ...("why" in duty && { why: duty.why }) }, "acting for the cluster");
    const turn = new Turn(term, this.#secret, snapshot, { onWrite, onStep });
    this.#learn(await perform(duty, turn, { ...this.#options, installToken: this.#installToken }));
    this.#failures = 0;
  }

  /** After a 401 with a key that is still the one in the Secret: is it the key, or something else? */
  async #verify(): Promise<void> {
    const credential = this.#credential;
    const suspect = this.#suspectKey;
    this.#suspectKey = undefined;
    if (!credential || suspect !== keyHash(credential.apiKey) || suspect === this.#refusedKey) return;
    if (performance.now() - this.#probedAt < PROBE_EVERY_MS) return;
    this.#probedAt = performance.now();
    try {
      this.#learn(await probe(credential, this.#options.backend, this.#stop.signal));
    } catch (error) {
      // Safe: only a refusal of the key matters here, and the next 401 asks again.
      this.#log.debug({ err: error }, "cannot ask the backend about the key");
    }
  }

  #learn(finding: Finding): void {
    if (!finding) return;
    if ("refusedToken" in finding) this.#refusedTokens.add(finding.refusedToken);
    else this.#refusedKey = finding.refusedKey;
  }

  // ---- telling

  /** Says once what only the operator can put right, and once that it is. */
  #report(duty: Duty): void {
    const code = duty.kind === "none" ? duty.problem : undefined;
    if (code !== undefined) this.#tell({ code, message: advice(code, `${this.#secret.namespace}/${this.#secret.name}`) });
    else if (duty.kind === "none" || !PASSING.includes(this.#problem?.code ?? "")) this.#tell(undefined);
  }

  #tell(problem: AgentIdentityStatus["problem"]): void {
    const before = this.#problem;
    this.#problem = problem;
    if (problem && problem.message !== before?.message) this.#log.error({ problem: problem.code }, problem.message);
    if (!problem && before) this.#log.info({ was: before.code }, "the cluster's identity is in order again");
  }

  /** Notes a failure that trying again may cure; the same one is told once. */
  #failed(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    if (isOvertaken(error)) {
      this.#log.debug({ err: error }, "overtaken by another agent; looking again");
      return;
    }
    this.#failures += 1;
    const code = error instanceof BackendError && error.code === "cluster_in_use" ? "other_installation" : "failing";
    this.#tell({ code, message: wordsOf(error) });
  }

  /** Keeps the Lease for the pause before the next attempt: of a thousand agents one asks at a time, at the pace of one. */
  async #failedInTurn(held: AbortSignal, error: unknown): Promise<void> {
    if (held.aborted || isOvertaken(error)) throw error;
    this.#failed(error);
    await sleep(this.#retryAfterMs(error), undefined, { signal: held }).catch(() => undefined);
  }

  #retryAfterMs(error: unknown): number {
    const [firstMs, mostMs] = this.#timing.backoffMs;
    const ms = isOvertaken(error) ? firstMs / 4 : Math.min(firstMs * 2 ** (this.#failures - 1), mostMs);
    const wantedMs = error instanceof BackendError ? (error.retryAfterS ?? 0) * 1000 : 0;
    return Math.max(ms * (0.5 + Math.random()), Math.min(wantedMs, mostMs));
  }

  // ---- waiting

  #wake(): void {
    this.#woken.resolve();
  }

  /** Until woken, at most `ms` (undefined: for ever), or until the end. */
  async #pause(ms: number | undefined): Promise<void> {
    const done = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, done.signal]);
    const timer = ms === undefined ? rejectionOf(signal) : sleep(ms, undefined, { signal });
    await Promise.race([this.#woken.promise, timer]).catch(() => undefined);
    done.abort();
  }
}

/** Another agent was quicker: nothing is wrong. */
/** What the Kubernetes API or the backend answered says so itself; a connection that there is none of is the API's. */
function wordsOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const isConnection = !(error instanceof BackendError) && /^(E[A-Z]+|UND_ERR_\w+)$/.test(String(code)) && code !== "ENOENT";
  const text = String(message || code || error);
  return isConnection ? `the Kubernetes API does not answer: ${text}` : text;
}

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
