// Validates relabelings of monitors and translates them to Prometheus' relabel_config. Invariants: the collector accepts every result, because
// one invalid expression makes it reject all jobs; no relabeling changes a target's address, so a monitor can direct requests only to the pods
// that it selects.

/** A monitor or one of its endpoints cannot be scraped; the message names the field. */
export class MonitorError extends Error {
  override readonly name = "MonitorError";
}

/** RelabelConfig of `monitoring.coreos.com/v1`. */
export interface Relabeling {
  readonly sourceLabels?: readonly string[];
  readonly separator?: string;
  readonly targetLabel?: string;
  readonly regex?: string;
  readonly modulus?: number;
  readonly replacement?: string;
  readonly action?: string;
}

export type Rule = Readonly<Record<string, unknown>>;

const WITH_TARGET = new Set(["replace", "lowercase", "uppercase", "keepequal", "dropequal", "hashmod"]);
const WITHOUT_TARGET = new Set(["keep", "drop", "labelmap", "labeldrop", "labelkeep"]);
const DROPS_LABELS = new Set(["labeldrop", "labelkeep"]);
const COMPARES = new Set(["keepequal", "dropequal"]);
const LABEL = /^[a-zA-Z_][a-zA-Z0-9_]{0,127}$/;
/** Allowed target labels: no internal labels, except those that define which page of the pod is scraped. */
const TARGET = /^(?!__)|^__(tmp_|param_)|^__(metrics_path__|scheme__|name__)$/;
/** Labels and annotations of a pod become labels with the same names, which never begin with an underscore. */
const LABELMAP = /^__meta_kubernetes_(pod_label|pod_annotation)_\(\.[+*]\)$/;
const MAX_RULES = 100;
const MAX_REGEX_CHARACTERS = 4096;

/** `field`: path in the monitor, for messages. Throws MonitorError. */
export function relabelRules(relabelings: readonly Relabeling[] | undefined, field: string): Rule[] {
  if ((relabelings?.length ?? 0) > MAX_RULES) throw new MonitorError(`${field} has more than ${MAX_RULES} rules`);
  return (relabelings ?? []).map((relabeling, i) => rule(relabeling, `${field}[${i}]`));
}

function rule(relabeling: Relabeling, field: string): Rule {
  const { sourceLabels = [], separator, targetLabel, regex, modulus, replacement } = relabeling;
  const action = (relabeling.action ?? "replace").toLowerCase();
  const refuse = (why: string): never => {
    throw new MonitorError(`${field}.${why}`);
  };
  if (!WITH_TARGET.has(action) && !WITHOUT_TARGET.has(action)) refuse(`action "${action}" is not supported`);
  if (!sourceLabels.every((label) => LABEL.test(label))) refuse("sourceLabels has an invalid name");
  if (WITH_TARGET.has(action) && !(targetLabel !== undefined && LABEL.test(targetLabel) && TARGET.test(targetLabel)))
    refuse(`targetLabel "${targetLabel ?? ""}" is not supported`);
  if (action === "labelmap" && !(LABELMAP.test(regex ?? "") && [undefined, "$1", "${1}"].includes(replacement)))
    refuse("regex of a labelmap must be __meta_kubernetes_pod_label_(.+) or __meta_kubernetes_pod_annotation_(.+), its replacement $1");
  if (DROPS_LABELS.has(action) && regex === undefined) refuse("regex is missing");
  if (action === "hashmod" && !(Number.isSafeInteger(modulus) && Number(modulus) > 0)) refuse("modulus must be a positive number");
  if (regex !== undefined && !isAccepted(regex)) refuse(`regex "${regex.slice(0, 100)}" is not supported`);
  return {
    action,
    // Prometheus refuses fields that the action does not use.
    ...(sourceLabels.length > 0 && !DROPS_LABELS.has(action) && { source_labels: sourceLabels }),
    ...(separator !== undefined && !DROPS_LABELS.has(action) && !COMPARES.has(action) && { separator }),
    ...(WITH_TARGET.has(action) && { target_label: targetLabel }),
    ...(regex !== undefined && !COMPARES.has(action) && { regex }),
    ...(action === "hashmod" && { modulus }),
    ...(replacement !== undefined && ["replace", "labelmap"].includes(action) && { replacement }),
  };
}

/** Syntax that Go's RE2 does not support, or interprets differently from JavaScript. */
const OTHER_SYNTAX = /\\[1-9ckpPuQEC]|\\x\{|\(\?(?!:)|\[[[:]|\[\^?\]/;
/** RE2 also refuses nested groups (each has up to five nodes of 1,000) and nested repetitions. */
const MAX_GROUPS = 100;
const MAX_REPETITIONS = 1000;

/** True for expressions in the common syntax of RE2 and JavaScript, including a leading `(?i)`, that do not exceed RE2's limits. */
export function isAccepted(regex: string): boolean {
  const shared = regex.replace(/^\(\?i\)/, "");
  if (regex.length > MAX_REGEX_CHARACTERS || OTHER_SYNTAX.test(shared) || shared.split("(").length > MAX_GROUPS) return false;
  // RE2 folds each character of a range: [\u0100-\u{10fffe}] takes 2 ms.
  if (shared !== regex && !/^\p{ASCII}*$/u.test(shared)) return false;
  // RE2 does not support \b within a class.
  if (repetitions(regex) > MAX_REPETITIONS || (shared.includes("[") && shared.includes(String.raw`\b`))) return false;
  try {
    return new RegExp(shared, "u").unicode;
  } catch {
    return false;
  }
}

/** Upper bound of the expression's length with expanded repetitions, as RE2 compiles it. */
export function expandedCharacters(regex: string): number {
  return repetitions(regex) * regex.length;
}

function repetitions(regex: string): number {
  const counts = [...regex.matchAll(/\{(\d+)(?:,(\d*))?\}/g)].map(([, from, to]) => Number(to || from) || 1);
  return counts.reduce((product, count) => product * count, 1);
}

/** Returns an expression that matches only this text. */
export function escapeRegex(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

/** Converts a label or annotation name as Prometheus does for its own labels. */
export function labelName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_]/g, "_");
}

export function keepRule(source_labels: readonly string[], regex: string): Rule {
  return { source_labels, regex, action: "keep" };
}

/** An empty label is not copied. */
export function copyRule(from: string, to: string): Rule {
  return { source_labels: [from], regex: "(.+)", target_label: to, replacement: "$1", action: "replace" };
}
