// Limits of a sandbox process. There are two processes, and an organisation uses at most one, so that no organisation can occupy both.

const MIB = 1024 * 1024;

export interface SandboxLimits {
  /** At once. */
  readonly processes: number;
  /** CPU time of one job. A query ends itself after 5 s of computing (loki/regex.ts), with a better message. */
  readonly cpuMs: number;
  /** Wall-clock time of one job while it does not wait for rows, for machines without /proc and for a process that sleeps. */
  readonly wallMs: number;
  /** V8's own limit. A process that meets it aborts, and nothing else does. */
  readonly heapMib: number;
  /** Anonymous memory of a process, V8's and that of buffers: some 25 MiB at rest. */
  readonly anonymousBytes: number;
  /** A process that keeps more after a job is replaced. */
  readonly keptBytes: number;
  /** An idle process ends after this. */
  readonly idleMs: number;
}

export const SANDBOX_LIMITS: SandboxLimits = {
  processes: 2,
  cpuMs: 8000,
  wallMs: 60_000,
  heapMib: 128,
  anonymousBytes: 192 * MIB,
  keptBytes: 128 * MIB,
  idleMs: 60_000,
};

/** Waiting jobs per organisation; a dashboard requests all its panels at once. */
export const WAITING_JOBS_PER_ORG = 64;
/** The kernel ends a process that outlived a killed backend and still computes. */
export const LIFETIME_CPU_S = 600;
export const POLL_MS = 50;
export const START_MS = 30_000;
/** How long a job may take to notice that its client has left. */
export const ABORT_MS = 500;
