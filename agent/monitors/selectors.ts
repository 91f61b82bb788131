// Which Services and pods a monitor selects. Services are selected here; pods by relabelings, because the collector discovers them.
import type { Monitor, Selector, Service } from "./monitor-objects.ts";
import { keep, labelName, literally, type Rule } from "./relabeling.ts";

export function selectsService({ metadata, spec }: Monitor, service: Service): boolean {
  const { any = false, matchNames } = spec.namespaceSelector ?? {};
  const { namespace, labels = {} } = service.metadata;
  if (!any && !(matchNames?.length ? matchNames : [metadata.namespace]).includes(namespace)) return false;
  // A Service without a selector has endpoints that are no pods.
  if (Object.keys(service.spec.selector ?? {}).length === 0) return false;
  const { matchLabels = {}, matchExpressions = [] } = spec.selector ?? {};
  return (
    Object.entries(matchLabels).every(([name, value]) => valueOf(labels, name) === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = valueOf(labels, key);
      if (operator === "Exists") return value !== undefined;
      if (operator === "DoesNotExist") return value === undefined;
      const isIn = value !== undefined && values.includes(value);
      return operator === "In" ? isIn : operator === "NotIn" && !isIn;
    })
  );
}

export function inNamespaces({ metadata, spec }: Monitor): Rule[] {
  const { any = false, matchNames } = spec.namespaceSelector ?? {};
  if (any) return [];
  return [keep(["__meta_kubernetes_namespace"], (matchNames?.length ? matchNames : [metadata.namespace]).map(literally).join("|"))];
}

export function selectsPods({ matchLabels = {}, matchExpressions = [] }: Selector): Rule[] {
  const expressions = [
    ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: "In", values: [value] })),
    ...matchExpressions,
  ];
  return expressions.map(({ key, operator, values = [] }) => {
    const source_labels = ["labelpresent", "label"].map((what) => `__meta_kubernetes_pod_${what}_${labelName(key)}`);
    const isNegative = operator === "NotIn" || operator === "DoesNotExist";
    const regex = operator.endsWith("In") ? `true;(${values.map(literally).join("|")})` : "true;.*";
    return { source_labels, regex, action: isNegative ? "drop" : "keep" };
  });
}

/** Undefined for what every object has, such as `constructor`. */
export function valueOf(labels: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}
