// Limits of a reader to values of labels: which records, spans and series of its organisation it may read. The engines add them to every
// statement, below the code of the routes, like the condition of the tenant (engines/clickhouse/tenant-filter.ts,
// storage/metrics/metric-store.ts). Invariant: a row without a limited label, or with another value of it, is not visible.

/** `source` is `service.name`. The environment is `deployment.environment.name` or, without it, the older `deployment.environment`. */
export const LIMITED_LABELS = ["k8s.namespace.name", "source", "deployment.environment.name"] as const;
export type LimitedLabel = (typeof LIMITED_LABELS)[number];

/** Label → the values that the reader may see, at least one. A row must match every label. */
export type LabelLimits = Readonly<Partial<Record<LimitedLabel, readonly string[]>>>;

/** The limits as text that is equal if they are. */
export function writeLabelLimits(limits: LabelLimits | null | undefined): string | null {
  if (!limits) return null;
  const labels = LIMITED_LABELS.flatMap((label) => (limits[label] ? [[label, [...new Set(limits[label])].sort()] as const] : []));
  return JSON.stringify(Object.fromEntries(labels));
}

/** Throws if the text is damaged, or from a version that knows more labels: such a reader must not see more than it may. */
export function readLabelLimits(text: string | null): LabelLimits | undefined {
  if (text === null) return undefined;
  const limits = JSON.parse(text) as Record<string, unknown>;
  const entries = Object.entries(limits);
  if (entries.length === 0 || !entries.every(isValid)) throw new Error("the stored limits of a reader cannot be read");
  return limits;
}

function isValid([label, values]: [string, unknown]): boolean {
  return (LIMITED_LABELS as readonly string[]).includes(label) && Array.isArray(values) && values.length > 0 && values.every(isLabelValue);
}

function isLabelValue(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
