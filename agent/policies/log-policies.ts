// Resolves the log policies of the node's pods from annotations and LogPolicy objects. A pod's annotations take precedence over the LogPolicy
// objects that select it (the oldest first), these over the namespace's annotations, and these over the settings. Redactions add up, and the
// lowest rate limit applies. Invariants: a pod's annotations affect only its own records; only annotations of namespaces change the
// collector's configuration, because users of a namespace have no permission to set them; an invalid annotation is ignored and reported; logs
// of a namespace whose policies are not all known are not sent.
import { Outage } from "../../common/outage.ts";
import { OPT_OUT_ANNOTATION } from "../collector/config/fragments/kubernetes-attributes.ts";
import type { NamespaceLogs } from "../collector/config/fragments/pod-logs.ts";
import { POD_POLICY_ANNOTATIONS, REDACT_ANNOTATION, SAMPLE_ANNOTATION } from "../collector/config/fragments/pod-log-policies.ts";
import type { ObjectJson } from "../kubernetes/api.ts";
import { MAX_NAMESPACES_CHARACTERS, MAX_POLICY_NAMESPACES, MAX_POLICY_REGEX_CHARACTERS } from "../agent-limits.ts";
import type { Log } from "../log.ts";
import { ObjectWatch } from "../kubernetes/object-watch.ts";
import { LogRates } from "./log-rates.ts";
import { byAge, type PoliciesApi, type PolicyFields, PolicyResources } from "./policy-resources.ts";
import type { LimitedPod } from "./rate-allotment.ts";
import { AnnotationReader, multilinePattern, readFlag, readPercent, readRate, redactPattern, sampleThreshold } from "./policy-values.ts";

const [, REDACT, SAMPLE, RATE] = POD_POLICY_ANNOTATIONS;
/** Annotations that are read only from namespaces. */
const MULTILINE = "atherops.io/logs-multiline-start";
const FIELDS = "atherops.io/logs-fields";

export interface LogPolicyStatus {
  /** `shop/web-1` → the effective policies that differ from the settings. */
  readonly effective: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** `shop/web-1 atherops.io/logs-redact` → why it is ignored. */
  readonly refused: Readonly<Record<string, string>>;
  /** Number of namespaces and LogPolicy objects that were dropped, because all of them together need too much memory. */
  readonly dropped: number;
  /** Bytes that rate limits dropped, by namespace; an estimate from the growth of the files. */
  readonly rateLimitedBytes: Readonly<Record<string, number>>;
}

export interface LogPoliciesOptions {
  readonly api: PoliciesApi;
  readonly log: Log;
  readonly nowMs?: () => number;
  readonly logsFolder?: string;
}

type Annotations = Readonly<Record<string, string>>;

interface SlimPod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Annotations;
    readonly annotations?: Annotations;
  };
}

interface Namespace {
  readonly name: string;
  readonly createdAt: string;
  readonly annotations: Annotations;
}

const CHANGE_EVERY_MS = 5 * 60_000;
const MAX_SHOWN = 100;
const INCOMPLETE = "exceeds the memory limit of annotations and LogPolicy objects: its pod logs are not sent until some are removed";

export class LogPolicies implements AsyncDisposable {
  /** Called after each change of a namespace, LogPolicy or rate: pods must be resolved again. */
  changed: () => void = () => {};
  /** Pods of the node before policies are applied. */
  sources: () => Iterable<string> = () => [];
  readonly rates: LogRates;
  readonly #resources: PolicyResources;
  readonly #nowMs: () => number;
  readonly #watch: ObjectWatch<Namespace>;
  #namespaces: ReadonlyMap<string, Namespace> = new Map();
  #ofNamespaces: readonly NamespaceLogs[] = [];
  #ofNamespacesMs = Number.NEGATIVE_INFINITY;

