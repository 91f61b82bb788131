// What the rest of the agent needs of an identity, whichever kind it is. Implementations: host-identity.ts, cluster-identity.ts.
// Invariant: it holds no secret but through CredentialSource.
import type { Credential, CredentialSource } from "../credentials/store.ts";

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
