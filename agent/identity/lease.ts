// Elects a leader among the cluster's agents with a Lease, which an agent acquires only while it has work to do and then releases. A term
// is the period in which an agent holds the Lease. Invariant: a term ends (its signal aborts) before any other agent can acquire the Lease,
// even if the nodes' clocks differ or this process was suspended. As in client-go, an agent considers a Lease expired if it has not
// observed a change for the Lease's duration.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { type Lease as LeaseObject, KubernetesError } from "../kubernetes/transport.ts";
import { V1MicroTime } from "@kubernetes/client-node/dist/types.js";
import type { KubernetesApi, ObjectName } from "../kubernetes/api.ts";

export interface LeaseTiming {
  /** Other agents acquire the Lease if it has not changed for this long. Whole seconds, because the API stores seconds. */
  readonly durationMs: number;
  /** The holder stops acting this long after the start of its last successful renewal. Below `durationMs`. */
  readonly renewDeadlineMs: number;
  readonly renewEveryMs: number;
}

/** client-go's defaults. */
export const LEASE_TIMING: LeaseTiming = { durationMs: 15_000, renewDeadlineMs: 10_000, renewEveryMs: 2_000 };

/** Annotations of the Lease, for data other than its holder. */
export type Annotations = Readonly<Record<string, string>>;

/** Returns annotations to write, from the current ones; called before each write of the holder. Omitted keys stay unchanged. */
type Annotate = (current: Annotations) => Annotations;

/** The Lease as last seen by an agent that does not hold it. */
export interface LeaseView {
  readonly annotations: Annotations;
  /** Time until the Lease can be acquired if it does not change. */
  readonly freeInMs: number;
  /** When the holder last renewed it, by the holder's clock: only a hint. */
  readonly renewedAt: Date | undefined;
}

/**
 * A term: the period from acquiring the Lease until releasing or losing it, in which this agent may act. Disposing it releases the Lease.
 */
export interface LeaseTerm extends AsyncDisposable {
  /** Annotations as the previous holder left them. */
  readonly found: Annotations;
  /** Aborts when the term ends: released, taken by another agent, or not renewed in time. */
  readonly signal: AbortSignal;
  /** Throws if the term has expired by the monotonic clock: timers run late after the process was suspended. */
  assertHeld(): void;
}

/** Name of the Lease for cluster-wide collection. It is separate from the Lease for the key, which agents hold only briefly. */
export function collectionLease(leaseName: string): string {
  return `${leaseName}-collection`;
}

/** A failed renewal is retried before the next one is due: a broken connection costs one attempt, not the term. */
const RETRIES_PER_RENEWAL = 4;

/** The API rejects a higher number, so without this limit, a Lease that has reached it could not be acquired. */
const MAX_TRANSITIONS = 2 ** 31 - 1;

/** The Lease during a term. */
interface HeldLease {
  lease: LeaseObject;
  /** Monotonic. */
  deadline: number;
  readonly annotate: Annotate;
}

/** The calls of the API server that a Lease needs. */
export type LeaseApi = Pick<KubernetesApi, "readLease" | "replaceLease" | "createLease">;

/** Holds a Lease that was missing, until it expires. */
const UNKNOWN_HOLDER = "unknown-before-creation";

export class LeaseLostError extends Error {
  constructor(why: string) {
    super(`lease lost: ${why}`);
    this.name = "LeaseLostError";
  }
}

export class Lease {
  readonly #api: LeaseApi;
  readonly #objectName: ObjectName;
  readonly #identity: string;
  readonly #timing: LeaseTiming;
  readonly #log: Logger;
  /** The spec of the Lease when it was last seen to change, and when that was (monotonic). */
  #observed: { spec: string; at: number } | undefined;
  #view: LeaseView | undefined;

  /** `identity` is unique to the pod: a restarted container of the same pod can reacquire its own Lease immediately. */
  constructor(api: LeaseApi, options: { namespace: string; name: string; identity: string; timing?: LeaseTiming; log: Logger }) {
    this.#api = api;
    this.#objectName = { namespace: options.namespace, name: options.name };
    this.#identity = options.identity;
    this.#timing = options.timing ?? LEASE_TIMING;
    this.#log = options.log;
  }

