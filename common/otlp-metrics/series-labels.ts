// Builds the labels of a series from its resource and its point. Invariants: a label name occurs once; names that the server sets are never
// used; resources that differ in an identifying attribute never share a series; a series never has more labels than the store accepts.
//
// Promotion: every resource attribute becomes a label of every series, because host metrics, kubelet and file data have no service.name,
// and series of two nodes, pods or processes would otherwise be the same. Attributes that do not distinguish resources are only added to
// target_info (UNPROMOTED). The labels `job` and `instance` are derived from the service.* attributes as the specification requires.
// Clashes: a point's attribute takes precedence over the resource's; names that the server sets (FORCED), `le`, `quantile`, and a point's
// own `job` or `instance` next to the resource's are renamed to `exported_<name>`, with the prefix repeated while another attribute has that
// name; values of attribute keys that become the same name are joined with `;`.
import { attributeText, type KeyValue } from "./document.ts";
import { MAX_CACHED_KEYS, MAX_CACHED_LENGTH, MAX_LABELS } from "./otlp-metrics-limits.ts";
import { labelName, labelValue } from "./prometheus-names.ts";

/** Set by the server from the key; a sender's own value is stored under another name (docs/decisions.md, "Mapping"). */
const FORCED = ["org_id", "host_id", "node"];

/** They describe a resource but do not distinguish it from others, and are long or change with every release. */
const UNPROMOTED =
  /^(?:process\.command(?:_args|_line)?|process\.executable\.path|process\.runtime\..*|process\.owner|telemetry\..*|os\.(?:description|build_id|version|name)|host\.(?:cpu\..*|ip|mac|image\..*)|container\.(?:image\..*|command.*|runtime.*)|k8s\.(?:pod|namespace|node)\.(?:annotation|label)s?\..*|url\.scheme|http\.scheme|webengine\..*)$/;

/** If a resource has more attributes than fit, the first ones are kept. */
const IMPORTANCE = [
  "job",
  "instance",
  "k8s_cluster_name",
  "k8s_node_name",
  "k8s_namespace_name",
  "k8s_pod_name",
  "k8s_pod_uid",
  "k8s_container_name",
  "host_name",
  "exported_host_id",
  "process_pid",
  "container_id",
  "k8s_volume_name",
  "service_name",
];

interface Label {
  readonly name: string;
  /** Index in IMPORTANCE. */
  readonly rank: number;
  readonly isDescription: boolean;
  /** Attributes that become this name; nearly always one. */
  readonly values: { readonly key: string; readonly text: string }[];
}

/** More are never written, even if a point's labels replace some; each point would have to iterate over them. */
const MAX_RESOURCE_LABELS = 2 * MAX_LABELS;
const NO_NAMES: ReadonlySet<string> = new Set();
const JOB = labelOf("job", "");
const INSTANCE = labelOf("instance", "");

/** The labels that a resource adds to each of its series. */
export class ResourceLabels {
  /** In order of importance. */
  readonly #labels: readonly Label[];
  readonly #descriptions: readonly Label[];
  readonly #text: string;
  /** `job` and `instance`, if present: a point may not use these names, and each pair has one target_info. */
  readonly target: string;
  readonly targetNames: ReadonlySet<string>;
  readonly #hasMoreThanTarget: boolean;

  constructor(attributes: readonly KeyValue[]) {
    const target = targetOf(attributes);
    this.targetNames = target.length === 0 ? NO_NAMES : new Set(target.map(({ name }) => name));
    this.target = joinLabels(target);
    const rest = mergeAttributes(attributes, new Set([...this.targetNames, "le", "quantile"]));
    this.#labels = byImportance([...target, ...rest.filter(({ isDescription }) => !isDescription)]).slice(0, MAX_RESOURCE_LABELS);
    this.#descriptions = rest.filter(({ isDescription }) => isDescription);
    this.#text = joinLabels(this.#labels);
    this.#hasMoreThanTarget = rest.some(({ values }) => values.some(({ key }) => !TARGET_KEYS.includes(key)));
  }

