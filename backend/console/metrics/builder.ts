// A PromQL expression as the fields of the builder. Invariant: an expression is read back only if the builder writes the same one from what was
// read, so a part that has no field is never lost.

export const OPERATORS = ["=", "!=", "=~", "!~"] as const;
export const CHANGES = ["", "rate", "increase"] as const;
/** `p50` and the like are quantiles of the buckets of a histogram. */
export const COMBINATIONS = ["", "sum", "avg", "min", "max", "count", "p50", "p90", "p95", "p99"] as const;

export interface Filter {
  readonly label: string;
  readonly operator: (typeof OPERATORS)[number];
  readonly value: string;
}

export interface Built {
  readonly metric: string;
  readonly filters: readonly Filter[];
  readonly change: (typeof CHANGES)[number];
  /** What a change is calculated over. */
  readonly window: string;
  readonly combination: (typeof COMBINATIONS)[number];
  /** Labels that the combined series keep. */
  readonly by: readonly string[];
}

const NOTHING: Built = { metric: "", filters: [], change: "", window: "5m", combination: "", by: [] };

/** What an operator wants to see of a metric first: the rate of a counter, and the 95th percentile of a histogram. */
export function firstQuery(metric: string, type: string | undefined): Built {
  if (type === "counter") return { ...NOTHING, metric, change: "rate", combination: "sum" };
  if (type === "histogram") return { ...NOTHING, metric: `${metric}_bucket`, change: "rate", combination: "p95" };
  return { ...NOTHING, metric };
}

export function writtenQuery({ metric, filters, change, window, combination, by }: Built): string {
  const matchers = filters.map(({ label, operator, value }) => `${label}${operator}${JSON.stringify(value)}`).join(", ");
  const series = matchers === "" ? metric : `${metric}{${matchers}}`;
  const changed = change === "" ? series : `${change}(${series}[${window}])`;
  if (combination === "") return changed;
  const isQuantile = combination.startsWith("p");
  const labels = isQuantile ? ["le", ...by] : by;
  const combined = `${isQuantile ? "sum" : combination}${labels.length > 0 ? ` by (${labels.join(", ")})` : ""} (${changed})`;
  return isQuantile ? `histogram_quantile(${Number(combination.slice(1)) / 100}, ${combined})` : combined;
}

/** undefined if the builder could not have written the expression. */
export function readQuery(query: string): Built | undefined {
  const [, quantile, ofQuantile] = /^histogram_quantile\(\s*0\.(\d\d?),(.*)\)$/s.exec(query.trim()) ?? [];
  const combined = (ofQuantile ?? query).trim();
  const [, name, labels, ofCombination] = /^(sum|avg|min|max|count)(?: ?by ?\(([\w, ]*)\))? ?\((.*)\)$/s.exec(combined) ?? [];
  const changed = (ofCombination ?? combined).trim();
  const [, change, ofChange, window = NOTHING.window] = /^(rate|increase)\((.*)\[(\w+)\]\s*\)$/s.exec(changed) ?? [];
  const [, metric, matchers = ""] = /^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?$/s.exec((ofChange ?? changed).trim()) ?? [];
  const filters = readFilters(matchers);
  if (metric === undefined || filters === undefined) return undefined;
  const by = (labels ?? "")
    .split(",")
    .map((label) => label.trim())
    .filter((label) => label !== "" && !(quantile && label === "le"));
  const combination = (quantile ? `p${quantile.padEnd(2, "0")}` : (name ?? "")) as Built["combination"];
  const built: Built = { metric, filters, change: (change ?? "") as Built["change"], window, combination, by };
  const isSame = COMBINATIONS.includes(combination) && squeezed(writtenQuery(built)) === squeezed(query);
  return isSame ? built : undefined;
}

function readFilters(text: string): Filter[] | undefined {
  const matcher = /\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)/gy;
  const found = [...text.matchAll(matcher)];
  try {
    return found.map(([, label = "", operator, value = '""']) => ({
      label,
      operator: operator as Filter["operator"],
      value: JSON.parse(value) as string,
    }));
  } catch {
    // PromQL knows escapes that JSON does not.
    return undefined;
  }
}

function squeezed(query: string): string {
  return query.replaceAll(/\s+/g, "");
}