  constructor({ api, log, nowMs = Date.now, logsFolder }: LogPoliciesOptions) {
    this.#nowMs = nowMs;
    const changed = (): void => this.changed();
    this.#resources = new PolicyResources({ api, log, changed });
    const rateOutage = new Outage({
      began: (error) =>
        log.warn({ event: "policies.rates_unknown", err: (error as Error).message }, "cannot measure the log files of pods; retrying"),
      ended: () => log.info({ event: "policies.rates_known" }, "recovered: measuring the log files of pods"),
    });
    this.rates = new LogRates({ pods: () => this.#limitedPods(), changed, outage: rateOutage, nowMs, folder: logsFolder });
    const outage = new Outage({
      began: (error) =>
        log.warn({ event: "policies.unknown", err: (error as Error).message }, "cannot watch the annotations of namespaces; retrying"),
      ended: () => log.info({ event: "policies.known" }, "recovered: watching the annotations of namespaces"),
    });
    this.#watch = new ObjectWatch({
      api,
      path: "/api/v1/namespaces",
      slim: slimNamespace,
      maxCharacters: { perNamespace: MAX_NAMESPACES_CHARACTERS, total: MAX_NAMESPACES_CHARACTERS },
      failed: (error) => outage.failed(error),
      recovered: () => outage.recovered(),
      changed: () => {
        this.#namespaces = new Map(this.#watch.objects.map((namespace) => [namespace.name, namespace]));
        this.changed();
      },
    });
  }

