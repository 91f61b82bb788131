// Derives the metadata of metrics from their names, by the naming conventions of Prometheus and OpenMetrics, because the metrics engine
// stores no types, and its metadata covers all tenants.
import agentHelp from "../../../common/agent-metrics.json" with { type: "json" };
import collectedHelp from "./metric-help.json" with { type: "json" };

/**
 * Help texts of the metrics that the agent collects and the backend derives, by their names here. Metrics of applications have none,
 * because neither the wire protocol nor the metrics engine carries help texts of one organisation. Metrics of this list that do not end in
 * _total are gauges, unless they are histograms.
 */
const HELP: ReadonlyMap<string, string> = new Map(Object.entries({ ...agentHelp, ...collectedHelp }));

export interface MetricMetadata {
  readonly type: "counter" | "gauge" | "histogram" | "summary" | "unknown";
  readonly help: string;
  readonly unit: string;
}

/** Base units of OpenMetrics, and other common units. */
const UNIT =
  /_(?<unit>seconds|milliseconds|bytes|bits|ratio|percent|celsius|volts|amperes|watts|joules|hertz|meters|grams|cores)(?:_total)?$/;
const PART = /_(?:bucket|sum|count)$/;

/** The names of series that the metric `name` may have. */
export function seriesNamesOf(name: string): string[] {
  return ["", "_bucket", "_sum", "_count"].map((suffix) => name + suffix);
}

/** `names` are names of series; a histogram or summary becomes one metric. Sorted by name. */
export function metadataOf(names: readonly string[]): Map<string, MetricMetadata> {
  const series = new Set(names);
  const found = new Map<string, MetricMetadata>();
  for (const name of names) {
    const [metric, type] = typeOf(name, series);
    if (type === "unknown" && found.has(metric)) continue;
    const help = HELP.get(metric) ?? "";
    const unit = UNIT.exec(metric)?.groups?.["unit"] ?? "";
    found.set(metric, { type: type === "unknown" && help !== "" ? "gauge" : type, help, unit });
  }
  return new Map([...found].sort(([one], [other]) => (one < other ? -1 : 1)));
}

function typeOf(name: string, series: ReadonlySet<string>): [metric: string, type: MetricMetadata["type"]] {
  if (name.endsWith("_total")) return [name, "counter"];
  const metric = name.replace(PART, "");
  if (metric === "") return [name, "unknown"];
  if (series.has(`${metric}_bucket`)) return [metric, "histogram"];
  if (series.has(`${metric}_sum`) && series.has(`${metric}_count`)) return [metric, "summary"];
  return [name, "unknown"];
}
