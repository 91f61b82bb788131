// /query and /query_range.
import { type Add, QUERY, requiredQuery, SPAN, text, TIME } from "./endpoint-parts.ts";
import { wrongQuery } from "./literals.ts";
import { readBounds, readSpan, readSteps, readTime, textOf, wrongParameter } from "./parameters.ts";

const BOUNDS = { limit: text("entries; 100 by default, at most 5000"), direction: text("backward (newest first) or forward") };

export function addQueries(add: Add): void {
  add("query", "a query of metrics at one moment", { query: QUERY, time: text(`${TIME}; default now`), ...BOUNDS }, (given, requested) => {
    const { reader, nowNs } = requested;
    const query = requiredQuery(given);
    if (query.kind === "log")
      throw wrongQuery("log queries are not supported as an instant query type, please change your query to a range query type");
    const time = textOf(given, "time");
    const steps = { start: time === undefined ? nowNs : readTime("time", time), step: 1n, count: 1 };
    return (orgId, asked) => reader.metrics(orgId, { query, steps, isInstant: true }, asked);
  });

  const parameters = { query: QUERY, ...SPAN, step: text("a duration, or seconds"), ...BOUNDS, interval: text("not supported") };
  add("query_range", "a query over a range", parameters, (given, { reader, nowNs, categorize }) => {
    const query = requiredQuery(given);
    const span = readSpan(given, nowNs);
    if (textOf(given, "interval") !== undefined && given["interval"] !== "0")
      throw wrongParameter("interval", "is not supported: leave it out");
    if (query.kind !== "log") {
      const steps = readSteps(given, span);
      return (orgId, asked) => reader.metrics(orgId, { query, steps, isInstant: false }, asked);
    }
    const bounds = readBounds(given);
    return (orgId, asked) => reader.logs(orgId, query, { span, ...bounds, categorize }, asked);
  });
}
