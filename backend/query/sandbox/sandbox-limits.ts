// Limits of a sandbox process. An organisation uses at most one process, and the last free one is kept for organisations that used little.

const MIB = 1024 * 1024;

export interface SandboxLimits {
  /** Maximum number of concurrent jobs. One more process is ready while several run. */
  readonly processes: number;
  /** CPU time of one job. A query ends itself after 5 s of computing (loki/regex.ts), with a better message. */
  readonly cpuMs: number;
  /** Wall-clock time of one job without its waits for rows: for machines without /proc, and for a process that sleeps. */
  readonly wallMs: number;
  /** V8's own limit. A process that exceeds it aborts, without affecting any other. */
  readonly heapMib: number;
  /** Anonymous memory of a process, V8's and that of buffers: about 25 MiB when idle. */
  readonly anonymousBytes: number;
  /** A process that has more after a job is replaced. */
  readonly keptBytes: number;
  /** An idle process ends after this time. */
  readonly idleMs: number;
}

export const SANDBOX_LIMITS: SandboxLimits = {
  processes: 3,
  cpuMs: 8000,
  wallMs: 60_000,
  heapMib: 128,
  anonymousBytes: 192 * MIB,
  keptBytes: 128 * MIB,
  idleMs: 60_000,
};

/** For jobs that only read the text of a query, which takes milliseconds: they never wait for jobs that compute. */
export const READING_LIMITS: Partial<SandboxLimits> = { processes: 1, cpuMs: 1000, idleMs: 600_000 };

/** Waiting jobs per organisation; a dashboard requests all its panels at once. */
export const WAITING_JOBS_PER_ORG = 64;
/** The kernel ends a process that survived a killed backend and still computes. */
export const LIFETIME_CPU_S = 600;
export const POLL_MS = 50;
export const START_MS = 30_000;
/** A job has this long to notice that its client has disconnected. */
export const ABORT_MS = 500;
