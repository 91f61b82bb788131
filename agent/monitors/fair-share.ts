// Chooses which scrape jobs fit into the total limits. Namespaces share the limits fairly: jobs are admitted in ascending order of their
// namespace's cumulative cost, so a namespace with many or large monitors leaves space for others. Invariant: the work for one namespace is
// limited before its jobs are built.
import { MAX_MONITOR_CHARACTERS, MAX_MONITOR_JOBS, MAX_MONITOR_TARGETS } from "../agent-limits.ts";
import { MonitorError } from "./relabeling.ts";

interface Candidate<Job> {
  readonly job: Job;
  readonly monitor: string;
  /** Cost of this job and the earlier ones of its namespace, in characters. */
  readonly cumulativeCost: number;
  readonly cost: number;
}

interface Usage {
  targets: number;
  jobs: number;
  cost: number;
}

export class FairShare<Job> {
  readonly #namespaces = new Map<string, Usage>();
  readonly #candidates: Candidate<Job>[] = [];

  /** Call before each job is built. Throws MonitorError if the namespace has too many. */
  begin(namespace: string): void {
    const usage = this.#usage(namespace);
    if (usage.jobs >= MAX_MONITOR_JOBS || usage.cost > MAX_MONITOR_CHARACTERS || usage.targets >= MAX_MONITOR_TARGETS) throw limitError();
    usage.targets += 1;
  }

  add(namespace: string, monitor: string, { job, cost }: { readonly job: Job; readonly cost: number }): void {
    const usage = this.#usage(namespace);
    usage.jobs += 1;
    usage.cost += cost;
    this.#candidates.push({ job, monitor, cost, cumulativeCost: usage.cost });
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

  #usage(namespace: string): Usage {
    let usage = this.#namespaces.get(namespace);
    if (!usage) this.#namespaces.set(namespace, (usage = { targets: 0, jobs: 0, cost: 0 }));
    return usage;
  }
}

function limitError(): MonitorError {
  return new MonitorError(`exceeds the limits of ${MAX_MONITOR_JOBS} scrape jobs or ${MAX_MONITOR_CHARACTERS} characters in total`);
}
