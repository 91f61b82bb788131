// Endpoints for labels, streams, amounts and fields, without entries. Invariant: labels and amounts take a selector without stages, because
// they evaluate none.
import { type Add, optionalSelector, QUERY, requiredLogs, SELECTOR, SPAN, text } from "./endpoint-parts.ts";
import { jsonOf } from "./json-answer.ts";
import { type Given, readLimit, readSpan, textOf, wrongParameter } from "./parameters.ts";
import { readSelectorAlone } from "./read-query.ts";
import { Patterns } from "./regex.ts";

const LIMITS = { limit: text("how many; 1000 by default, at most 5000"), line_limit: text("records that are looked at; 1000 by default") };
const MOST_VOLUMES = 5000;

const selected = (given: Given, nowNs: bigint) => ({ span: readSpan(given, nowNs), selectors: optionalSelector(given) });

export function addLabels(add: Add): void {
  add("labels", "names of labels of streams", { ...SPAN, query: SELECTOR }, (given, { reader, nowNs }) => {
    const asked = selected(given, nowNs);
    return (orgId, options) => reader.labelNames(orgId, asked, options);
  });
  add("label/:name/values", "values of a label", { ...SPAN, query: SELECTOR }, (given, { reader, nowNs, name }) => {
    const [asked, label] = [selected(given, nowNs), checkedName(name)];
    return (orgId, options) => reader.labelValues(orgId, label, asked, options);
  });
  add("series", "streams by their labels", { ...SPAN, "match[]": { type: "array", items: SELECTOR } }, (given, { reader, nowNs }) => {
    const texts = [given["match[]"] ?? [], given["match"] ?? []].flat();
    const patterns = new Patterns();
    const asked = { span: readSpan(given, nowNs), selectors: texts.map((one) => readSelectorAlone("match[]", one, patterns)) };
    return (orgId, options) => reader.series(orgId, asked, options);
  });
  add("detected_labels", "labels of streams, and how many values they have", { ...SPAN, query: SELECTOR }, (given, { reader, nowNs }) => {
    const asked = selected(given, nowNs);
    return (orgId, options) => reader.detectedLabels(orgId, asked, options);
  });
}

export function addAmounts(add: Add): void {
  add("index/stats", "how much a selector selects", { ...SPAN, query: SELECTOR }, (given, { reader, nowNs }) => {
    const asked = { span: readSpan(given, nowNs), selectors: optionalSelector(given) };
    return (orgId, options) => reader.statistics(orgId, asked, options);
  });
  const parameters = {
    limit: text("100 by default"),
    targetLabels: text("names of labels, by commas"),
    aggregateBy: text("labels or series"),
  };
  add("index/volume", "bytes by labels", { ...SPAN, query: SELECTOR, ...parameters }, (given, { reader, nowNs }) => {
    const aggregateBy = textOf(given, "aggregateBy") ?? "series";
    if (aggregateBy !== "series") throw wrongParameter("aggregateBy", "only series is supported: name one label in targetLabels");
    const labels = (textOf(given, "targetLabels") ?? "").split(",").filter(Boolean);
    if (!labels.every((label) => /^[a-zA-Z_]\w{0,255}$/.test(label)) || labels.length > 20)
      throw wrongParameter("targetLabels", "must be 20 names of labels at most");
    const limit = readLimit(given, "limit", 100, MOST_VOLUMES);
    const asked = { span: readSpan(given, nowNs), selectors: optionalSelector(given), limit, labels };
    return (orgId, options) => reader.volume(orgId, asked, options);
  });
  add("patterns", "patterns of lines, always empty", { ...SPAN, query: QUERY, step: text("a duration, or seconds") }, (given) => {
    if (textOf(given, "query") !== undefined) requiredLogs(given);
    return async () => jsonOf({ status: "success", data: [] });
  });
}

const fieldsAsked = (given: Given, nowNs: bigint) => ({
  query: requiredLogs(given),
  span: readSpan(given, nowNs),
  lineLimit: readLimit(given, "line_limit", 1000, 5000),
  limit: readLimit(given, "limit", 1000, 5000),
});

export function addFields(add: Add): void {
  const parameters = { ...SPAN, query: QUERY, ...LIMITS, step: text("ignored") };
  add("detected_fields", "fields of the newest records", parameters, (given, { reader, nowNs }) => {
    const fields = fieldsAsked(given, nowNs);
    return (orgId, options) => reader.detectedFields(orgId, fields, options);
  });
  add("detected_field/:name/values", "values of a field of the newest records", parameters, (given, { reader, nowNs, name }) => {
    const fields = { ...fieldsAsked(given, nowNs), name: checkedName(name) };
    return (orgId, options) => reader.detectedFields(orgId, fields, options);
  });
}

function checkedName(name = ""): string {
  if (!/^[a-zA-Z_]\w{0,255}$/.test(name)) throw wrongParameter("name", "must be the name of a label");
  return name;
}
