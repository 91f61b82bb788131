// Converts service level objectives from and to OpenSLO v1 documents (https://openslo.com). Invariants: what cannot be represented is a Problem
// that names the field, never dropped silently; an exported document is read back as the same objective.
import { stringify } from "yaml";
import { Fields, isObject } from "./alerting-fields.ts";
import type { Resource } from "./alerting-file.ts";
import { Problem } from "./cli-error.ts";

type Json = Readonly<Record<string, unknown>>;

const VERSION = "openslo/v1";
const NO_TRAFFIC = "atherops.io/no-traffic";
const ALERTS = "atherops.io/alerts";
/** Documents without a counterpart: burn rate alerts are generated. */
const IGNORED = new Set(["Service", "DataSource", "AlertPolicy", "AlertCondition", "AlertNotificationTarget"]);

export function isOpenSlo(document: unknown): boolean {
  return isObject(document) && document["apiVersion"] === VERSION;
}

/** The objectives of all documents of a file. Throws Problem. */
export function readOpenSlos(file: string, documents: readonly unknown[]): Fields[] {
  const all = documents.map((document) => document as Json);
  const indicators = new Map(all.filter(({ kind }) => kind === "SLI").map((sli) => [at(sli, "metadata", "name"), at(sli, "spec")]));
  return all.flatMap((document, index) => {
    const where = `${file}: document ${index + 1}`;
    const { kind } = document;
    if (kind === "SLI" || IGNORED.has(String(kind))) return [];
    if (kind !== "SLO") throw new Problem(`${where}: kind ${String(kind)} is not supported: use SLO and SLI`);
    return [new Fields(where, readSlo(document, indicators, where))];
  });
}

function readSlo(document: Json, indicators: ReadonlyMap<unknown, unknown>, where: string): Json {
  const [metadata, spec] = [at(document, "metadata"), at(document, "spec")];
  const fail = (field: string, reason: string): Problem => new Problem(`${where}: ${field}: ${reason}`);
  const method = at(spec, "budgetingMethod") ?? "Occurrences";
  if (method !== "Occurrences") throw fail("spec.budgetingMethod", `${JSON.stringify(method)} is not supported: use Occurrences`);
  const objectives = at(spec, "objectives");
  if (!Array.isArray(objectives) || objectives.length !== 1) throw fail("spec.objectives", "must have exactly one objective");
  const [target, percent] = [at(objectives[0], "target"), at(objectives[0], "targetPercent")];
  if (typeof (percent ?? target) !== "number") throw fail("spec.objectives[0].target", "must be a number, such as 0.999");
  if (percent !== undefined && target !== undefined) throw fail("spec.objectives[0].targetPercent", "set either target or targetPercent");
  const indicator = at(spec, "indicator", "spec") ?? indicators.get(at(spec, "indicatorRef"));
  if (!isObject(indicator)) throw fail("spec.indicator", "must have a spec, or indicatorRef must name an SLI in the same file");
  const annotation = (name: string): unknown => at(metadata, "annotations", name);
  return {
    name: at(metadata, "displayName") ?? at(metadata, "name"),
    description: at(spec, "description") ?? "",
    objective: typeof percent === "number" ? percent : Number((Number(target) * 100).toPrecision(12)),
    window: readWindow(at(spec, "timeWindow"), fail),
    indicator: readIndicator(indicator, fail),
    no_traffic: annotation(NO_TRAFFIC) ?? "ignore",
    alerts: annotation(ALERTS) !== "false",
    labels: readLabels(at(metadata, "labels") ?? {}, fail),
  };
}

const isText = (value: unknown): boolean => [value].flat().every((part) => typeof part === "string");

function readLabels(labels: unknown, fail: Fail): Json {
  if (!isObject(labels) || !Object.values(labels).every(isText)) throw fail("metadata.labels", "each must be text, or a list of text");
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, [value].flat().join(",")]));
}

type Fail = (field: string, reason: string) => Problem;

function readWindow(windows: unknown, fail: Fail): string {
  if (!Array.isArray(windows) || windows.length !== 1) throw fail("spec.timeWindow", "must have exactly one window");
  const duration = at(windows[0], "duration");
  if (at(windows[0], "isRolling") === true)
    return typeof duration === "string" ? duration.replace(/^(\d+)w$/, (_, n) => `${Number(n) * 7}d`) : "";
  if (duration !== "1M") throw fail("spec.timeWindow[0]", "a calendar window must be 1M; other windows are rolling");
  const zone = at(windows[0], "calendar", "timeZone");
  if (zone !== undefined && zone !== "UTC") throw fail("spec.timeWindow[0].calendar.timeZone", "only UTC is supported");
  return "month";
}

