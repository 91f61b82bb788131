// Further attacks with a viewer's or an administrator's session: queries and rules that cost the engines more than their text suggests.
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Attack, Attacker } from "./attack.ts";

const API = "/query/prometheus/api/v1";
const DAY_S = 86_400;
const zipped = promisify(gzip);

async function storeSeries(attacker: Attacker, name: string, count: number): Promise<void> {
  for (let from = 0; from < count; from += 50_000) {
    const lines = Array.from(
      { length: Math.min(50_000, count - from) },
      (_, index) => `${name}{pod="pod-${from + index}-abcdef",i="${from + index}"} 1\n`,
    );
    const body = await zipped(lines.join(""), { level: 1 });
    await attacker.call({ method: "POST", path: "/ingest", key: attacker.target.apiKey, body, headers: { "content-encoding": "gzip" } });
  }
}

function promql(attacker: Attacker, endpoint: string, parameters: Record<string, string>): () => Promise<unknown> {
  const bearer = attacker.target.viewerToken;
  const form = new URLSearchParams(parameters).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  return () =>
    endpoint.startsWith("label/")
      ? attacker.call({ method: "GET", path: `${API}/${endpoint}?${form}`, bearer })
      : attacker.call({ method: "POST", path: `${API}/${endpoint}`, bearer, headers, body: Buffer.from(form) });
}

async function inTurn(attacker: Attacker, calls: readonly (() => Promise<unknown>)[], count: number): Promise<void> {
  await attacker.many(count, count, async (index) => await calls[index % calls.length]?.());
}

export const wideLabels: Attack = {
  group: "more",
  what: "series, labels and values over 200,000 series, eight at once; instant queries that answer all of them",
  everyMs: 3000,
  prepare: (attacker) => storeSeries(attacker, "wide", 200_000),
  async wave(attacker) {
    const all = { "match[]": '{__name__=~".+"}' };
    const calls = [
      promql(attacker, "series", all),
      promql(attacker, "label/pod/values", all),
      promql(attacker, "query", { query: "wide" }),
      promql(attacker, "query", { query: "label_join(wide, 'x', '-', 'pod', 'i', 'pod', 'i')" }),
      promql(attacker, "query", { query: "sort(wide * on(i) group_left wide)" }),
    ];
    await inTurn(attacker, calls, 10);
  },
};

/** a = 1+1, b = a+a, c = b+b …: each further one doubles the expression. */
export function doubling(depth: number): string {
  const names = Array.from({ length: depth }, (_, index) => `w${index}`);
  const definitions = names.map((name, index) => (index === 0 ? `${name} = m + m` : `${name} = ${names[index - 1]} + ${names[index - 1]}`));
  return `WITH (${definitions.join(", ")}) ${names.at(-1)}`;
}

export const costlyExpressions: Attack = {
  group: "more",
  what: "WITH templates that double 26 times; ranges of a year by the second; nested subqueries; long alternations; as queries and as drafts of rules",
  everyMs: 2000,
  async wave(attacker) {
    const end = String(Math.floor(Date.now() / 1000));
    const yearAgo = String(Math.floor(Date.now() / 1000) - 365 * DAY_S);
    const alternation = Array.from({ length: 1500 }, (_, index) => `a.*${index}b`).join("|");
    const draft = (expr: string) => () =>
      attacker.call({ method: "POST", path: "/alerting/rules/validate", bearer: attacker.target.viewerToken, body: { expr } });
    const calls = [
      promql(attacker, "query", { query: doubling(26) }),
      promql(attacker, "query_range", { query: "rand() + rand()", start: yearAgo, end, step: "1000" }),
      promql(attacker, "query", { query: "max_over_time(max_over_time(rand()[1h:1s])[1d:1s])" }),
      promql(attacker, "query", { query: "quantile_over_time(0.5, rand()[365d:1s])" }),
      promql(attacker, "query", { query: `{__name__=~"${alternation}"}` }),
      promql(attacker, "query", { query: `union(${Array.from({ length: 1000 }, () => "rand()[1h:1s]").join(",")})` }),
      promql(attacker, "query_range", { query: "range_quantile(0.5, rand())", start: yearAgo, end, step: "3600" }),
      draft(`${doubling(26)} > 0`),
      draft("count(mode_over_time((rand(1)+rand(2))[6h:1s])) > 0"),
      draft("quantile_over_time(0.5, rand()[365d:1s]) > 2"),
    ];
    await inTurn(attacker, calls, calls.length);
  },
};

