// The queries of the benchmark `day`, with their target times at 100 million rows.
import { RARE_WORD } from "../questions/records.ts";

export interface DayQuestion {
  readonly name: string;
  readonly path: string;
  readonly reachMs?: number;
}

const query = (path: string, values: Record<string, string>): string => `${path}?${new URLSearchParams(values).toString()}`;

/** The end is exclusive. */
export function questionsOfDay(signal: "logs" | "spans", startMs: number, endMs: number): DayQuestion[] {
  const start = new Date(startMs).toISOString();
  const end = new Date(endMs - 1).toISOString();
  const logs = (name: string, filter: Record<string, string>, reachMs?: number): DayQuestion => ({
    name,
    path: query("/query/logs", { start, end, limit: "100", ...filter }),
    ...(reachMs !== undefined && { reachMs }),
  });
  if (signal === "logs")
    return [
      logs("newest 100", {}, 100),
      logs("newest 100 of a service", { source: "service-3" }, 100),
      logs("newest 100 errors", { level: "error" }),
      logs("word that occurs once", { words: RARE_WORD }, 1000),
      logs("word that never occurs", { words: "zebrafish9999" }, 1000),
      { name: "histogram of a day", path: query("/query/logs/histogram", { start, end, buckets: "96" }), reachMs: 300 },
      {
        name: "histogram of a service",
        path: query("/query/logs/histogram", { start, end, buckets: "96", source: "service-3" }),
        reachMs: 300,
      },
    ];
  const exemplars = {
    query: 'traces_spanmetrics_latency_bucket{service="service-7"}',
    start: String(startMs / 1000),
    end: String(endMs / 1000),
  };
  return [
    { name: "services by minute of a day", path: query("/query/services", { start, end, points: "1440" }), reachMs: 200 },
    { name: "services, 30 points", path: query("/query/services", { start, end }) },
    { name: "client spans of services by minute", path: query("/query/services", { start, end, points: "1440", kind: "client" }) },
    { name: "one service by minute", path: query("/query/services/service-7/timeseries", { start, end, points: "1440" }) },
    { name: "operations of a service", path: query("/query/services/service-7/operations", { start, end }) },
    { name: "exemplars of a service", path: query("/query/prometheus/api/v1/query_exemplars", exemplars) },
    { name: "newest 100", path: query("/query/traces", { start, end, limit: "100" }), reachMs: 100 },
  ];
}
