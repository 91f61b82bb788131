// Limits the series and alerts of a reader with LabelLimits: by filters that VictoriaMetrics adds to every selector of a query
// (`extra_filters[]`), and by a check of labels. Invariant: a series without a limited label is not visible.
import type { LabelLimits } from "../../admission/limited-labels.ts";

const ENVIRONMENT = "deployment_environment_name";
const OLD_ENVIRONMENT = "deployment_environment";

/** Series selectors; a series has to match one of them. None without limits. */
export function seriesFilters(limits: LabelLimits | undefined): string[] {
  if (!limits) return [];
  const { "k8s.namespace.name": namespaces, source, "deployment.environment.name": environments } = limits;
  const common = [...oneOf("k8s_namespace_name", namespaces), ...oneOf("service_name", source)];
  const alternatives = environments
    ? [oneOf(ENVIRONMENT, environments), [`${ENVIRONMENT}=""`, ...oneOf(OLD_ENVIRONMENT, environments)]]
    : [[]];
  return alternatives.map((alternative) => `{${[...common, ...alternative].join(",")}}`);
}

/** Whether the labels of a series or an alert are within the limits. */
export function matchesLimits(limits: LabelLimits | undefined, labels: Readonly<Record<string, string>>): boolean {
  if (!limits) return true;
  const read = (name: string): string => (Object.hasOwn(labels, name) ? (labels[name] ?? "") : "");
  return (
    isOneOf(read("k8s_namespace_name"), limits["k8s.namespace.name"]) &&
    isOneOf(read("service_name"), limits.source) &&
    isOneOf(read(ENVIRONMENT) || read(OLD_ENVIRONMENT), limits["deployment.environment.name"])
  );
}

function isOneOf(value: string, values: readonly string[] | undefined): boolean {
  return !values || values.includes(value);
}

function oneOf(label: string, values: readonly string[] | undefined): string[] {
  return values ? [`${label}=~${JSON.stringify(values.map(escapeRegExp).join("|"))}`] : [];
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.|?*+()[\]{}]/g, String.raw`\$&`);
}