  /** Resolves once namespaces and LogPolicy objects are known. Before that, no pod logs may be read, because policies may exclude them. */
  get known(): Promise<unknown> {
    return Promise.all([this.#watch.known, this.#resources.known]);
  }

  /** Returns a pod, as pods/node-pods.ts keeps it, with the effective policies instead of its own annotations. */
  resolve(pod: string): string {
    const object = JSON.parse(pod) as SlimPod;
    const { [REDACT]: _, [SAMPLE]: __, [RATE]: ___, ...others } = object.metadata.annotations ?? {};
    const { name, policy, limits } = this.#effective(object);
    const { logs, redact, samplePercent = 100 } = policy;
    const namespace = limits.namespaceBytesPerSecond === undefined ? undefined : object.metadata.namespace;
    const share = Math.min(samplePercent / 100, Object.keys(limits).length > 0 ? this.rates.find(name, namespace).share : 1);
    const annotations = {
      ...others,
      ...(logs !== undefined && { [OPT_OUT_ANNOTATION]: String(logs) }),
      ...(redact !== undefined && { [REDACT_ANNOTATION]: redact }),
      ...(share < 1 && { [SAMPLE_ANNOTATION]: sampleThreshold(share) }),
    };
    return JSON.stringify({ ...object, metadata: { ...object.metadata, annotations } });
  }

  /** Namespace settings for the collector's configuration. A change restarts the collector, so they change at most every five minutes. */
  ofNamespaces(): readonly NamespaceLogs[] {
    if (this.#nowMs() - this.#ofNamespacesMs < CHANGE_EVERY_MS) return this.#ofNamespaces;
    const sorted = this.#configuredNamespaces().slice(0, MAX_POLICY_NAMESPACES);
    if (JSON.stringify(sorted) === JSON.stringify(this.#ofNamespaces)) return this.#ofNamespaces;
    this.#ofNamespacesMs = this.#nowMs();
    this.#ofNamespaces = sorted;
    return sorted;
  }

  status(): LogPolicyStatus {
    const effective: [string, Record<string, unknown>][] = [];
    const refused = new Map<string, string>(
      [...this.#watch.droppedNamespaces.union(this.#resources.incomplete)].map((namespace) => [`namespace ${namespace}`, INCOMPLETE]),
    );
    for (const source of this.sources()) {
      const { name, policy, limits, problems } = this.#effective(JSON.parse(source) as SlimPod);
      const { share, dropped } = this.rates.find(name);
      const rate = { ...limits, ...(dropped > 0 && { keptPercent: Math.round(1000 * share) / 10, droppedBytes: dropped }) };
      if (Object.keys({ ...policy, ...rate }).length > 0) effective.push([name, { ...policy, ...rate }]);
      for (const [annotation, why] of problems) refused.set(annotation, why);
    }
    for (const [i, { namespace, multilineStart, readsFields: fields }] of this.#configuredNamespaces().entries()) {
      if (i < MAX_POLICY_NAMESPACES) effective.push([`namespace ${namespace}`, { multilineStart, fields }]);
      else
        refused.set(
          `${namespace} ${multilineStart === undefined ? FIELDS : MULTILINE}`,
          `is beyond the limit of ${MAX_POLICY_NAMESPACES} namespaces`,
        );
    }
    for (const namespace of this.#namespaces.values())
      for (const [annotation, why] of readNamespaceLogs(namespace).problems) refused.set(annotation, why);
    for (const [policy, why] of this.#resources.refused) refused.set(policy, why);
    return {
      effective: firstEntries(effective),
      refused: firstEntries(refused),
      dropped: this.#watch.dropped + this.#resources.dropped,
      rateLimitedBytes: Object.fromEntries(this.rates.droppedBytes),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.rates, this.#resources, this.#watch].map((part) => part[Symbol.asyncDispose]()));
  }

  /** Namespaces that change the collector's configuration, oldest first, so that a new one does not displace another. */
  #configuredNamespaces(): NamespaceLogs[] {
    return [...this.#namespaces.values()]
      .toSorted(byAge)
      .map((namespace) => readNamespaceLogs(namespace).logs)
      .filter(({ multilineStart, readsFields }) => multilineStart !== undefined || readsFields !== undefined);
  }

  #limitedPods(): LimitedPod[] {
    return [...this.sources()].flatMap((source) => {
      const { metadata } = JSON.parse(source) as SlimPod;
      const { policy, limits } = this.#effective({ metadata });
      const { bytesPerSecond: limit, namespaceBytesPerSecond: namespaceLimit } = limits;
      if (limit === undefined && namespaceLimit === undefined) return [];
      return [{ namespace: metadata.namespace, name: metadata.name, limit, namespaceLimit, sampled: (policy.samplePercent ?? 100) / 100 }];
    });
  }

  #effective({ metadata }: SlimPod) {
    const name = `${metadata.namespace}/${metadata.name}`;
    const pod = new AnnotationReader(name, metadata.annotations ?? {});
    const resources = this.#resources.selecting(metadata);
    const namespace = new AnnotationReader(metadata.namespace, this.#namespaces.get(metadata.namespace)?.annotations ?? {});
    const first = <T extends keyof PolicyFields>(field: T): PolicyFields[T] =>
      resources.find((policy) => policy[field] !== undefined)?.[field];
    const isComplete = this.#watch.isComplete(metadata.namespace) && this.#resources.isComplete(metadata.namespace);
    const flag = pod.read(OPT_OUT_ANNOTATION, readFlag) ?? first("logs") ?? namespace.read(OPT_OUT_ANNOTATION, readFlag);
    const logs = isComplete ? flag : false;
    const samplePercent = pod.read(SAMPLE, readPercent) ?? first("samplePercent") ?? namespace.read(SAMPLE, readPercent);
    const resourcePatterns = resources.flatMap(({ redact }) => redact ?? []);
    const patterns = [namespace.read(REDACT, redactPattern) ?? [], resourcePatterns, pod.read(REDACT, redactPattern) ?? []].flat();
    const limit = Math.min(...[pod.read(RATE, readRate) ?? [], resources.flatMap(({ bytesPerSecond }) => bytesPerSecond ?? [])].flat());
    const namespaceLimit = namespace.read(RATE, readRate);
    const policy = {
      ...(logs !== undefined && { logs }),
      ...(samplePercent !== undefined && { samplePercent }),
      ...(patterns.length > 0 && { redact: patterns.map((pattern) => `(?:${pattern})`).join("|") }),
      ...(resources.length > 0 && { policies: resources.map((resource) => resource.name) }),
    };
    const limits = {
      ...(Number.isFinite(limit) && { bytesPerSecond: limit }),
      ...(namespaceLimit !== undefined && { namespaceBytesPerSecond: namespaceLimit }),
    };
    return { name, policy, limits, problems: [...pod.problems, ...namespace.problems] };
  }
}

function readNamespaceLogs({ name: namespace, annotations }: Namespace): { logs: NamespaceLogs; problems: AnnotationReader["problems"] } {
  const reader = new AnnotationReader(namespace, annotations);
  const logs = { namespace, multilineStart: reader.read(MULTILINE, multilinePattern), readsFields: reader.read(FIELDS, readFlag) };
  return { logs, problems: reader.problems };
}

function firstEntries<T>(entries: Iterable<[string, T]>): Record<string, T> {
  return Object.fromEntries([...entries].slice(0, MAX_SHOWN));
}

function slimNamespace({ metadata }: ObjectJson): Namespace {
  const names: readonly string[] = [...POD_POLICY_ANNOTATIONS, MULTILINE, FIELDS];
  const annotations = Object.entries(metadata.annotations ?? {}).flatMap(([name, value]) =>
    names.includes(name) ? [[name, clipValue(value)] as const] : [],
  );
  return { name: metadata.name, createdAt: metadata.creationTimestamp ?? "", annotations: Object.fromEntries(annotations) };
}

/** Cuts a value so that it is still refused as too long. Copies it, because a slice would keep the whole value in memory. */
function clipValue(value: string): string {
  return Buffer.from(value.slice(0, MAX_POLICY_REGEX_CHARACTERS + 1)).toString();
}
