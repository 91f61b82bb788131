// Defines an agent's identity as the rest of the program sees it (implementations: host-identity.ts, cluster-identity.ts), its names, and
// its current problem. Invariants: secrets are accessible only through CredentialSource; a problem is logged once per occurrence; an
// installation is identified by its Secret, whatever the Helm release is called.
import type { Credential, CredentialSource } from "../credentials/credential-store.ts";
import type { ClusterSettings } from "../settings.ts";
import { readFileSync } from "node:fs";
import type { Logger } from "pino";
import { Outage } from "../../common/outage.ts";
import { BackendError } from "../upstream/backend-api.ts";

export interface AgentIdentity extends CredentialSource, AsyncDisposable {
  status(): AgentIdentityStatus;
  /** False until the credential's store was read for the first time; `current` is then meaningless. */
  isKnown(): boolean;
  noteKeyAge(credential: Credential, days: number): void;
}

export interface AgentIdentityStatus {
  readonly id: string | undefined;
  readonly keyCreatedAt: string | undefined;
  readonly keyAgeDays: number | undefined;
  /** Cluster only. */
  readonly holdsLease?: boolean;
  /** True if there is a key that the backend, as far as is known, accepts: telemetry can be signed, even if there is a `problem`. */
  readonly signs: boolean;
  /** The identity's current problem and what to do about it; undefined if there is none. */
  readonly problem: { readonly code: string; readonly message: string } | undefined;
}

/** `<namespace>/<Secret>`. */
export function installationOf({ podNamespace, secretName }: Pick<ClusterSettings, "podNamespace" | "secretName">): string {
  return `${podNamespace}/${secretName}`;
}

/** Undefined if the system has none: images have an empty file, or the word `uninitialized`, until a machine is started from them. */
export function readMachineId(file = "/etc/machine-id"): string | undefined {
  try {
    const id = readFileSync(file, "utf8").trim();
    return /^(uninitialized|0*)$/.test(id) ? undefined : id;
  } catch {
    return undefined;
  }
}

export type Problem = NonNullable<AgentIdentityStatus["problem"]>;

/** Reports the current problem of an identity, which is the `cause` of its outage. */
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

  /** Undefined: the problem is solved. */
  report(problem: Problem | undefined): void {
    if (problem) this.#outage.failed(problem, problem.message);
    else this.#outage.recovered();
  }
}

/** Errors from the Kubernetes API or the backend name their source; connection errors are attributed to the API. */
export function describeError(error: unknown): string {
  const { code, message, path } = error as { code?: unknown; message?: unknown; path?: unknown };
  // An error of a file, such as the token of the service account, has a path.
  const isConnection = !(error instanceof BackendError) && /^(E[A-Z]+|UND_ERR_\w+)$/.test(String(code)) && path === undefined;
  const text = String(message || code || error);
  return isConnection ? `the Kubernetes API does not respond: ${text}` : text;
}