  /** `a="1",b="2"`: at most `maxLabels` labels, without the names in `except`. */
  text(maxLabels: number, except: ReadonlySet<string>): string {
    if (this.#labels.length <= maxLabels && !this.#labels.some(({ name }) => except.has(name))) return this.#text;
    return joinLabels(this.#labels.filter(({ name }) => !except.has(name)).slice(0, Math.max(maxLabels, 0)));
  }

  /** The labels of target_info, identifying and describing; undefined if there are none, or if the target is unknown. */
  infoText(): string | undefined {
    if (this.target === "" || !this.#hasMoreThanTarget) return undefined;
    return joinLabels([...this.#labels, ...this.#descriptions].slice(0, MAX_LABELS));
  }
}

const TARGET_KEYS = ["service.name", "service.namespace", "service.instance.id"];

function targetOf(attributes: readonly KeyValue[]): Label[] {
  const [service = "", namespace = "", instance = ""] = TARGET_KEYS.map((key) => {
    const attribute = attributes.find((candidate) => candidate.key === key);
    return attribute && attributeText(attribute.value);
  });
  const target: Label[] = [];
  if (service !== "") target.push({ ...JOB, values: [{ key: "", text: namespace === "" ? service : `${namespace}/${service}` }] });
  if (instance !== "") target.push({ ...INSTANCE, values: [{ key: "", text: instance }] });
  return target;
}

/**
 * Labels of the points of one metric. They nearly always have the same keys in the same order, so everything that depends on keys alone is
 * computed once and reused until the keys change.
 */
export class PointLabels {
  readonly #resource: ResourceLabels;
  readonly #reserved: ReadonlySet<string>;
  #keys: string[] | undefined;
  /** The resource's labels; then, for each value, `name="` with a preceding comma if needed. Undefined if keys clash. */
  #head = "";
  #openings: string[] | undefined;

  /** `special`: `le` or `quantile`, if the metric's kind adds it. */
  constructor(resource: ResourceLabels, special?: "le" | "quantile") {
    this.#resource = resource;
    this.#reserved = special === undefined ? resource.targetNames : new Set([...resource.targetNames, special]);
  }

  /** `a="1",b="2"`, possibly empty; undefined if the point alone has more labels than the store accepts. */
  text(attributes: readonly KeyValue[]): string | undefined {
    if (!this.#hasKeysOf(attributes)) this.#prepare(attributes);
    const openings = this.#openings;
    if (openings === undefined) return this.#mergedText(attributes);
    let text = this.#head;
    for (let index = 0; index < openings.length; index++) {
      const value = attributes[index]?.value;
      const plain = attributeText(value);
      if (plain === "") return this.#mergedText(attributes);
      text += openings[index] + labelValue(plain) + '"';
    }
    return text;
  }

  #hasKeysOf(attributes: readonly KeyValue[]): boolean {
    const keys = this.#keys;
    if (keys === undefined || keys.length !== attributes.length) return false;
    for (let index = 0; index < keys.length; index++) if (attributes[index]?.key !== keys[index]) return false;
    return true;
  }

  #prepare(attributes: readonly KeyValue[]): void {
    // First, because a key may not be a text, which throws: the next point must not get the labels of the one before.
    this.#openings = undefined;
    this.#keys = attributes.map(({ key }) => key ?? "");
    const names = this.#keys.map((key) => freeName(findLabel(key).name, this.#reserved));
    const distinct = new Set(names);
    if (distinct.size !== names.length || distinct.has("") || names.length > MAX_LABELS) return;
    this.#head = this.#resource.text(MAX_LABELS - names.length, distinct);
    this.#openings = names.map((name, index) => `${index === 0 && this.#head === "" ? "" : ","}${name}="`);
  }

  #mergedText(attributes: readonly KeyValue[]): string | undefined {
    const labels = mergeAttributes(attributes, this.#reserved);
    if (labels.length > MAX_LABELS) return undefined;
    const resource = this.#resource.text(MAX_LABELS - labels.length, new Set(labels.map(({ name }) => name)));
    return [resource, joinLabels(labels)].filter(Boolean).join(",");
  }
}

/**
 * Converts attributes to labels: empty values are omitted (an empty label is the same as an absent one), and clashing keys share one label.
 */
function mergeAttributes(attributes: readonly KeyValue[], reserved: ReadonlySet<string>): Label[] {
  const labels = new Map<string, Label>();
  const sent = new Set(attributes.map(({ key }) => findLabel(key ?? "").name));
  for (const { key: sentKey, value } of attributes) {
    const key = sentKey ?? "";
    const label = findLabel(key);
    const text = attributeText(value);
    if (label.name === "" || text === "") continue;
    let name = freeName(label.name, reserved);
    // As Prometheus does: kube-state-metrics and others send both `node` and `exported_node`.
    while (name !== label.name && sent.has(name)) name = `exported_${name}`;
    const clashing = labels.get(name);
    if (clashing) clashing.values.push({ key, text });
    else labels.set(name, { ...label, name, values: [{ key, text }] });
  }
  return [...labels.values()];
}

function freeName(name: string, reserved: ReadonlySet<string>): string {
  return reserved.has(name) || FORCED.includes(name) ? `exported_${name}` : name;
}

/** Label name per key; the whole cache is cleared if applications create too many keys. */
const labelsByKey = new Map<string, Label>();

function findLabel(key: string): Label {
  let label = labelsByKey.get(key);
  if (label === undefined) {
    label = labelOf(labelName(key), key);
    if (key.length > MAX_CACHED_LENGTH) return label;
    if (labelsByKey.size >= MAX_CACHED_KEYS) labelsByKey.clear();
    labelsByKey.set(key, label);
  }
  return label;
}

function labelOf(name: string, key: string): Label {
  const rank = IMPORTANCE.indexOf(name);
  return { name, rank: rank === -1 ? IMPORTANCE.length : rank, isDescription: UNPROMOTED.test(key), values: [] };
}

function byImportance(labels: Label[]): Label[] {
  return labels.sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : Number(a.name > b.name)));
}

function joinLabels(labels: readonly Label[]): string {
  let text = "";
  for (const { name, values } of labels) {
    const [first] = values;
    text += `${text === "" ? "" : ","}${name}="${labelValue(values.length === 1 && first ? first.text : joinValues(values))}"`;
  }
  return text;
}

/** Sorted by the original keys, as the specification requires. */
function joinValues(values: readonly { key: string; text: string }[]): string {
  const sorted = values.toSorted((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key)));
  return sorted.map(({ text }) => text).join(";");
}
