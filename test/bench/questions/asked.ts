// The queries of the benchmark `questions` in the language of each program, with the target ratio. Both versions of a query have the same
// result.
import { RARE_WORD } from "./records.ts";

export interface Range {
  /** Milliseconds; whole minutes, the end exclusive. */
  readonly startMs: number;
  readonly endMs: number;
}

export interface Question {
  readonly name: string;
  /** Paths with their query strings. */
  readonly ours: string;
  readonly peer: string;
  /** The ratio of times to reach; unset: measured only. */
  readonly reach?: number;
}

const LAST_NS = "999999999";

export function questions({ startMs, endMs }: Range): Question[] {
  const end = `${new Date(endMs - 1000).toISOString().slice(0, 19)}.${LAST_NS}Z`;
  const logs = (name: string, filter: Record<string, string>, query: string, reach?: number): Question => ({
    name,
    ...(reach !== undefined && { reach }),
    ours: `/query/logs?${parameters({ start: new Date(startMs).toISOString(), end, limit: "100", ...filter })}`,
    peer: peer(query, { limit: "100" }),
  });
  const histogram = (name: string, filter: Record<string, string>, query: string, reach: number): Question => ({
    name,
    reach,
    ours: `/query/logs/histogram?${parameters({ start: new Date(startMs).toISOString(), end, buckets: "60", ...filter })}`,
    peer: peer(`${query} | stats by (_time:1m, severity_text) count() n`),
  });
  const peer = (query: string, more: Record<string, string> = {}): string =>
    `/select/logsql/query?${parameters({ query, start: new Date(startMs).toISOString(), end, ...more })}`;
  const all = '{service_name=~".+"}';
  const top = (name: string, label: string, attribute: string, reach?: number): Question => ({
    name,
    ...(reach !== undefined && { reach }),
    ours: `/query/loki/loki/api/v1/query?${parameters({
      query: `topk(10, sum by (${label}) (count_over_time(${all}[1h])))`,
      time: String(endMs / 1000),
    })}`,
    peer: peer(`* | top 10 by ("${attribute}")`),
  });
  return [
    logs("newest 100", {}, "*", 1.2),
    logs("newest 100 of a service", { source: "service-3" }, '"service.name":="service-3"', 1.2),
    logs("newest 100 errors", { level: "error" }, "severity_text:=error"),
    logs("word that occurs once", { words: RARE_WORD }, RARE_WORD, 2),
    logs("word that never occurs", { words: "zebrafish9999" }, "zebrafish9999", 2),
    logs("substring that never occurs", { q: "ebrafish9999" }, '~"ebrafish9999"'),
    logs("newest 100 with a phrase", { q: "connection refused" }, '"connection refused"'),
    logs("newest 100 of a regular expression", { regex: "took [0-9]{3} ms" }, '~"took [0-9]{3} ms"', 1.2),
    histogram("counts per minute and level", {}, "*", 0.5),
    histogram("the same of records with a word", { words: "timeout" }, "timeout", 1.2),
    {
      name: "counts per minute and service",
      reach: 0.5,
      ours: `/query/loki/loki/api/v1/query_range?${parameters({
        query: `sum by (service_name) (count_over_time(${all}[1m]))`,
        start: String((startMs + 60_000) / 1000),
        end: String(endMs / 1000),
        step: "60",
      })}`,
      peer: peer('* | stats by (_time:1m, "service.name") count() n'),
    },
    top("top values of an attribute", "http_route", "http.route", 1.5),
    top("top values of an attribute without its own column", "service_version", "service.version"),
    {
      name: "counts of an attribute's value by service",
      ours: `/query/loki/loki/api/v1/query?${parameters({
        query: `sum by (service_name) (count_over_time(${all} | http_response_status_code="500" [1h]))`,
        time: String(endMs / 1000),
      })}`,
      peer: peer('"http.response.status_code":="500" | stats by ("service.name") count() n'),
    },
  ];
}

function parameters(values: Record<string, string>): string {
  return new URLSearchParams(values).toString();
}
