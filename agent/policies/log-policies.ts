// Resolves the log policies that annotations of pods and namespaces set on this node. A pod's annotation (a workload sets it in its pod
// template) overrides its namespace's, which overrides the settings; redactions add up. Invariants: a pod's author changes nothing for other
// pods, because the values of a pod's annotations travel with its records; only annotations of namespaces change the configuration of the
// collector, because users of a namespace have no permission to set them; an invalid annotation is ignored and reported.
import { Outage } from "../../common/outage.ts";
import { OPT_OUT_ANNOTATION } from "../collector/config/fragments/kubernetes-attributes.ts";
import type { NamespaceLogs } from "../collector/config/fragments/pod-logs.ts";
import { POD_POLICY_ANNOTATIONS, REDACT_ANNOTATION, SAMPLE_ANNOTATION } from "../collector/config/fragments/pod-log-policies.ts";
import type { ObjectJson } from "../kubernetes/api.ts";
import { MAX_POLICY_NAMESPACES, MAX_POLICY_REGEX_CHARACTERS } from "../limits.ts";
import type { Log } from "../log.ts";
import { ObjectWatch, type ObjectsApi } from "../monitors/object-watch.ts";
import { AnnotationReader, multilinePattern, readFlag, readPercent, redactPattern, sampleBelow } from "./policy-values.ts";

const [, REDACT, SAMPLE] = POD_POLICY_ANNOTATIONS;
/** On namespaces only. */
const MULTILINE = "atherops.io/logs-multiline-start";
const FIELDS = "atherops.io/logs-fields";

export interface LogPolicyStatus {
  /** `shop/web-1` → the policies in force that differ from the settings. */
  readonly effective: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** `shop/web-1 atherops.io/logs-redact` → why it is ignored. */
  readonly refused: Readonly<Record<string, string>>;
  /** Namespaces that are not known, because the annotations of all take too much memory. */
  readonly dropped: number;
}

export interface LogPoliciesOptions {
  readonly api: ObjectsApi;
  readonly log: Log;
  readonly nowMs?: () => number;
}

type Annotations = Readonly<Record<string, string>>;

interface SlimPod {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly annotations?: Annotations };
}

interface Namespace {
  readonly name: string;
  readonly annotations: Annotations;
}

const CHANGE_EVERY_MS = 5 * 60_000;
const MAX_SHOWN = 100;

export class LogPolicies implements AsyncDisposable {
  /** Call after each change of a namespace: pods must be resolved again. */
  changed: () => void = () => {};
  readonly #nowMs: () => number;
  readonly #watch: ObjectWatch<Namespace>;
  #namespaces: ReadonlyMap<string, Annotations> = new Map();
  #ofNamespaces: readonly NamespaceLogs[] = [];
  #ofNamespacesMs = Number.NEGATIVE_INFINITY;

