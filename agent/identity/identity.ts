// The identity of an agent as the rest of the program sees it (implementations: host-identity.ts, cluster-identity.ts), its names, and the
// problem that keeps it from working. Invariants: secrets are reached only through CredentialSource; a problem is logged once each time
// that it occurs; the same Secret means the same installation, whatever the Helm release is called.
import type { Credential, CredentialSource } from "../credentials/store.ts";
import type { ClusterSettings } from "../settings.ts";
import { readFileSync } from "node:fs";
import type { Logger } from "pino";
import { Outage } from "../../common/outage.ts";
import { BackendError } from "../upstream/backend-api.ts";

export interface AgentIdentity extends CredentialSource, AsyncDisposable {
  status(): AgentIdentityStatus;
  /** False while the credential's store could not be read even once: then `current` says nothing. */
  isKnown(): boolean;
  noteKeyAge(credential: Credential, days: number): void;
}

export interface AgentIdentityStatus {
  readonly id: string | undefined;
  readonly keyCreatedAt: string | undefined;
  readonly keyAgeDays: number | undefined;
  /** Cluster only. */
  readonly holdsLease?: boolean;
  /** There is a key, and as far as is known the backend takes it: telemetry can be signed, whatever `problem` there is besides. */
  readonly signs: boolean;
  /** What keeps the identity from working, or from being looked after, and what to do about it; undefined when all is well. */
  readonly problem: { readonly code: string; readonly message: string } | undefined;
}

/** `<namespace>/<Secret>`. */
export function installationOf({ podNamespace, secretName }: Pick<ClusterSettings, "podNamespace" | "secretName">): string {
  return `${podNamespace}/${secretName}`;
}

/** Undefined if the system has none. */
export function readMachineId(): string | undefined {
  try {
    return readFileSync("/etc/machine-id", "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

export type Problem = NonNullable<AgentIdentityStatus["problem"]>;

/** The present problem of an identity is its `cause`. */
export class ProblemReport {
  readonly #outage: Outage<Problem>;

  constructor(log: Logger, whose: "host" | "cluster") {
    this.#outage = new Outage({
      began: ({ code, message }) => log.error({ event: "identity.problem", problem: code }, message),
      ended: (_facts, { code }) => log.info({ event: "identity.recovered", was: code }, `the ${whose}'s identity has recovered`),
    });
  }

  get current(): Problem | undefined {
    return this.#outage.cause;
  }

  /** Undefined: there is none any more. */
  report(problem: Problem | undefined): void {
    if (problem) this.#outage.failed(problem, problem.message);
    else this.#outage.recovered();
  }
}

/** What the Kubernetes API or the backend answered says so itself; a connection that there is none of is the API's. */
export function problemWords(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const isConnection = !(error instanceof BackendError) && /^(E[A-Z]+|UND_ERR_\w+)$/.test(String(code)) && code !== "ENOENT";
  const text = String(message || code || error);
  return isConnection ? `the Kubernetes API does not answer: ${text}` : text;
}
