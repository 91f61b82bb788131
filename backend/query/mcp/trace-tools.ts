// MCP tools over traces and services.
import { firstEntries } from "./answer.ts";
import { type Arguments, choice, count, RANGE, type Row, routeTool, screenLink, shortFigures, text, type Tool } from "./tool.ts";

const MAX_TRACE_SPANS = 40;
const MAX_ATTRIBUTES = 15;
const SPANS = {
  service: text("name of the service"),
  operation: text("name of the span"),
  error: { type: "boolean", description: "true: only spans with an error" },
  min_duration_ms: { type: "number", minimum: 0, description: "only spans that took at least this long" },
  where: {
    type: "array",
    maxItems: 10,
    items: { type: "string", maxLength: 500 },
    description: "comparisons of attributes, such as http.response.status_code>=500 or tenant.id=acme",
  },
};

const shownOf = ({ service, operation, error, min_duration_ms: min, where }: Arguments) => ({
  service,
  operation,
  error: error ? "true" : undefined,
  min: min?.toString(),
  attributes: where?.join(" "),
});

const importance = ({ ParentSpanID: parent, Error: failed, DurationMs: ms }: Row): number =>
  (parent === "" ? 1e15 : 0) + (failed === true ? 1e12 : 0) + Number(ms);

const figuresOf = (noun: string) => (rows: readonly Row[]) => ({ summary: `${rows.length} ${noun}.`, rows: rows.map(shortFigures) });

export const TRACE_TOOLS: readonly Tool[] = [
  routeTool({
    name: "search_traces",
    title: "Search traces",
    description: "Traces with a span that matches. Use order=duration for the slowest. get_trace shows one of them.",
    parameters: {
      ...SPANS,
      ...RANGE,
      order: choice("which first", ["time", "duration", "errors", "spans"]),
      limit: count("traces", 100, 20),
    },
    route: (given, range) => ["/query/traces/search", { ...given, ...range, order: given.order === "time" ? undefined : given.order }],
    answer: figuresOf("traces"),
    link: (given, range) => screenLink("traces", shownOf(given), range),
    narrow: "add service, operation, error, min_duration_ms or where, or shorten since.",
  }),
  routeTool({
    name: "get_trace",
    title: "One trace",
    description: `The spans of a trace that matter most: its root, spans with errors and the longest ones, at most ${MAX_TRACE_SPANS}, oldest first.`,
    parameters: { trace_id: { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits" } },
    required: ["trace_id"],
    route: ({ trace_id: id }) => [`/query/traces/${id}`],
    answer: (spans) => {
      const kept = new Set(spans.toSorted((a, b) => importance(b) - importance(a)).slice(0, MAX_TRACE_SPANS));
      const errors = spans.filter(({ Error: failed }) => failed === true).length;
      const summary = `The trace has ${spans.length} spans, ${errors} with an error; ${kept.size} are listed, oldest first.`;
      return { summary, rows: spans.filter((span) => kept.has(span)).map(shortSpan) };
    },
    link: ({ trace_id: id }) => `#/traces/${id}`,
    narrow: "search_logs with query trace_id:ID shows the log records of the trace.",
  }),
  routeTool({
    name: "compare_spans",
    title: "What failed or slow spans have in common",
    description:
      "Attributes whose share among failed spans (or, with slower_than_ms, slow ones) differs from the other spans, largest first.",
    parameters: {
      ...SPANS,
      ...RANGE,
      slower_than_ms: { type: "number", minimum: 0, description: "compare spans that took at least this long" },
    },
    route: (given, range) => ["/query/traces/differences", { ...given, ...range }],
    answer: figuresOf("attribute values that differ"),
    link: (given, range) => screenLink("traces", { ...shownOf(given), differences: "1", slower: given.slower_than_ms?.toString() }, range),
    narrow: "add service and operation.",
  }),
  routeTool({
    name: "list_services",
    title: "Services",
    description: "Services with calls per second, share of errors and latency (ms), calculated from their spans.",
    parameters: { ...RANGE },
    route: (_, range) => ["/query/services", { ...range, points: 1 }],
    answer: (services) => ({
      summary: `${services.length} services, most errors first.`,
      rows: services
        .toSorted((a, b) => Number(b["errors"]) - Number(a["errors"]) || Number(b["calls"]) - Number(a["calls"]))
        .map(({ operations: _operations, series: _series, ...figures }) => shortFigures(figures)),
    }),
    link: (_, range) => screenLink("services", {}, range),
    narrow: "list_operations shows one service.",
  }),
  routeTool({
    name: "list_operations",
    title: "Operations of a service",
    description: "Operations of one service with calls, errors and latency, most calls first.",
    parameters: { service: SPANS.service, ...RANGE },
    required: ["service"],
    route: ({ service = "" }, range) => [`/query/services/${encodeURIComponent(service)}/operations`, { ...range }],
    answer: figuresOf("operations"),
    link: ({ service }, range) => screenLink("services", {}, range, service),
    narrow: "search_traces with service and operation shows single requests.",
  }),
  {
    name: "service_map",
    title: "Which services call which",
    description: "Calls between services, databases, queues and hosts, with rate, errors and latency, most calls first.",
    parameters: { service: text("only calls from or to this service"), ...RANGE },
    async run(ask, { service }, range) {
      const { edges } = (await ask("/query/services/graph", { ...range })) as { edges: Row[] };
      const found = edges.filter(({ client, server }) => service === undefined || client === service || server === service);
      return { ...figuresOf("connections")(found), link: screenLink("services", { view: "map" }, range), narrow: "set service." };
    },
  },
];

function shortSpan(span: Row): Row {
  const { Timestamp, SpanID, ParentSpanID, Service, Operation, Kind, DurationMs, Error: failed, StatusMessage, Attributes, Events } = span;
  return {
    Timestamp,
    SpanID,
    ParentSpanID,
    Service,
    Operation,
    Kind,
    DurationMs,
    ...(failed === true && { Error: true, StatusMessage }),
    Attributes: firstEntries(Attributes as Row, MAX_ATTRIBUTES),
    ...(Array.isArray(Events) && Events.length > 0 && { Events: Events.slice(0, 3) }),
  };
}
