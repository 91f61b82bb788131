// Interfaces for an agent's identity and its store. Invariant: the raw key exists only in a store and in memory, and is never logged.
// Implementations: file.ts (host agent), cluster-secret.ts (cluster agent). The proxy and the backend API client only use CredentialSource.

/** An identity that can sign: `id` is the cluster_id or agent_id, `keyCreatedAt` is RFC 3339. */
export interface Credential {
  readonly id: string;
  readonly apiKey: string;
  readonly keyCreatedAt: string;
  /** Id of the organisation, if the backend returned it. */
  readonly org?: string;
}

export interface CredentialSource {
  /** The current credential, from memory; undefined until enrolled. */
  current(): Credential | undefined;
  /** Reads the store again (after a 401) and returns the credential. Never throws: if that fails, it logs and returns the known one. */
  refresh(reason: string): Promise<Credential | undefined>;
  /** Receives `X-Key-Age-Days` of each response that accepted the key of `credential`. */
  noteKeyAge?(credential: Credential, days: number): void;
}