  constructor({ api, log, nowMs = Date.now }: LogPoliciesOptions) {
    this.#nowMs = nowMs;
    const outage = new Outage({
      began: (error) =>
        log.warn({ event: "policies.unknown", err: (error as Error).message }, "cannot watch the annotations of namespaces; retrying"),
      ended: () => log.info({ event: "policies.known" }, "watching the annotations of namespaces has recovered"),
    });
    this.#watch = new ObjectWatch({
      api,
      path: "/api/v1/namespaces",
      slim: slimNamespace,
      failed: (error) => outage.failed(error),
      recovered: () => outage.recovered(),
      changed: () => {
        this.#namespaces = new Map(this.#watch.objects.map(({ name, annotations }) => [name, annotations]));
        this.changed();
      },
    });
  }

  /** Resolves once the namespaces are known; before, logs could be sent that a namespace's policy drops or redacts. */
  get known(): Promise<void> {
    return this.#watch.known;
  }

  /** A pod as pods/node-pods.ts keeps it, with the policies in force instead of its own annotations. */
  resolve(pod: string): string {
    const object = JSON.parse(pod) as SlimPod;
    const { [REDACT]: _, [SAMPLE]: __, ...others } = object.metadata.annotations ?? {};
    const { logs, redact, samplePercent } = this.#effective(object).policy;
    const annotations = {
      ...others,
      ...(logs !== undefined && { [OPT_OUT_ANNOTATION]: String(logs) }),
      ...(redact !== undefined && { [REDACT_ANNOTATION]: redact }),
      ...(samplePercent !== undefined && { [SAMPLE_ANNOTATION]: sampleBelow(samplePercent) }),
    };
    return JSON.stringify({ ...object, metadata: { ...object.metadata, annotations } });
  }

  /** For the configuration of the collector, which restarts for a change: at most every five minutes. */
  ofNamespaces(): readonly NamespaceLogs[] {
    if (this.#nowMs() - this.#ofNamespacesMs < CHANGE_EVERY_MS) return this.#ofNamespaces;
    const sorted = this.#configured().slice(0, MAX_POLICY_NAMESPACES);
    if (JSON.stringify(sorted) === JSON.stringify(this.#ofNamespaces)) return this.#ofNamespaces;
    this.#ofNamespacesMs = this.#nowMs();
    this.#ofNamespaces = sorted;
    return sorted;
  }

  /** `pods`: as they are kept, before they are resolved. */
  status(pods: Iterable<string>): LogPolicyStatus {
    const effective: [string, Record<string, unknown>][] = [];
    const refused = new Map<string, string>();
    const found = [...pods].map((pod) => this.#effective(JSON.parse(pod) as SlimPod));
    for (const { name, policy, problems } of found) {
      if (Object.keys(policy).length > 0) effective.push([name, policy]);
      for (const [annotation, why] of problems) refused.set(annotation, why);
    }
    for (const [i, { namespace, multilineStart, readsFields: fields }] of this.#configured().entries()) {
      if (i < MAX_POLICY_NAMESPACES) effective.push([`namespace ${namespace}`, { multilineStart, fields }]);
      else
        refused.set(
          `${namespace} ${multilineStart === undefined ? FIELDS : MULTILINE}`,
          `is beyond the limit of ${MAX_POLICY_NAMESPACES} namespaces`,
        );
    }
    for (const [namespace, annotations] of this.#namespaces)
      for (const [annotation, why] of configuredBy(namespace, annotations).problems) refused.set(annotation, why);
    return { effective: shown(effective), refused: shown(refused), dropped: this.#watch.dropped };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watch[Symbol.asyncDispose]();
  }

  /** What the collector's configuration contains, in the order of names. */
  #configured(): NamespaceLogs[] {
    return [...this.#namespaces]
      .map(([namespace, annotations]) => configuredBy(namespace, annotations).logs)
      .filter(({ multilineStart, readsFields }) => multilineStart !== undefined || readsFields !== undefined)
      .toSorted((a, b) => (a.namespace < b.namespace ? -1 : 1));
  }

  #effective({ metadata }: SlimPod) {
    const name = `${metadata.namespace}/${metadata.name}`;
    const pod = new AnnotationReader(name, metadata.annotations ?? {});
    const namespace = new AnnotationReader(metadata.namespace, this.#namespaces.get(metadata.namespace) ?? {});
    const logs = pod.read(OPT_OUT_ANNOTATION, readFlag) ?? namespace.read(OPT_OUT_ANNOTATION, readFlag);
    const samplePercent = pod.read(SAMPLE, readPercent) ?? namespace.read(SAMPLE, readPercent);
    const patterns = [namespace, pod].flatMap((reader) => reader.read(REDACT, redactPattern) ?? []);
    const policy = {
      ...(logs !== undefined && { logs }),
      ...(samplePercent !== undefined && { samplePercent }),
      ...(patterns.length > 0 && { redact: patterns.map((pattern) => `(?:${pattern})`).join("|") }),
    };
    return { name, policy, problems: [...pod.problems, ...namespace.problems] };
  }
}

function configuredBy(namespace: string, annotations: Annotations): { logs: NamespaceLogs; problems: AnnotationReader["problems"] } {
  const reader = new AnnotationReader(namespace, annotations);
  const logs = { namespace, multilineStart: reader.read(MULTILINE, multilinePattern), readsFields: reader.read(FIELDS, readFlag) };
  return { logs, problems: reader.problems };
}

function shown<T>(entries: Iterable<[string, T]>): Record<string, T> {
  return Object.fromEntries([...entries].slice(0, MAX_SHOWN));
}

function slimNamespace({ metadata }: ObjectJson): Namespace {
  const wanted: readonly string[] = [...POD_POLICY_ANNOTATIONS, MULTILINE, FIELDS];
  const annotations = Object.entries(metadata.annotations ?? {}).flatMap(([name, value]) =>
    wanted.includes(name) ? [[name, clipped(value)] as const] : [],
  );
  return { name: metadata.name, annotations: Object.fromEntries(annotations) };
}

/** Long enough to be refused as too long. A copy, because a slice would keep the whole value in memory. */
function clipped(value: string): string {
  return Buffer.from(value.slice(0, MAX_POLICY_REGEX_CHARACTERS + 1)).toString();
}
