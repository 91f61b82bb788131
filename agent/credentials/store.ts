// What an agent knows of its identity, and where it keeps it. Invariant: the raw key is only in a store and in memory; it is
// never logged. Implementations: file.ts (host agent), cluster-secret.ts (cluster agent). The proxy and the backend API client
// only see CredentialSource.

/** An identity that may sign: `id` is the cluster_id or agent_id, `keyCreatedAt` RFC 3339. */
export interface Credential {
  readonly id: string;
  readonly apiKey: string;
  readonly keyCreatedAt: string;
  /** Id of the organisation, where the backend said it. */
  readonly org?: string;
}

export interface CredentialSource {
  /** The credential in force, from memory; undefined until enrolled. */
  current(): Credential | undefined;
  /** Re-reads the store now (after a 401) and answers what is in force then. Never throws: a failed read is logged and keeps what was known. */
  refresh(reason: string): Promise<Credential | undefined>;
  /** Receives `X-Key-Age-Days` of each answer that accepts the key of a request that `credential` signed. */
  noteKeyAge?(credential: Credential, days: number): void;
}
