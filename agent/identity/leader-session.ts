// One session of the Lease holder: the Secret as read under the Lease, and the only way to write it. Invariants: the session writes nothing
// after its term has ended, and never overwrites another agent's write.
import type { ClusterSecret, SecretContent, SecretSnapshot } from "../credentials/cluster-secret.ts";
import type { LeaseTerm } from "./lease.ts";

/** Completed steps of a session; tests kill the process after each of them. */
export type Step =
  | "lease-acquired"
  | "enrolment-announced"
  | "registered"
  | "enrolment-stored"
  | "rotation-announced"
  | "rotated"
  | "rotation-stored"
  | "rotation-abandoned"
  | "restored"
  | "lease-released";

export type OnStep = (step: Step) => void | Promise<void>;

interface Hooks {
  readonly onWrite: (snapshot: SecretSnapshot) => void;
  readonly onStep: OnStep;
}

/** Undefined removes the field. */
type Change = { readonly [Field in keyof SecretContent]?: SecretContent[Field] | undefined };

export class LeaderSession {
  readonly #term: LeaseTerm;
  readonly #secret: ClusterSecret;
  readonly #hooks: Hooks;
  #snapshot: SecretSnapshot;

  constructor(term: LeaseTerm, secret: ClusterSecret, snapshot: SecretSnapshot, hooks: Hooks) {
    this.#term = term;
    this.#secret = secret;
    this.#snapshot = snapshot;
    this.#hooks = hooks;
  }

  /** The Secret as this session last read or wrote it. */
  get content(): SecretContent {
    return this.#snapshot;
  }

  /** Aborts the session's work when its term ends. */
  get signal(): AbortSignal {
    return this.#term.signal;
  }

  /**
   * Writes the Secret with these changes. Throws KubernetesError 409 if another client has written it, LeaseLostError if the term has
   * ended.
   */
  async write(change: Change, step: Step): Promise<void> {
    this.#term.assertHeld();
    this.#snapshot = await this.#secret.write(this.#snapshot, { ...this.#snapshot, ...change }, this.#term.signal);
    this.#hooks.onWrite(this.#snapshot);
    await this.#hooks.onStep(step);
  }

  async step(step: Step): Promise<void> {
    await this.#hooks.onStep(step);
    this.#term.assertHeld();
  }
}
