// The labels of a series: what the resource says, and what the point says. Invariants: a label name occurs once; names that the server
// sets are never used; resources that differ in an identifying attribute never share a series; no more labels than the store takes.
// Used by exposition.ts, which asks once per resource and once per point.
//
// Promotion: every resource attribute becomes a label of every series, because host metrics, kubelet and file data have no
// service.name and series of two nodes, pods or processes would otherwise be one. Attributes that tell
// nothing apart are left to target_info (UNPROMOTED). The labels `job` and `instance` are made of the service.* attributes as the specification says.
// Clashes: a point's attribute wins over the resource's; names the server sets (FORCED), `le`, `quantile`, and a point's own `job` or
// `instance` beside the resource's are renamed to `exported_<name>`; attribute keys that become the same name are joined with `;`.
import { attributeText, type KeyValue } from "./otlp-metrics.ts";
import { labelName, labelValue } from "./prometheus-names.ts";

/** Set by the server from the key; a sender's own value is kept under another name (decisions.md, "Mapping"). */
const FORCED = ["org_id", "host_id", "node"];

/** VictoriaMetrics drops a sample with more than 40 labels: the name, the three that the server forces, and `le` or `quantile` are five. */
export const MAX_LABELS = 35;

/** They describe a resource without telling it apart from others, and are long or change with every release. */
const UNPROMOTED =
  /^(?:process\.command(?:_args|_line)?|process\.executable\.path|process\.runtime\..*|process\.owner|telemetry\..*|os\.(?:description|build_id|version|name)|host\.(?:cpu\..*|ip|mac|image\..*)|container\.(?:image\..*|command.*|runtime.*)|k8s\.(?:pod|namespace|node)\.(?:annotation|label)s?\..*|url\.scheme|http\.scheme|webengine\..*)$/;

/** When a resource has more attributes than fit, those at the front stay. */
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

type Label = readonly [name: string, value: string];

/** The labels that a resource gives to each of its series. */
export class ResourceLabels {
  /** In order of importance; values escaped. */
  readonly #labels: readonly Label[];
  readonly #info: readonly Label[];
  readonly hasTarget: boolean;
  /** job and instance, for at most one target_info of each. */
  readonly target: string;

  constructor(attributes: readonly KeyValue[]) {
    const text = new Map(attributes.map(({ key = "", value }) => [key, attributeText(value)]));
    const service = text.get("service.name") ?? "";
    const namespace = text.get("service.namespace") ?? "";
    const job = service !== "" && namespace !== "" ? `${namespace}/${service}` : service;
    const target: Label[] = [["job", labelValue(job)] as const, ["instance", labelValue(text.get("service.instance.id") ?? "")] as const];
    const present = target.filter(([, value]) => value !== "");
    const taken = new Set(present.map(([name]) => name));
    const rest = mergeAttributes(attributes, taken);
    const unpromoted = new Set(attributes.filter(({ key = "" }) => UNPROMOTED.test(key)).map(({ key = "" }) => labelName(key)));
    this.#labels = byImportance([...present, ...rest.filter(([name]) => !unpromoted.has(name))]);
    this.#info = [...this.#labels, ...rest.filter(([name]) => unpromoted.has(name))];
    this.hasTarget = present.length > 0 && [...text.keys()].some((key) => !/^service\.(?:name|namespace|instance\.id)$/.test(key));
    this.target = present.map(([name, value]) => `${name}="${value}"`).join(",");
  }