function readIndicator(spec: Json, fail: Fail): Json {
  const ratio = spec["ratioMetric"];
  if (!isObject(ratio)) throw fail("spec.indicator.spec", "only ratioMetric is supported");
  if (ratio["raw"] !== undefined) throw fail("spec.indicator.spec.ratioMetric.raw", "is not supported: use good or bad, and total");
  const source = (part: string): Json | undefined => at(ratio, part, "metricSource") as Json | undefined;
  const own = at(source("total"), "spec", "indicator");
  if (String(source("total")?.["type"]).toLowerCase() === "atherops" && isObject(own)) return own;
  const query = (part: string): string | undefined => {
    const metric = source(part);
    if (!metric) return undefined;
    const text = at(metric, "spec", "query");
    const field = `spec.indicator.spec.ratioMetric.${part}.metricSource`;
    if (!/^(?:prometheus|victoriametrics)$/i.test(String(metric["type"]))) throw fail(field, "its type must be Prometheus");
    if (typeof text !== "string") throw fail(`${field}.spec.query`, "must be PromQL");
    return withWindow(text, ratio["counter"] === true, (reason) => fail(`${field}.spec.query`, reason));
  };
  const parts = Object.entries({ good: query("good"), bad: query("bad"), total: query("total") });
  return { promql: Object.fromEntries(parts.filter(([, value]) => value !== undefined)) };
}

const SELECTOR = String.raw`(?:[a-zA-Z_:][\w:]*(?:\{[^{}]*\})?|\{[^{}]*\})`;
const PLAIN = new RegExp(`^\\s*(?:sum\\s*\\(\\s*(${SELECTOR})\\s*\\)|(${SELECTOR}))\\s*$`);

/** A query of a counter without a range becomes its increase in the window. */
function withWindow(query: string, isCounter: boolean, fail: (reason: string) => Problem): string {
  const text = query.replaceAll(/\[\s*(?:\{\{\s*\.window\s*\}\}|\$__?window)\s*\]/gi, "[$window]");
  if (text.includes("[$window]")) return text;
  const [, summed, selector] = PLAIN.exec(text) ?? [];
  if (!isCounter || (summed ?? selector) === undefined)
    throw fail("write the range as [$window], such as increase(requests_total[$window])");
  return `increase(${summed ?? selector}[$window])`;
}

const prometheus = (query: string) => ({ metricSource: { type: "Prometheus", spec: { query } } });

export function formatOpenSlo(slo: Resource): string {
  const { name, description, objective, window, indicator, no_traffic: noTraffic, alerts, labels } = slo;
  const { promql } = indicator as { promql?: Readonly<Record<string, string>> };
  const own = { metricSource: { type: "AtherOps", spec: { indicator } } };
  const ratio = promql
    ? Object.fromEntries(Object.entries(promql).map(([part, query]) => [part, prometheus(query)]))
    : { good: own, total: own };
  const annotations = { ...(noTraffic === "bad" && { [NO_TRAFFIC]: "bad" }), ...(alerts === false && { [ALERTS]: "false" }) };
  const slug = slugOf(String(name));
  const calendar = { duration: "1M", isRolling: false, calendar: { startTime: "2026-01-01 00:00:00", timeZone: "UTC" } };
  const calls = Object.values(indicator as Readonly<Record<string, { service?: string }>>)[0];
  const document = {
    apiVersion: VERSION,
    kind: "SLO",
    metadata: {
      name: slug,
      displayName: name,
      ...(Object.keys(labels as Json).length > 0 && { labels }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    spec: {
      ...(description !== "" && { description }),
      service: slugOf(calls?.service ?? String(name)),
      indicator: { metadata: { name: slug }, spec: { ratioMetric: { counter: true, ...ratio } } },
      timeWindow: [window === "month" ? calendar : { duration: window, isRolling: true }],
      budgetingMethod: "Occurrences",
      objectives: [{ target: Number((Number(objective) / 100).toPrecision(12)) }],
    },
  };
  return stringify(document, { lineWidth: 0, blockQuote: "literal", aliasDuplicateObjects: false });
}

/** A name of RFC 1123. */
function slugOf(text: string): string {
  const words = text
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(Boolean);
  const slug = words.join("-").slice(0, 63);
  return (slug.endsWith("-") ? slug.slice(0, -1) : slug) || "slo";
}

function at(value: unknown, ...path: string[]): unknown {
  let current = value;
  for (const name of path) current = isObject(current) ? current[name] : undefined;
  return current;
}
