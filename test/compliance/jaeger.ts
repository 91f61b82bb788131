// Jaeger's storage integration tests (github.com/jaegertracing/jaeger, internal/storage/integration) over HTTP: the fixtures are written as
// OTLP and read with Jaeger's API v3, as Jaeger's own end-to-end tests do. Invariant: both sides are normalised by the same function, whose
// losses the page lists.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { eventually } from "../fixtures/processes.ts";
import type { Product } from "./product.ts";

export interface JaegerTest {
  readonly name: string;
  /** Undefined: passed. */
  readonly why?: string | undefined;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name?: string;
  readonly kind?: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number; readonly message?: string };
  readonly attributes?: readonly Attribute[];
  readonly events?: readonly { readonly timeUnixNano: string; readonly name?: string; readonly attributes?: readonly Attribute[] }[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string; readonly attributes?: readonly Attribute[] }[];
}
interface ResourceSpans {
  readonly resource?: { readonly attributes?: readonly Attribute[] };
  readonly scopeSpans: readonly {
    readonly scope?: { readonly name?: string; readonly version?: string; readonly attributes?: readonly Attribute[] };
    readonly spans: readonly Span[];
  }[];
}
interface QueryCase {
  readonly Caption: string;
  readonly Query: {
    readonly ServiceName: string;
    readonly OperationName: string;
    readonly Tags: Readonly<Record<string, unknown>> | null;
    readonly StartTimeMin: string;
    readonly StartTimeMax: string;
    readonly DurationMin: number;
    readonly DurationMax: number;
    readonly NumTraces: number;
  };
  readonly ExpectedFixtures: readonly string[];
}

const WITHIN_MS = 10_000;
/** As in integration.go. */
const LARGE_SPANS = 10_008;

export async function runJaeger(fixtures: string, product: Product): Promise<JaegerTest[]> {
  const tests: JaegerTest[] = [];
  const check = async (name: string, find: () => Promise<unknown>, expected: unknown): Promise<void> => {
    let found: unknown;
    const isEqual = async (): Promise<boolean> => isDeepStrictEqual((found = await find()), expected);
    const why = await eventually(name, isEqual, WITHIN_MS).then(
      () => undefined,
      () => difference(expected, found),
    );
    tests.push({ name, why });
  };
  const read = (path: string, parameters: Readonly<Record<string, string>> = {}) => get(product, path, parameters);

  const example = fixture(fixtures, "example_trace");
  await write(product, example);
  const services = ["example-service-1", "example-service-2", "example-service-3"];
  await check("GetServices", async () => (await read("services"))["services"], services);
  const operations = [
    { name: "example-operation-1", spanKind: "unspecified" },
    { name: "example-operation-3", spanKind: "server" },
    { name: "example-operation-4", spanKind: "client" },
  ];
  await check("GetOperations", async () => (await read("operations", { service: "example-service-1" }))["operations"], operations);
  const exampleId = traceIdOf(example);
  await check("GetTrace", async () => spansOf(await read(`traces/${exampleId}`)), normalise(example));
  await check("GetTrace/NotFound", async () => (await read(`traces/${"1".padStart(32, "0")}`))["error"], "not_found");
  const range = { "query.startTimeMin": daysAgo(2).toISOString(), "query.startTimeMax": new Date().toISOString() };
  const ofExample = { ...range, "query.serviceName": "example-service-1" };
  await check("FindTraceSummaries", async () => summaryOf(await read("trace-summaries", ofExample), exampleId), { spanCount: 5 });

  const large = largeTrace(example, LARGE_SPANS, 0, "a".repeat(32));
  await write(product, large);
  await check("GetLargeTrace", async () => spansOf(await read(`traces/${"a".repeat(32)}`)).length, LARGE_SPANS);
  const repeated = largeTrace(example, 200, 20, "b".repeat(32));
  await write(product, repeated);
  await check("GetTraceWithDuplicateSpans", async () => spansOf(await read(`traces/${"b".repeat(32)}`)).length, 200);

  const cases = JSON.parse(recent(readFileSync(join(fixtures, "queries.json"), "utf8"))) as QueryCase[];
  const traces = new Map(cases.flatMap(({ ExpectedFixtures: names }) => names).map((name) => [name, fixture(fixtures, name)]));
  for (const trace of traces.values()) await write(product, trace);
  for (const { Caption: caption, Query: query, ExpectedFixtures: names } of cases) {
    const expected = names.flatMap((name) => normalise(traces.get(name) ?? [])).toSorted(bySpan);
    await check(`FindTraces/${caption}`, async () => spansOf(await read("traces", parametersOf(query))), expected);
  }
  const everywhere = { ...range, "query.attributes": JSON.stringify({ sameplacetag1: "sameplacevalue" }), "query.searchDepth": "500" };
  const marked = cases.filter(({ Query: { Tags: tags } }) => tags?.["sameplacetag1"] !== undefined);
  const expected = new Set(marked.flatMap(({ ExpectedFixtures: names }) => names.map((name) => traceIdOf(traces.get(name) ?? []))));
  const found = async () => [...new Set(spansOf(await read("traces", everywhere)).map(({ traceId }) => traceId))].toSorted();
  await check("FindTracesWithoutServiceName", found, [...expected].toSorted());
  return tests;
}

