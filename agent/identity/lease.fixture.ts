// An API server in memory with one Lease: it handles versions and conflicts like the real one, and requests fail on demand.
import { type Lease, KubernetesError } from "../kubernetes/transport.ts";
import type { LeaseApi } from "./lease.ts";

export class LeaseInMemory implements LeaseApi {
  lease: Lease = { metadata: { resourceVersion: "1" } };
  isMissing = false;
  /** Writes of this holder never get a response. */
  hangs: string | undefined;
  /** Number of writes that are refused as if another client had been faster. */
  conflicts = 0;
  refusal: Error | undefined;
  reads = 0;
  writes = 0;

  readLease(): Promise<Lease> {
    this.reads++;
    if (this.refusal) return Promise.reject(this.refusal);
    return this.isMissing ? Promise.reject(new KubernetesError(404, "NotFound", "there is none")) : Promise.resolve(this.lease);
  }

  async createLease(lease: Lease): Promise<Lease> {
    this.writes++;
    if (!this.isMissing) throw new KubernetesError(409, "AlreadyExists", "there is one");
    this.isMissing = false;
    this.lease = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(Number(this.lease.metadata?.resourceVersion) + 1) } };
    return this.lease;
  }

  async replaceLease(_where: unknown, lease: Lease, signal: AbortSignal): Promise<Lease> {
    this.writes++;
    if (this.refusal) throw this.refusal;
    if (this.hangs !== undefined && lease.spec?.holderIdentity === this.hangs) await endOf(signal);
    const isOld = lease.metadata?.resourceVersion !== this.lease.metadata?.resourceVersion;
    if (isOld || this.conflicts-- > 0) throw new KubernetesError(409, "Conflict", "it has changed");
    this.conflicts = 0;
    this.lease = { ...lease, metadata: { ...lease.metadata, resourceVersion: String(Number(lease.metadata?.resourceVersion) + 1) } };
    return this.lease;
  }
}

function endOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }));
}