  /** `a="1",b="2"`: at most `room` labels, none of the names in `except`. */
  text(room: number, except: ReadonlySet<string>): string {
    return joinLabels(this.#labels.filter(([name]) => !except.has(name)).slice(0, Math.max(room, 0)));
  }

  /** The labels of target_info: all attributes, described and identifying. */
  infoText(): string {
    return joinLabels(this.#info.slice(0, MAX_LABELS));
  }

  /** Names that a point's attribute may not take: FORCED, and the target's. */
  reservedNames(): ReadonlySet<string> {
    return new Set(this.#labels.filter(([name]) => name === "job" || name === "instance").map(([name]) => name));
  }
}

/**
 * Labels of the points of one metric. Points of a metric nearly always have the same keys in the same order, so what depends on the
 * keys alone is worked out once and kept until the keys change.
 */
export class PointLabels {
  readonly #resource: ResourceLabels;
  readonly #reserved: ReadonlySet<string>;
  #keys: string[] | undefined;
  /** The resource's labels, then before each value: `name="` with the comma that belongs before it. Undefined for keys that clash. */
  #head = "";
  #openings: string[] | undefined;

  /** `special`: `le` or `quantile` where the metric's kind adds it. */
  constructor(resource: ResourceLabels, special?: "le" | "quantile") {
    this.#resource = resource;
    this.#reserved = special === undefined ? resource.reservedNames() : new Set([...resource.reservedNames(), special]);
  }

  /** `a="1",b="2"`, possibly empty; undefined when the point alone has more labels than the store takes. */
  text(attributes: readonly KeyValue[]): string | undefined {
    if (!this.#hasKeysOf(attributes)) this.#prepare(attributes);
    const openings = this.#openings;
    if (openings === undefined) return this.#merged(attributes);
    let text = this.#head;
    for (let index = 0; index < openings.length; index++) {
      const value = attributes[index]?.value;
      const plain = value?.stringValue ?? attributeText(value);
      if (plain === "") return this.#merged(attributes);
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
    this.#keys = attributes.map(({ key = "" }) => key);
    const names = this.#keys.map((key) => freeName(labelName(key), this.#reserved));
    const distinct = new Set(names);
    this.#openings = undefined;
    if (distinct.size !== names.length || distinct.has("") || names.length > MAX_LABELS) return;
    this.#head = this.#resource.text(MAX_LABELS - names.length, distinct);
    this.#openings = names.map((name, index) => `${index === 0 && this.#head === "" ? "" : ","}${name}="`);
  }

  #merged(attributes: readonly KeyValue[]): string | undefined {
    const labels = mergeAttributes(attributes, this.#reserved);
    if (labels.length > MAX_LABELS) return undefined;
    const resource = this.#resource.text(MAX_LABELS - labels.length, new Set(labels.map(([name]) => name)));
    return [resource, joinLabels(labels)].filter(Boolean).join(",");
  }
}

/** Attributes as labels: empty values left out (an empty label is an absent one), clashing keys joined in the order of the keys. */
function mergeAttributes(attributes: readonly KeyValue[], reserved: ReadonlySet<string>): Label[] {
  const values = new Map<string, { key: string; text: string }[]>();
  for (const { key = "", value } of attributes) {
    const name = freeName(labelName(key), reserved);
    const text = attributeText(value);
    if (name === "" || text === "") continue;
    const same = values.get(name);
    if (same) same.push({ key, text });
    else values.set(name, [{ key, text }]);
  }
  return [...values].map(([name, same]) => [name, labelValue(joinValues(same))]);
}

function joinValues(values: { key: string; text: string }[]): string {
  const inOrder = values.sort((a, b) => (a.key < b.key ? -1 : Number(a.key > b.key)));
  return inOrder.map(({ text }) => text).join(";");
}

function freeName(name: string, reserved: ReadonlySet<string>): string {
  return reserved.has(name) || FORCED.includes(name) ? `exported_${name}` : name;
}

function byImportance(labels: Label[]): Label[] {
  const rank = ([name]: Label): number => (IMPORTANCE.includes(name) ? IMPORTANCE.indexOf(name) : IMPORTANCE.length);
  return labels.sort((a, b) => rank(a) - rank(b) || (a[0] < b[0] ? -1 : Number(a[0] > b[0])));
}

function joinLabels(labels: readonly Label[]): string {
  return labels.map(([name, value]) => `${name}="${value}"`).join(",");
}