async function write({ place, ingestToken }: Product, resourceSpans: readonly ResourceSpans[]): Promise<void> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${ingestToken}` };
  const answer = await fetch(`${place.apiUrl}/v1/traces`, { method: "POST", headers, body: JSON.stringify({ resourceSpans }) });
  const text = await answer.text();
  if (!answer.ok || text.includes("errorMessage")) throw new Error(`traces: ${answer.status} ${text}`);
}

async function get(
  { place, readToken }: Product,
  path: string,
  parameters: Readonly<Record<string, string>>,
): Promise<Record<string, unknown>> {
  const url = `${place.apiUrl}/query/jaeger/api/v3/${path}?${new URLSearchParams(parameters).toString()}`;
  return (await (await fetch(url, { headers: { authorization: `Bearer ${readToken}` } })).json()) as Record<string, unknown>;
}

function parametersOf(query: QueryCase["Query"]): Record<string, string> {
  const tags = Object.entries(query.Tags ?? {}).map(([name, value]) => [name, String(value)]);
  return {
    "query.serviceName": query.ServiceName,
    "query.startTimeMin": query.StartTimeMin,
    "query.startTimeMax": query.StartTimeMax,
    "query.searchDepth": "500",
    ...(query.OperationName !== "" && { "query.operationName": query.OperationName }),
    ...(tags.length > 0 && { "query.attributes": JSON.stringify(Object.fromEntries(tags)) }),
    ...(query.DurationMin > 0 && { "query.durationMin": `${query.DurationMin}ns` }),
    ...(query.DurationMax > 0 && { "query.durationMax": `${query.DurationMax}ns` }),
  };
}

function fixture(folder: string, name: string): ResourceSpans[] {
  const text = readFileSync(join(folder, "traces", `${name}.json`), "utf8");
  return (JSON.parse(recent(text)) as { resourceSpans: ResourceSpans[] }).resourceSpans;
}

const FIXTURE_DAY = Date.UTC(2017, 0, 26);

/** The fixtures are of 2017-01-26, and one of the day before: they become yesterday and the day before. */
function recent(text: string): string {
  const [day, dayBefore] = [daysAgo(1), daysAgo(2)].map((date) => date.toISOString().slice(0, 10)) as [string, string];
  const laterNs = BigInt(Date.parse(day) - FIXTURE_DAY) * 1_000_000n;
  return text
    .replaceAll("2017-01-26", day)
    .replaceAll("2017-01-25", dayBefore)
    .replaceAll(/("\w*[tT]imeUnixNano": *")(\d+)"/g, (_, key: string, ns: string) => `${key}${BigInt(ns) + laterNs}"`);
}

function daysAgo(days: number): Date {
  return new Date(Date.now() - days * 86_400_000);
}

