// The limits of a reader to values of labels as text, for the CLI and the console: `k8s.namespace.name=shop,web source=cart`. The backend
// validates labels and values.

export type LabelLimits = Readonly<Record<string, readonly string[]>>;

/** Undefined without limits. A label that occurs twice has the values of both. Throws Error with the wrong text. */
export function parseLabelLimits(texts: readonly string[]): LabelLimits | undefined {
  const limits = new Map<string, string[]>();
  for (const text of texts) {
    const at = text.indexOf("=");
    const values = text.slice(at + 1).split(",");
    if (at < 1 || values.includes("")) throw new Error(`${text}: must be label=value,value such as k8s.namespace.name=shop,web`);
    const label = text.slice(0, at);
    limits.set(label, [...(limits.get(label) ?? []), ...values]);
  }
  return limits.size === 0 ? undefined : Object.fromEntries(limits);
}

export function formatLabelLimits(limits: Readonly<Record<string, readonly string[] | undefined>> | null | undefined): string {
  return Object.entries(limits ?? {})
    .map(([label, values = []]) => `${label}=${values.join(",")}`)
    .join(" ");
}