  /**
   * One attempt. Undefined if another agent holds the Lease or was faster; KubernetesError if the API refuses. `annotate` is called before
   * this write and before every renewal of the term.
   */
  async tryAcquire(signal: AbortSignal, annotate: Annotate = () => ({})): Promise<LeaseTerm | undefined> {
    const found = await this.#readOrCreate(signal);
    if (!this.#mayAcquire(found)) return undefined;
    const startedAt = performance.now();
    const written = await this.#write(withAnnotations(found, annotate), { ...found.spec, ...this.#heldSpec(found) }, signal);
    return written && this.#startTerm(written, { annotate, found: found.metadata?.annotations ?? {}, startedAt, signal });
  }

  /** The Lease as the last attempt found it; undefined unless another agent held it. */
  get view(): LeaseView | undefined {
    return this.#view;
  }

  /** Writes only annotations, regardless of the holder. Resolves to false if another client wrote first. */
  async annotate(annotate: Annotate, signal: AbortSignal): Promise<boolean> {
    const found = await this.#readOrCreate(signal);
    return (await this.#write(withAnnotations(found, annotate), found.spec, signal)) !== undefined;
  }

  /**
   * Argo CD does not apply Leases, and an operator may delete one. An agent may still hold a deleted Lease, so the new one can be acquired
   * only after its duration.
   */
  async #readOrCreate(signal: AbortSignal): Promise<LeaseObject> {
    try {
      return await this.#api.readLease(this.#objectName, signal);
    } catch (error) {
      if (!(error instanceof KubernetesError && error.status === 404)) throw error;
    }
    try {
      const spec = { ...this.#heldSpec({}), holderIdentity: UNKNOWN_HOLDER };
      return await this.#api.createLease({ metadata: { ...this.#objectName }, spec }, signal);
    } catch (error) {
      if (!(error instanceof KubernetesError && error.status === 409)) throw error;
      return await this.#api.readLease(this.#objectName, signal);
    }
  }

  #mayAcquire(found: LeaseObject): boolean {
    const holder = found.spec?.holderIdentity;
    if (!holder || holder === this.#identity) return true;
    const spec = JSON.stringify(found.spec);
    if (this.#observed?.spec !== spec) this.#observed = { spec, at: performance.now() };
    const declaredMs = (found.spec?.leaseDurationSeconds ?? 0) * 1000;
    const freeInMs = this.#observed.at + Math.max(declaredMs, this.#timing.durationMs) - performance.now();
    this.#view = { annotations: found.metadata?.annotations ?? {}, freeInMs: Math.max(0, freeInMs), renewedAt: found.spec?.renewTime };
    return freeInMs < 0;
  }

  #heldSpec(found: LeaseObject): LeaseObject["spec"] {
    const now = new V1MicroTime();
    const isHolder = found.spec?.holderIdentity === this.#identity;
    return {
      holderIdentity: this.#identity,
      leaseDurationSeconds: Math.ceil(this.#timing.durationMs / 1000),
      acquireTime: isHolder ? (found.spec?.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: Math.min((found.spec?.leaseTransitions ?? 0) + (isHolder ? 0 : 1), MAX_TRANSITIONS),
    };
  }

  /** The Lease as written; undefined if it had changed since `base` was read. */
  async #write(base: LeaseObject, spec: LeaseObject["spec"], signal: AbortSignal): Promise<LeaseObject | undefined> {
    try {
      return await this.#api.replaceLease(this.#objectName, { ...base, spec }, signal);
    } catch (error) {
      if (error instanceof KubernetesError && error.status === 409) return undefined;
      throw error;
    }
  }

  #startTerm(
    lease: LeaseObject,
    { annotate, found, startedAt, signal }: { annotate: Annotate; found: Annotations; startedAt: number; signal: AbortSignal },
  ): LeaseTerm {
    const termEnd = new AbortController();
    const ended = AbortSignal.any([signal, termEnd.signal]);
    const held: HeldLease = { lease, deadline: startedAt + this.#timing.renewDeadlineMs, annotate };
    const renewing = this.#renew(held, ended).catch((error: unknown) => {
      if (!ended.aborted) termEnd.abort(error);
    });
    return {
      found,
      signal: ended,
      assertHeld: () => {
        if (performance.now() > held.deadline) termEnd.abort(new LeaseLostError("not renewed in time"));
        ended.throwIfAborted();
      },
      [Symbol.asyncDispose]: async () => {
        termEnd.abort(new LeaseLostError("released"));
        await renewing;
        await this.#release(held);
      },
    };
  }

  /** Runs until `ended`; throws LeaseLostError if the term ends for another reason. Updates `held` at each renewal. */
  async #renew(held: HeldLease, ended: AbortSignal): Promise<never> {
    const { renewEveryMs } = this.#timing;
    for (let pauseMs = renewEveryMs; ;) {
      await sleep(Math.max(0, Math.min(pauseMs, held.deadline - performance.now())), undefined, { signal: ended });
      const startedAt = performance.now();
      const leftMs = held.deadline - startedAt;
      if (leftMs <= 0) throw new LeaseLostError("not renewed in time");
      const bounded = AbortSignal.any([ended, AbortSignal.timeout(Math.ceil(leftMs))]);
      try {
        held.lease = await this.#renewOnce(held, bounded);
        held.deadline = startedAt + this.#timing.renewDeadlineMs;
        pauseMs = renewEveryMs;
      } catch (error) {
        if (error instanceof LeaseLostError) throw error;
        // The deadline has not moved, and ends the term if the API stays unavailable.
        this.#log.debug({ event: "lease.renewal_delayed", err: error }, "lease not renewed yet");
        pauseMs = renewEveryMs / RETRIES_PER_RENEWAL;
      }
    }
  }

