// Watches and validates the LogPolicy objects of the cluster (charts/cluster-agent/templates/crd.yaml), and writes their status.
// Invariants: an invalid policy is not applied in part; each agent waits a random time before it writes the status of a generation, and skips
// the write if another agent has written it, so that 1,000 nodes send few requests per change.
import { Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { KubernetesApi, ObjectJson } from "../kubernetes/api.ts";
import {
  MAX_NAMESPACE_POLICIES,
  MAX_NAMESPACE_POLICY_CHARACTERS,
  MAX_OBJECT_CHARACTERS,
  MAX_SELECTOR_CHARACTERS,
} from "../agent-limits.ts";
import type { Log } from "../log.ts";
import type { Metadata, Selector } from "../monitors/monitor-objects.ts";
import { ObjectWatch, type ObjectsApi } from "../kubernetes/object-watch.ts";
import { checkedSelector, selectsPod } from "../monitors/selectors.ts";
import { PolicyError, readPercent, readRate, redactPattern } from "./policy-values.ts";

export type PoliciesApi = ObjectsApi & Pick<KubernetesApi, "patchStatus">;

export interface PolicyFields {
  readonly logs?: boolean;
  readonly redact?: string;
  readonly samplePercent?: number;
  /** Rate limit of each selected pod. */
  readonly bytesPerSecond?: number;
}

interface LogPolicy extends PolicyFields {
  readonly name: string;
  readonly namespace: string;
  readonly createdAt: string;
  readonly version: string;
  readonly generation: number;
  /** Generation to which the status refers. */
  readonly observedGeneration: number | undefined;
  readonly selector: Selector;
  readonly problem?: string;
}

export interface PolicyResourcesOptions {
  readonly api: PoliciesApi;
  readonly log: Log;
  readonly changed: () => void;
  readonly delayMs?: () => number;
}

const PATH = "/apis/atherops.io/v1alpha1";
const WRITE_EVERY_MS = 1000;
const MAX_DELAY_MS = 60_000;
const LIMIT_PROBLEM = `exceeds the limit of ${MAX_NAMESPACE_POLICIES} policies per namespace`;

export class PolicyResources implements AsyncDisposable {
  readonly #options: PolicyResourcesOptions;
  readonly #watch: ObjectWatch<LogPolicy>;
  readonly #loop: Loop;
  #byNamespace: ReadonlyMap<string, readonly LogPolicy[]> = new Map();
  /** Policy and version → when this agent writes its status. */
  #due = new Map<string, number>();

  constructor(options: PolicyResourcesOptions) {
    this.#options = options;
    const { api, log, changed } = options;
    const outage = new Outage({
      began: (error) =>
        log.warn({ event: "policies.unknown", err: (error as Error).message }, "cannot watch log policies or write their status; retrying"),
      ended: () => log.info({ event: "policies.known" }, "recovered: watching log policies"),
    });
    const report = { failed: (error: unknown) => outage.failed(error), recovered: () => outage.recovered() };
    this.#watch = new ObjectWatch({
      api,
      path: `${PATH}/logpolicies`,
      slim: slimPolicy,
      maxCharacters: { perNamespace: MAX_NAMESPACE_POLICY_CHARACTERS, total: MAX_OBJECT_CHARACTERS },
      ...report,
      changed: () => {
        this.#byNamespace = groupPolicies(this.#watch.objects);
        changed();
      },
    });
    this.#loop = new Loop({
      step: async (signal) => (await this.#writeStatuses(signal, report.failed), WRITE_EVERY_MS),
      failed: report.failed,
    });
  }

  get known(): Promise<void> {
    return this.#watch.known;
  }

  get dropped(): number {
    return this.#watch.dropped;
  }

  /** Namespaces whose policies were dropped in part, because all policies together need too much memory. */
  get incomplete(): ReadonlySet<string> {
    return this.#watch.droppedNamespaces;
  }

  isComplete(namespace: string): boolean {
    return this.#watch.isComplete(namespace);
  }

  /** Valid policies that select a pod, oldest first. */
  selecting(pod: Pick<Metadata, "namespace" | "labels">): readonly LogPolicy[] {
    const policies = this.#byNamespace.get(pod.namespace) ?? [];
    return policies.filter(({ problem, selector }) => problem === undefined && selectsPod({ namespaces: undefined, selector }, pod));
  }

  /** `LogPolicy shop/web` → why it is not applied. */
  get refused(): [string, string][] {
    const all = [...this.#byNamespace.values()].flat();
    return all.flatMap((policy) => (policy.problem === undefined ? [] : [[`LogPolicy ${pathOf(policy)}`, policy.problem]]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#loop[Symbol.asyncDispose](), this.#watch[Symbol.asyncDispose]()]);
  }

  async #writeStatuses(signal: AbortSignal, failed: (error: unknown) => void): Promise<void> {
    const { api, delayMs = () => Math.random() * MAX_DELAY_MS } = this.#options;
    const outdated = [...this.#byNamespace.values()]
      .flat()
      .filter(({ generation, observedGeneration }) => generation !== observedGeneration);
    const pending = outdated.map((policy) => {
      // The version is part of the key, because each change of a policy needs a new status.
      const key = `${pathOf(policy)} ${policy.version}`;
      return { policy, key, atMs: this.#due.get(key) ?? performance.now() + delayMs() };
    });
    this.#due = new Map(pending.map(({ key, atMs }) => [key, atMs]));
    // Writes at most one status per second, that of the policy that is due first, so that policies whose status cannot be written do not
    // block others.
    const [next] = pending.toSorted((a, b) => a.atMs - b.atMs);
    if (!next || next.atMs > performance.now()) return;
    try {
      await writeStatus(api, next.policy, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#due.set(next.key, performance.now() + delayMs());
      failed(error);
    }
  }
}

async function writeStatus(api: PoliciesApi, { name, namespace, generation, version, problem }: LogPolicy, signal: AbortSignal) {
  const accepted = {
    type: "Accepted",
    status: problem === undefined ? "True" : "False",
    reason: problem === undefined ? "Valid" : "Invalid",
    message: problem ?? "agents apply it to new lines",
    observedGeneration: generation,
    lastTransitionTime: new Date().toISOString().replace(/\.\d+/, ""),
  };
  // Includes the version, so that the request of a slower agent is refused as a conflict.
  const patch = { metadata: { resourceVersion: version }, status: { conditions: [accepted] } };
  await api.patchStatus(`${PATH}/namespaces/${namespace}/logpolicies/${name}`, patch, signal);
}

interface Aged {
  readonly createdAt: string;
  readonly name: string;
}

/** Oldest first, so that a new object does not displace another. */
export function byAge(a: Aged, b: Aged): number {
  return `${a.createdAt} ${a.name}` < `${b.createdAt} ${b.name}` ? -1 : 1;
}

function groupPolicies(policies: readonly LogPolicy[]): Map<string, LogPolicy[]> {
  const byNamespace = Map.groupBy(policies.toSorted(byAge), ({ namespace }) => namespace);
  for (const [namespace, ofNamespace] of byNamespace)
    byNamespace.set(
      namespace,
      ofNamespace.map((policy, i) => (i < MAX_NAMESPACE_POLICIES ? policy : { ...policy, problem: LIMIT_PROBLEM })),
    );
  return byNamespace;
}

function slimPolicy({ metadata, spec, status }: ObjectJson): LogPolicy {
  const { name, namespace = "", generation = 0, resourceVersion = "", creationTimestamp = "" } = metadata;
  const { conditions = [] } = (status ?? {}) as { conditions?: readonly { type?: string; observedGeneration?: number }[] };
  const observedGeneration = conditions.find(({ type }) => type === "Accepted")?.observedGeneration;
  const policy = { name, namespace, createdAt: creationTimestamp, version: resourceVersion, generation, observedGeneration };
  try {
    return { ...policy, ...readSpec(spec ?? {}) };
  } catch (error) {
    return { ...policy, selector: {}, problem: error instanceof PolicyError ? error.message : "does not follow its schema" };
  }
}

type Spec = PolicyFields & { readonly selector?: Selector };

/** The API server has validated the types, but not the expressions. */
function readSpec({ selector = {}, logs, redact, samplePercent, bytesPerSecond }: Spec) {
  const checked = checkedSelector(selector);
  if (JSON.stringify(checked).length > MAX_SELECTOR_CHARACTERS) throw new PolicyError("selector is too long");
  return {
    selector: checked,
    ...(logs !== undefined && { logs }),
    ...(redact !== undefined && { redact: redactPattern(redact) }),
    ...(samplePercent !== undefined && { samplePercent: readPercent(String(samplePercent)) }),
    ...(bytesPerSecond !== undefined && { bytesPerSecond: readRate(String(bytesPerSecond)) }),
  };
}

function pathOf({ namespace, name }: LogPolicy): string {
  return `${namespace}/${name}`;
}
