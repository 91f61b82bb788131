// Chooses which scrape jobs fit into the total limits. Namespaces share the limits fairly: jobs are admitted in ascending order of their
// namespace's cumulative cost, so a namespace with many or large monitors leaves space for others. Invariant: the work for one namespace is
// limited before its jobs are built.
import { MAX_MONITOR_CHARACTERS, MAX_MONITOR_JOBS, MAX_MONITOR_TARGETS } from "../limits.ts";
import { MonitorError } from "./relabeling.ts";

interface Candidate<Job> {
  readonly job: Job;
  readonly monitor: string;
  /** Cost of this job and the earlier ones of its namespace, in characters. */
  readonly cumulativeCost: number;
  readonly cost: number;
}

interface Namespace {
  targets: number;
  jobs: number;
  cost: number;
}

export class FairShare<Job> {
  readonly #namespaces = new Map<string, Namespace>();
  readonly #candidates: Candidate<Job>[] = [];

  /** Call before each job is built. Throws MonitorError if the namespace has too many. */
  begin(namespace: string): void {
    const used = this.#usage(namespace);
    if (used.jobs >= MAX_MONITOR_JOBS || used.cost > MAX_MONITOR_CHARACTERS || used.targets >= MAX_MONITOR_TARGETS) throw limitError();
    used.targets += 1;
  }

  add(namespace: string, monitor: string, { job, cost }: { readonly job: Job; readonly cost: number }): void {
    const used = this.#usage(namespace);
    used.jobs += 1;
    used.cost += cost;
    this.#candidates.push({ job, monitor, cost, cumulativeCost: used.cost });
  }

  /** Returns the jobs that fit, in their original order. */
  jobs(refuse: (monitor: string, error: MonitorError) => void): Job[] {
    const fitting = new Set<Candidate<Job>>();
    let total = 0;
    for (const candidate of this.#candidates.toSorted((a, b) => a.cumulativeCost - b.cumulativeCost)) {
      if (fitting.size >= MAX_MONITOR_JOBS || total + candidate.cost > MAX_MONITOR_CHARACTERS) break;
      total += candidate.cost;
      fitting.add(candidate);
    }
    for (const candidate of this.#candidates) if (!fitting.has(candidate)) refuse(candidate.monitor, limitError());
    return this.#candidates.filter((candidate) => fitting.has(candidate)).map(({ job }) => job);
  }

  #usage(namespace: string): Namespace {
    let used = this.#namespaces.get(namespace);
    if (!used) this.#namespaces.set(namespace, (used = { targets: 0, jobs: 0, cost: 0 }));
    return used;
  }
}

function limitError(): MonitorError {
  return new MonitorError(`exceeds the limits of ${MAX_MONITOR_JOBS} scrape jobs or ${MAX_MONITOR_CHARACTERS} characters in total`);
}