  async #renewOnce({ lease, annotate }: HeldLease, signal: AbortSignal): Promise<LeaseObject> {
    const renewed = await this.#write(withAnnotations(lease, annotate), { ...lease.spec, ...this.#heldSpec(lease) }, signal);
    if (renewed) return renewed;
    // The Lease has changed: by an upgrade of the chart, by our own write whose response was lost, or by a new holder.
    const found = await this.#api.readLease(this.#objectName, signal);
    if (found.spec?.holderIdentity !== this.#identity) throw new LeaseLostError("another agent holds it");
    const second = await this.#write(withAnnotations(found, annotate), { ...found.spec, ...this.#heldSpec(found) }, signal);
    if (!second) throw new Error("the lease changed twice while it was renewed");
    return second;
  }

  async #release({ lease, annotate }: HeldLease): Promise<void> {
    const signal = AbortSignal.timeout(this.#timing.renewEveryMs);
    try {
      if (await this.#write(withAnnotations(lease, annotate), free(lease), signal)) return;
      // Another client has annotated it since; its holder has not changed.
      const found = await this.#api.readLease(this.#objectName, signal);
      if (found.spec?.holderIdentity === this.#identity) await this.#write(withAnnotations(found, annotate), free(found), signal);
    } catch (error) {
      // A Lease that is not released expires.
      this.#log.debug({ event: "lease.release_failed", err: error }, "cannot release the Lease, which expires by itself");
    }
  }
}

function withAnnotations(lease: LeaseObject, annotate: Annotate): LeaseObject {
  const current = lease.metadata?.annotations ?? {};
  const changes = annotate(current);
  return Object.keys(changes).length === 0 ? lease : { ...lease, metadata: { ...lease.metadata, annotations: { ...current, ...changes } } };
}

/** The spec of a Lease without a holder. */
function free({ spec }: LeaseObject): LeaseObject["spec"] {
  const { holderIdentity: _, ...rest } = spec ?? {};
  return { ...rest, leaseDurationSeconds: 1, renewTime: new V1MicroTime() };
}
