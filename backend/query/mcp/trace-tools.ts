// MCP tools over traces and services.
import { firstEntries } from "./answer.ts";
import { type Arguments, choice, count, optionalText, RANGE, readRange, screenLink, shortFigures, text, type Tool } from "./tool.ts";

type Row = Record<string, unknown>;

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

function spansOf(given: Arguments) {
  const minMs = given["min_duration_ms"];
  return {
    service: optionalText(given["service"]),
    operation: optionalText(given["operation"]),
    error: given["error"] === true ? true : undefined,
    min_duration_ms: typeof minMs === "number" ? String(minMs) : undefined,
    where: Array.isArray(given["where"]) ? given["where"].map(String) : undefined,
  };
}

const shownOf = (given: Arguments) => {
  const { service, operation, error, min_duration_ms: min, where } = spansOf(given);
  return { service, operation, error: error === true ? "true" : undefined, min, attributes: where?.join(" ") };
};

export const TRACE_TOOLS: readonly Tool[] = [
  {
    name: "search_traces",
    title: "Search traces",
    description: "Traces with a span that matches. Use order=duration for the slowest. get_trace shows one of them.",
    parameters: {
      ...SPANS,
      ...RANGE,
      order: choice("which first", ["time", "duration", "errors", "spans"]),
      limit: count("traces", 100, 20),
    },
    async run(ask, given) {
      const range = readRange(given);
      const order = given["order"] === "time" ? undefined : optionalText(given["order"]);
      const rows = (await ask("/query/traces/search", {
        ...spansOf(given),
        ...range,
        order,
        limit: Number(given["limit"] ?? 20),
      })) as Row[];
      const narrow = "add service, operation, error, min_duration_ms or where, or shorten since.";
      return { summary: `${rows.length} traces.`, rows: rows.map(shortFigures), link: screenLink("traces", shownOf(given), range), narrow };
    },
  },
  {
    name: "get_trace",
    title: "One trace",
    description: `The spans of a trace that matter most: its root, spans with errors and the longest ones, at most ${MAX_TRACE_SPANS}, oldest first.`,
    parameters: { trace_id: { type: "string", pattern: "^[0-9a-fA-F]{32}$", description: "32 hex digits" } },
    required: ["trace_id"],
    async run(ask, given) {
      const id = String(given["trace_id"]);
      const spans = (await ask(`/query/traces/${id}`)) as Row[];
      const importance = ({ ParentSpanID: parent, Error: failed, DurationMs: ms }: Row): number =>
        (parent === "" ? 1e15 : 0) + (failed === true ? 1e12 : 0) + Number(ms);
      const kept = new Set(spans.toSorted((a, b) => importance(b) - importance(a)).slice(0, MAX_TRACE_SPANS));
      const rows = spans.filter((span) => kept.has(span)).map(shortSpan);
      const errors = spans.filter(({ Error: failed }) => failed === true).length;
      return {
        summary: `The trace has ${spans.length} spans, ${errors} with an error; ${rows.length} are listed, oldest first.`,
        rows,
        link: `#/traces/${id}`,
        narrow: `search_logs with query trace_id:${id} shows the log records of the trace.`,
      };
    },
  },
  {
    name: "compare_spans",
    title: "What failed or slow spans have in common",
    description:
      "Attributes whose share among failed spans (or, with slower_than_ms, slow ones) differs from the other spans, largest first.",
    parameters: {
      ...SPANS,
      ...RANGE,
      slower_than_ms: { type: "number", minimum: 0, description: "compare spans that took at least this long" },
    },
    async run(ask, given) {
      const range = readRange(given);
      const slower = given["slower_than_ms"];
      const parameters = { ...spansOf(given), ...range, slower_than_ms: typeof slower === "number" ? String(slower) : undefined };
      const rows = (await ask("/query/traces/differences", parameters)) as Row[];
      const link = screenLink("traces", { ...shownOf(given), differences: "1", slower: parameters.slower_than_ms }, range);
      return {
        summary: `${rows.length} attribute values that differ.`,
        rows: rows.map(shortFigures),
        link,
        narrow: "add service and operation.",
      };
    },
  },
  {
    name: "list_services",
    title: "Services",
    description: "Services with calls per second, share of errors and latency (ms), calculated from their spans.",
    parameters: { ...RANGE },
    async run(ask, given) {
      const range = readRange(given);
      const services = (await ask("/query/services", { ...range, points: 1 })) as Row[];
      const rows = services
        .toSorted((a, b) => Number(b["errors"]) - Number(a["errors"]) || Number(b["calls"]) - Number(a["calls"]))
        .map(({ operations: _operations, series: _series, ...figures }) => shortFigures(figures));
      return {
        summary: `${rows.length} services, most errors first.`,
        rows,
        link: screenLink("services", {}, range),
        narrow: "list_operations shows one service.",
      };
    },
  },
  {
    name: "list_operations",
    title: "Operations of a service",
    description: "Operations of one service with calls, errors and latency, most calls first.",
    parameters: { service: SPANS.service, ...RANGE },
    required: ["service"],
    async run(ask, given) {
      const range = readRange(given);
      const service = String(given["service"]);
      const rows = (await ask(`/query/services/${encodeURIComponent(service)}/operations`, { ...range })) as Row[];
      const narrow = "search_traces with service and operation shows single requests.";
      return {
        summary: `${rows.length} operations.`,
        rows: rows.map(shortFigures),
        link: screenLink("services", {}, range, service),
        narrow,
      };
    },
  },
  {
    name: "service_map",
    title: "Which services call which",
    description: "Calls between services, databases, queues and hosts, with rate, errors and latency, most calls first.",
    parameters: { service: text("only calls from or to this service"), ...RANGE },
    async run(ask, given) {
      const range = readRange(given);
      const service = optionalText(given["service"]);
      const { edges } = (await ask("/query/services/graph", { ...range })) as { edges: Row[] };
      const rows = edges
        .filter(({ client, server }) => service === undefined || client === service || server === service)
        .map(shortFigures);
      return { summary: `${rows.length} connections.`, rows, link: screenLink("services", { view: "map" }, range), narrow: "set service." };
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
