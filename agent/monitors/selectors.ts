// Decides which Services and pods a monitor selects, by Kubernetes label selectors.
import type { Metadata, Monitor, Selector, Service } from "./monitor-objects.ts";
import { MonitorError } from "./relabeling.ts";

type Labels = Readonly<Record<string, string>>;

/** Pods of these namespaces (or of all) that the selector matches. */
export interface PodSelector {
  readonly namespaces: readonly string[] | undefined;
  readonly selector: Selector;
}

export function selectsService(
  { spec }: Monitor,
  namespaces: readonly string[] | undefined,
  { metadata, spec: service }: Service,
): boolean {
  if (namespaces && !namespaces.includes(metadata.namespace)) return false;
  // Endpoints of a Service without a selector are not pods.
  return Object.keys(service.selector ?? {}).length > 0 && matches(spec.selector ?? {}, metadata.labels ?? {});
}

export function selectsPod(
  { namespaces, selector }: PodSelector,
  { namespace, labels = {} }: Pick<Metadata, "namespace" | "labels">,
): boolean {
  return (!namespaces || namespaces.includes(namespace)) && matches(selector, labels);
}

/**
 * Returns the namespaces that a monitor selects; undefined: all. Throws MonitorError if it selects other namespaces without permission,
 * because a user who may create monitors could then scrape pods of other teams.
 */
export function namespacesOf({ metadata, spec }: Monitor, trusted: readonly string[]): readonly string[] | undefined {
  const { any = false, matchNames } = spec.namespaceSelector ?? {};
  const names = matchNames?.length ? matchNames : [metadata.namespace];
  const isOwn = !any && names.every((name) => name === metadata.namespace);
  if (!isOwn && !trusted.includes(metadata.namespace) && !trusted.includes("*"))
    throw new MonitorError("namespaceSelector selects other namespaces, which discovery.acrossNamespaces must allow");
  return any ? undefined : names;
}

function matches({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
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

/** Converts the selector to what its schema allows. Throws TypeError if that is not possible. */
export function checkedSelector({ matchLabels, matchExpressions }: Selector): Selector {
  return {
    matchLabels: { ...matchLabels },
    matchExpressions: [...(matchExpressions ?? [])].map(({ key, operator, values }) => ({ key, operator, values: [...(values ?? [])] })),
  };
}

/** Ignores inherited properties such as `constructor`. */
export function valueOf(labels: Labels, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}