/** As writeLargeTraceWithDuplicateSpanIds, with another trace id. */
function largeTrace([first]: readonly ResourceSpans[], count: number, duplicateEvery: number, traceId: string): ResourceSpans[] {
  if (!first) return [];
  const [span] = first.scopeSpans[0]?.spans ?? [];
  const spans = Array.from({ length: count }, (_, index) => {
    const isDuplicate = duplicateEvery > 0 && index > 0 && index % duplicateEvery === 0;
    const later = (ns = "0"): string => String(BigInt(ns) + BigInt(index + 1) * 1_000_000_000n);
    const spanId = isDuplicate ? String(span?.spanId) : (index + 1).toString(16).padStart(16, "0");
    const times = { startTimeUnixNano: later(span?.startTimeUnixNano), endTimeUnixNano: later(span?.endTimeUnixNano) };
    return { ...(span as Span), ...times, traceId, spanId };
  });
  return [{ ...first, scopeSpans: [{ ...first.scopeSpans[0], spans }] }];
}

function traceIdOf([first]: readonly ResourceSpans[]): string {
  return first?.scopeSpans[0]?.spans[0]?.traceId ?? "";
}

function summaryOf(answer: Record<string, unknown>, traceId: string): object | undefined {
  const text = JSON.stringify(answer);
  const summaries = ((answer["result"] as Record<string, unknown> | undefined)?.["summaries"] ?? answer["summaries"]) as
    | readonly Record<string, unknown>[]
    | undefined;
  const summary = summaries?.find((entry) => entry["traceId"] === traceId);
  return summary ? { spanCount: Number(summary["spanCount"]) } : { answer: text.slice(0, 200) };
}

function spansOf(answer: Record<string, unknown>): NormalSpan[] {
  return normalise((answer["result"] as { resourceSpans?: readonly ResourceSpans[] } | undefined)?.resourceSpans ?? []);
}

type NormalSpan = Record<string, unknown> & { readonly traceId: string; readonly spanId: string };

/** Spans in one order, without empty fields: attributes of the resource are those of the span, and their values are text. */
function normalise(resourceSpans: readonly ResourceSpans[]): NormalSpan[] {
  const spans = resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans: own }) =>
      own.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        name: span.name ?? "",
        kind: span.kind ?? 0,
        start: span.startTimeUnixNano,
        end: span.endTimeUnixNano,
        status: [span.status?.code ?? 0, span.status?.message ?? ""],
        scope: [scope?.name ?? "", scope?.version ?? "", texts(scope?.attributes)],
        attributes: { ...texts(resource?.attributes), ...texts(span.attributes) },
        events: (span.events ?? []).map(({ timeUnixNano, name = "", attributes }) => [timeUnixNano, name, texts(attributes)]),
        links: (span.links ?? []).map(({ traceId, spanId, attributes }) => [traceId, spanId, texts(attributes)]),
      })),
    ),
  );
  return spans.toSorted(bySpan);
}

function bySpan(one: NormalSpan, other: NormalSpan): number {
  return `${one.traceId}${one.spanId}` < `${other.traceId}${other.spanId}` ? -1 : 1;
}

function texts(attributes: readonly Attribute[] = []): Record<string, string> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, String(Object.values(value)[0])]));
}

/** The first part of both that differs. */
function difference(expected: unknown, found: unknown, path = ""): string {
  if (typeof expected !== "object" || typeof found !== "object" || expected === null || found === null)
    return `${path || "result"}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`;
  if (Array.isArray(expected) && Array.isArray(found) && expected.length !== found.length)
    return `${path || "result"}: ${found.length} elements instead of ${expected.length}`;
  const [before, after] = [expected, found] as [Record<string, unknown>, Record<string, unknown>];
  const key = [...Object.keys(before), ...Object.keys(after)].find((name) => !isDeepStrictEqual(before[name], after[name]));
  return key === undefined ? path : difference(before[key], after[key], `${path}/${key}`);
}