export const costlyRules: Attack = {
  group: "more",
  what: "60 rules over 5,000 series each, all firing, and 40 whose expression computes for seconds",
  everyMs: 5000,
  prepare: (attacker) => storeSeries(attacker, "storm", 5000),
  async wave(attacker, turn) {
    const { adminToken: bearer } = attacker.target;
    const make = (expr: string) =>
      attacker.call({
        method: "POST",
        path: "/alerting/rules",
        bearer,
        body: { name: attacker.serial(), severity: "info", expr, annotations: { text: "{{ $labels.pod }} ".repeat(50) } },
      });
    if (turn < 4) await attacker.many(15, 3, (index) => make(`last_over_time(storm[1h]) > ${-1 - index}`));
    if (turn < 4) await attacker.many(10, 3, () => make("count(quantile_over_time(0.5, (rand(1)+rand(2))[20m:1ms])) > 0"));
  },
};

export const longHistories: Attack = {
  group: "more",
  what: "status and history of a rule over a year, fifty at once; log and trace queries over the whole retention for what is not there",
  everyMs: 3000,
  async wave(attacker) {
    const { adminToken, viewerToken: bearer } = attacker.target;
    const body = { name: attacker.serial(), severity: "info", expr: "vector(1) > 0" };
    if (!attacker.answers.has("201")) await attacker.call({ method: "POST", path: "/alerting/rules", bearer: adminToken, body });
    const get = (path: string) => () => attacker.call({ method: "GET", path, bearer });
    const start = new Date(Date.now() - 30 * DAY_S * 1000).toISOString();
    const calls = [
      get("/alerting/rules"),
      get(`/query/logs?start=${start}&q=${attacker.serial()}`),
      get(`/query/traces?trace_id=${attacker.serial().replaceAll(/\D/g, "").padStart(32, "0").slice(-32)}`),
      get(`/query/traces?start=${start}&error=true&service=${attacker.serial()}`),
      get(`/query/logs?start=${start}&${Array.from({ length: 300 }, (_, index) => `label.k${index}=v`).join("&")}`),
    ];
    await inTurn(attacker, calls, 50);
  },
};

/** Within the limits of the log query language (docs/log-query.md), and just beyond them. */
const LOG_QUERIES = [
  Array.from({ length: 100 }, (_, index) => `word${index}`).join(" OR "),
  Array.from({ length: 15 }, (_, label) => `l${label}:${Array.from({ length: 100 }, (__, value) => value).join(",")}`).join(" OR "),
  Array.from({ length: 100 }, (_, index) => `NOT d${index}>5`).join(" OR "),
  `${"(a OR NOT b ".repeat(20)}${")".repeat(20)}`,
  "(".repeat(4000),
  "- ".repeat(2000),
  `a:${"/a,".repeat(1300)}`,
  "a*".repeat(2000),
  `/${"(a?){10}".repeat(5)}/ OR message:*x*y*z*`,
];

export const largeLogQueries: Attack = {
  group: "more",
  what: "queries of the log query language with a hundred conditions, 1,500 values, 20 groups, and 4,000 brackets, eight at once",
  everyMs: 1000,
  async wave(attacker, turn) {
    const { viewerToken: bearer } = attacker.target;
    await attacker.many(8, 8, async (index) => {
      const path = ["/query/logs", "/query/logs/histogram", "/query/logs/fields"][index % 3];
      const query = encodeURIComponent(LOG_QUERIES[(turn * 8 + index) % LOG_QUERIES.length] ?? "");
      await attacker.call({ method: "GET", path: `${path}?query=${query}`, bearer });
    });
  },
};
