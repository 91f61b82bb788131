// Converts a PromQL expression to the builder's fields and back. Invariant: an expression is converted only if the builder would write
// exactly the same one, so a part without a field is never lost.

export const OPERATORS = ["=", "!=", "=~", "!~"] as const;
export const CHANGES = ["", "rate", "increase"] as const;
/** `p50` and similar are quantiles over the buckets of a histogram. */
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
  readonly window: string;
  readonly combination: (typeof COMBINATIONS)[number];
  /** Labels that the combined series keep. */
  readonly by: readonly string[];
}

const NOTHING: Built = { metric: "", filters: [], change: "", window: "5m", combination: "", by: [] };

/** The first query for a metric: the rate of a counter, the 95th percentile of a histogram. */
export function firstQuery(metric: string, type: string | undefined): Built {
  if (type === "counter") return { ...NOTHING, metric, change: "rate", combination: "sum" };
  if (type === "histogram") return { ...NOTHING, metric: `${metric}_bucket`, change: "rate", combination: "p95" };
  return { ...NOTHING, metric };
}

export function formatQuery({ metric, filters, change, window, combination, by }: Built): string {
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
export function parseQuery(query: string): Built | undefined {
  const [, quantile, ofQuantile] = /^histogram_quantile\(\s*0\.(\d\d?),(.*)\)$/s.exec(query.trim()) ?? [];
  const combined = (ofQuantile ?? query).trim();
  const [, name, labels, ofCombination] = /^(sum|avg|min|max|count)(?: ?by ?\(([\w, ]*)\))? ?\((.*)\)$/s.exec(combined) ?? [];
  const changed = (ofCombination ?? combined).trim();
  const [, change, ofChange, window = NOTHING.window] = /^(rate|increase)\((.*)\[(\w+)\]\s*\)$/s.exec(changed) ?? [];
  const [, metric, matchers = ""] = /^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?$/s.exec((ofChange ?? changed).trim()) ?? [];
  const filters = parseFilters(matchers);
  if (metric === undefined || filters === undefined) return undefined;
  const by = (labels ?? "")
    .split(",")
    .map((label) => label.trim())
    .filter((label) => label !== "" && !(quantile && label === "le"));
  const combination = (quantile ? `p${quantile.padEnd(2, "0")}` : (name ?? "")) as Built["combination"];
  const built: Built = { metric, filters, change: (change ?? "") as Built["change"], window, combination, by };
  const isSame = COMBINATIONS.includes(combination) && removeSpaces(formatQuery(built)) === removeSpaces(query);
  return isSame ? built : undefined;
}

function parseFilters(text: string): Filter[] | undefined {
  const matcher = /\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)/gy;
  const matches = [...text.matchAll(matcher)];
  try {
    return matches.map(([, label = "", operator, value = '""']) => ({
      label,
      operator: operator as Filter["operator"],
      value: JSON.parse(value) as string,
    }));
  } catch {
    // PromQL has escapes that JSON does not have.
    return undefined;
  }
}

function removeSpaces(query: string): string {
  return query.replaceAll(/\s+/g, "");
}
