// Routes that tell of labels, streams, amounts and fields, without entries. Invariant: selectors stand alone there: a stage would be one that
// nobody evaluates.
import { jsonOf } from "./json-answer.ts";
import { type Given, readLimit, readSpan, textOf, wrongParameter } from "./parameters.ts";
import { readSelectorAlone } from "./read-query.ts";
import type { LokiReader } from "./reader.ts";
import { Patterns } from "./regex.ts";
import { type Get, optionalSelector, QUERY, requiredLogs, SELECTOR, SPAN, text } from "./route-parts.ts";

const LIMITS = { limit: text("how many; 1000 by default, at most 5000"), line_limit: text("records that are looked at; 1000 by default") };
const MOST_VOLUMES = 5000;

export function addLabels(get: Get, reader: LokiReader, nowNs: () => bigint): void {
  const selected = (given: Given) => ({ span: readSpan(given, nowNs()), selectors: optionalSelector(given) });
  get("labels", "names of labels of streams", { ...SPAN, query: SELECTOR }, (given) => {
    const asked = selected(given);
    return (orgId, options) => reader.labelNames(orgId, asked, options);
  });
  get("label/:name/values", "values of a label", { ...SPAN, query: SELECTOR }, (given, request) => {
    const [asked, name] = [selected(given), nameOf(request.params)];
    return (orgId, options) => reader.labelValues(orgId, name, asked, options);
  });
  get("series", "streams by their labels", { ...SPAN, "match[]": { type: "array", items: SELECTOR } }, (given) => {
    const texts = [given["match[]"] ?? [], given["match"] ?? []].flat();
    const patterns = new Patterns();
    const asked = { span: readSpan(given, nowNs()), selectors: texts.map((one) => readSelectorAlone("match[]", one, patterns)) };
    return (orgId, options) => reader.series(orgId, asked, options);
  });
  get("detected_labels", "labels of streams, and how many values they have", { ...SPAN, query: SELECTOR }, (given) => {
    const asked = selected(given);
    return (orgId, options) => reader.detectedLabels(orgId, asked, options);
  });
}

export function addAmounts(get: Get, reader: LokiReader, nowNs: () => bigint): void {
  get("index/stats", "how much a selector selects", { ...SPAN, query: SELECTOR }, (given) => {
    const asked = { span: readSpan(given, nowNs()), selectors: optionalSelector(given) };
    return (orgId, options) => reader.statistics(orgId, asked, options);
  });
  const parameters = {
    limit: text("100 by default"),
    targetLabels: text("names of labels, by commas"),
    aggregateBy: text("labels or series"),
  };
  get("index/volume", "bytes by labels", { ...SPAN, query: SELECTOR, ...parameters }, (given) => {
    const aggregateBy = textOf(given, "aggregateBy") ?? "series";
    if (aggregateBy !== "series") throw wrongParameter("aggregateBy", "only series is supported: name one label in targetLabels");
    const labels = (textOf(given, "targetLabels") ?? "").split(",").filter(Boolean);
    if (!labels.every((label) => /^[a-zA-Z_]\w{0,255}$/.test(label)) || labels.length > 20)
      throw wrongParameter("targetLabels", "must be 20 names of labels at most");
    const limit = readLimit(given, "limit", 100, MOST_VOLUMES);
    const asked = { span: readSpan(given, nowNs()), selectors: optionalSelector(given), limit, labels };
    return (orgId, options) => reader.volume(orgId, asked, options);
  });
  get("patterns", "patterns of lines, always empty", { ...SPAN, query: QUERY, step: text("a duration, or seconds") }, (given) => {
    if (textOf(given, "query") !== undefined) requiredLogs(given);
    return async () => jsonOf({ status: "success", data: [] });
  });
}

export function addFields(get: Get, reader: LokiReader, nowNs: () => bigint): void {
  const asked = (given: Given) => ({
    query: requiredLogs(given),
    span: readSpan(given, nowNs()),
    lineLimit: readLimit(given, "line_limit", 1000, 5000),
    limit: readLimit(given, "limit", 1000, 5000),
  });
  const parameters = { ...SPAN, query: QUERY, ...LIMITS, step: text("ignored") };
  get("detected_fields", "fields of the newest records", parameters, (given) => {
    const fields = asked(given);
    return (orgId, options) => reader.detectedFields(orgId, fields, options);
  });
  get("detected_field/:name/values", "values of a field of the newest records", parameters, (given, request) => {
    const fields = { ...asked(given), name: nameOf(request.params) };
    return (orgId, options) => reader.detectedFields(orgId, fields, options);
  });
}

function nameOf(parameters: unknown): string {
  const { name } = parameters as { name: string };
  if (!/^[a-zA-Z_]\w{0,255}$/.test(name)) throw wrongParameter("name", "must be the name of a label");
  return name;
}
