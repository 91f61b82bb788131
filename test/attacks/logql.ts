// Attacks by one LogQL query or tail with a read token: programs that cost much more to evaluate than to send.
// Each was proven to stop the event loop, or to fill the memory, before queries were evaluated in the sandbox (backend/query/sandbox).
import { randomUUID } from "node:crypto";
import type { Attack, Attacker } from "./attack.ts";
import { attribute, record, store } from "./queries.ts";

const LOKI = "/query/loki/loki/api/v1";
const STREAM = '{service_name="hostile"}';
/** The longest pause between two costly records of a tail. */
const TAIL_MS = 20_000;

/** Asks a log or metric query of the last hour; the answer is counted. */
function ask(attacker: Attacker, query: string): Promise<unknown> {
  const parameters = new URLSearchParams({ query, limit: "100", step: "60" });
  return attacker.call({ method: "GET", path: `${LOKI}/query_range?${parameters.toString()}`, bearer: attacker.target.viewerToken });
}

async function storeRecord(attacker: Attacker, message: string, attributes: readonly string[] = []): Promise<void> {
  const text = record(0, message).replace(/\}$/, `,"attributes":[${attributes.join(",")}]}`);
  await store(attacker, attribute("service.name", "hostile"), text);
}

interface QueryAttack {
  readonly what: string;
  readonly query: string;
  readonly message?: string;
  readonly attributes?: readonly string[];
  readonly records?: number;
}

/** One record of hostile shape, and the same query four times at once. */
function byQuery({ what, query, message = "a", attributes = [], records = 1 }: QueryAttack): Attack {
  return {
    group: "logql",
    what,
    everyMs: 2000,
    async prepare(attacker) {
      for (let index = 0; index < records; index += 1) await storeRecord(attacker, message, attributes);
    },
    async wave(attacker) {
      await attacker.many(4, 4, () => ask(attacker, query));
    },
  };
}

const digits = `${"1".repeat(100_000)}x`;
const replaces = (count: number): string => `{{ repeat 1048576 "a"${' | replace "a" "b"'.repeat(count)} }}`;
const paths = Array.from({ length: 200 }, (_, index) => `a${index}="b[999999]"`).join(", ");

export const templateReader = byQuery({
  what: "a template of {{ and 40 times two quotation marks, which a backtracking reader tries in 2^40 ways",
  query: `${STREAM} | line_format \`{{${'""'.repeat(40)}\``,
});

export const templateNest = byQuery({
  what: "a template of 2,500 nested brackets",
  query: `${STREAM} | line_format \`{{ ${"(".repeat(2500)} \``,
});

export const decolorize = byQuery({
  what: "decolorize of ESC and 200,000 semicolons",
  query: `${STREAM} | decolorize`,
  message: `\\u001b[${";".repeat(200_000)}`,
});

export const unwrapDigits = byQuery({
  what: "unwrap of an attribute of 100,000 digits that is no number",
  query: `sum_over_time(${STREAM} | unwrap digits [1h])`,
  attributes: [attribute("digits", digits)],
});

export const compareDigits = byQuery({
  what: "a comparison of an attribute of 100,000 digits that is no number",
  query: `${STREAM} | digits > 5`,
  attributes: [attribute("digits", digits)],
});

export const manyReplacements = byQuery({
  what: "a template that replaces in a text of 1 MiB a hundred times",
  query: `${STREAM} | line_format \`${replaces(100)}\``,
});

export const manyJsonPaths = byQuery({
  what: "200 paths to the last element of an array of 250 kB",
  query: `${STREAM} | json ${paths}`,
  message: `{\\"b\\":[${"1,".repeat(120_000)}1]}`,
});

export const printedTexts = byQuery({
  what: "a text of 1 MiB, eight times, eight times, seven times, and trimmed character by character",
  query: `${STREAM} | line_format \`{{ $a := repeat 1048576 "a" }}{{ $b := printf "%s%s%s%s%s%s%s%s" $a $a $a $a $a $a $a $a }}{{ trimAll "b" $b }}\``,
});

export const labelReplace = byQuery({
  what: "label_replace that copies a label of 180 kB 2,800 times",
  query: `label_replace(count_over_time(${STREAM}[1h]), "x", "${"$1".repeat(2800)}", "wide", "(.*)")`,
  attributes: [attribute("wide", "w".repeat(180_000))],
  records: 8,
});

export const keptVariables = byQuery({
  what: "300 variables of a template that each keep 1 MiB",
  query: `${STREAM} | line_format \`{{ $a := repeat 1048576 "A" }}${"{{ $x := lower $a }}".repeat(300)}\``,
});

/** The hostile use of each function that templates may call. A function without a row fails coverage.test.ts. */
export const TEMPLATE_FUNCTIONS: Readonly<Record<string, string>> = {
  ToLower: "ToLower $t",
  ToUpper: "ToUpper $t",
  Replace: 'Replace $t "a" $t -1',
  Trim: 'Trim $t "a"',
  TrimLeft: 'TrimLeft $t "a"',
  TrimPrefix: "TrimPrefix $t $t",
  TrimRight: 'TrimRight $t "a"',
  TrimSpace: "TrimSpace $t",
  TrimSuffix: "TrimSuffix $t $t",
  add: "add $n $n $n",
  addf: "addf $n $n $n",
  alignLeft: "alignLeft 1048576 $t",
  alignRight: "alignRight 1048576 $t",
  b64dec: "b64dec $t",
  b64enc: "b64enc $t",
  bytes: "bytes $n",
  ceil: "ceil $n",
  contains: 'contains "b" $t',
  count: 'count "a?" $t',
  date: 'date "2006-01-02T15:04:05.00Z-07:00" __timestamp__',
  default: "default $t $t",
  div: "div $n 1",
  divf: "divf $n 1",
  duration: "duration $n",
  duration_seconds: "duration_seconds $n",
  eq: "eq $t $t",
  float64: "float64 $n",
  floor: "floor $n",
  ge: "ge $t $t",
  gt: "gt $t $t",
  hasPrefix: "hasPrefix $t $t",
  hasSuffix: "hasSuffix $t $t",
  indent: "indent 1000000 $t",
  int: "int $n",
  le: "le $t $t",
  len: "len $t",
  lower: "lower $t",
  lt: "lt $t $t",
  max: "max $n $n",
  maxf: "maxf $n $n",
  min: "min $n $n",
  minf: "minf $n $n",
  mod: "mod $n 7",
  mul: "mul $n $n $n",
  mulf: "mulf $n $n $n",
  ne: "ne $t $t",
  nindent: "nindent 1000000 $t",
  not: "not $t",
  print: "print $t $t $t $t",
  printf: 'printf "%1000000s%1000000s" $t $t',
  println: "println $t $t $t $t",
  regexReplaceAll: 'regexReplaceAll "a*" $t "${0}${0}"',
  regexReplaceAllLiteral: 'regexReplaceAllLiteral "a" $t $t',
  repeat: "repeat 1048576 $t",
  replace: 'replace "a" $t $t',
  round: "round $n 300",
  sub: "sub $n $n",
  subf: "subf $n $n",
  substr: "substr 1 1000000 $t",
  title: "title $t",
  trim: "trim $t",
  trimAll: 'trimAll "a" $t',
  trimPrefix: "trimPrefix $t $t",
  trimSuffix: "trimSuffix $t $t",
  trunc: "trunc 1000000 $t",
  unixEpoch: "unixEpoch __timestamp__",
  unixEpochMillis: "unixEpochMillis __timestamp__",
  unixEpochNanos: "unixEpochNanos __timestamp__",
  unixToTime: "unixToTime $n",
  upper: "upper $t",
  urldecode: "urldecode $t",
  urlencode: "urlencode $t",
};

export const everyTemplateFunction: Attack = {
  group: "logql",
  what: "each function of templates over a text of 500,000 characters, or a number of 100,000 digits, forty times",
  everyMs: 500,
  prepare: (attacker) => storeRecord(attacker, "a".repeat(200_000), [attribute("digits", digits)]),
  async wave(attacker, turn) {
    const uses = Object.values(TEMPLATE_FUNCTIONS);
    await attacker.many(4, 4, (index) => {
      const use = uses[(turn * 4 + index) % uses.length];
      return ask(attacker, `${STREAM} | line_format \`{{ $t := repeat 500000 "a" }}{{ $n := .digits }}${`{{ ${use} }}`.repeat(40)}\``);
    });
  },
};

/** A hostile use of each stage. */
export const STAGES: Readonly<Record<string, string>> = {
  line_filter: `|~ "(a?){200}a{200}$" |> "<_>a<_>a<_>a<_>b"`,
  label_filter: `| ${Array.from({ length: 100 }, (_, index) => `digits=~"(1?){${index + 100}}x"`).join(" or ")}`,
  json: "| json",
  logfmt: "| logfmt --strict",
  regexp: `| regexp "(?P<x>(a*)*)b"`,
  pattern: `| pattern "<x>a<y>a<z>b"`,
  line_format: `| line_format \`{{ .digits }}{{ .digits }}{{ .digits }}\``,
  unpack: "| unpack",
  decolorize: "| decolorize",
  label_format: `| label_format ${Array.from({ length: 50 }, (_, index) => `l${index}=\`{{ .digits }}\``).join(", ")}`,
  drop: `| drop ${Array.from({ length: 200 }, (_, index) => `x${index}=~"(a?){100}b"`).join(", ")}`,
  keep: `| keep ${Array.from({ length: 200 }, (_, index) => `x${index}=~"(a?){100}b"`).join(", ")}`,
};

export const everyStage: Attack = {
  group: "logql",
  what: "each stage over a line of 240,000 characters of deep JSON, of quotation marks, or of one letter",
  everyMs: 500,
  async prepare(attacker) {
    const lines = ["a".repeat(240_000), `${'{\\"a\\":'.repeat(20_000)}1`, 'a=\\"'.repeat(40_000), '\\"'.repeat(100_000)];
    for (const line of lines) await storeRecord(attacker, line, [attribute("digits", digits)]);
  },
  async wave(attacker, turn) {
    const stages = Object.values(STAGES);
    await attacker.many(4, 4, (index) => ask(attacker, `${STREAM} ${stages[(turn * 4 + index) % stages.length]}`));
  },
};

/** Each operation over ranges; a metric query with as many series as records. */
export const RANGE_OPERATIONS = [
  "rate",
  "rate_counter",
  "count_over_time",
  "bytes_rate",
  "bytes_over_time",
  "avg_over_time",
  "sum_over_time",
  "min_over_time",
  "max_over_time",
  "stdvar_over_time",
  "stddev_over_time",
  "quantile_over_time",
  "first_over_time",
  "last_over_time",
  "absent_over_time",
] as const;

/** Operations over the values of a label, which the query has to unwrap. */
export const UNWRAPPING = /^(?:rate_counter|(?:avg|sum|min|max|stdvar|stddev|quantile|first|last)_over_time)$/;

export const manySeries: Attack = {
  group: "logql",
  what: "each range operation over 50,000 records that each are a series of its own, at 240 steps, and aggregations of all of them",
  everyMs: 500,
  async prepare(attacker) {
    for (let body = 0; body < 5; body += 1) {
      const records = Array.from({ length: 10_000 }, (_, index) =>
        record(index, "m").replace(/\}$/, `,"attributes":[${attribute("id", randomUUID())},${attribute("n", "1.5")}]}`),
      );
      await store(attacker, attribute("service.name", "series"), records.join(","));
    }
  },
  async wave(attacker, turn) {
    await attacker.many(3, 3, (index) => {
      const operation = RANGE_OPERATIONS[(turn * 3 + index) % RANGE_OPERATIONS.length] ?? "rate";
      const head = operation === "quantile_over_time" ? "0.99, " : "";
      const inner = `${operation}(${head}{service_name="series"}${UNWRAPPING.test(operation) ? " | unwrap n" : ""} [1h])`;
      return ask(attacker, turn % 2 === 0 ? inner : `topk(10, sum by (id) (${inner}))`);
    });
  },
};

/** Labels, fields, patterns, volumes and series of streams with many labels. */
export const LOKI_LISTS = [
  "labels",
  "label/service_name/values",
  "series",
  "index/stats",
  "index/volume",
  "index/volume_range",
  "patterns",
  "detected_fields",
  "detected_field/id/values",
  "detected_labels",
  "format_query",
] as const;

export const wideStreams: Attack = {
  group: "logql",
  what: "labels, series, volumes, patterns and detected fields of 10,000 records with 50 labels of their own each",
  everyMs: 1000,
  async prepare(attacker) {
    for (let body = 0; body < 10; body += 1) {
      const labels = (index: number): string =>
        Array.from({ length: 50 }, (_, label) => attribute(`l${(index * 7 + label) % 500}`, `${index}-${label}`)).join(",");
      const records = Array.from({ length: 1000 }, (_, index) =>
        record(index, `{\\"k${index}\\":1}`).replace(/\}$/, `,"attributes":[${labels(index)}]}`),
      );
      await store(attacker, attribute("service.name", "wide-streams"), records.join(","));
    }
  },
  async wave(attacker, turn) {
    await attacker.many(4, 4, (index) => {
      const path = LOKI_LISTS[(turn * 4 + index) % LOKI_LISTS.length] ?? "labels";
      const name = path === "series" ? "match[]" : "query";
      const selector = encodeURIComponent('{service_name=~".+"}');
      return attacker.call({ method: "GET", path: `${LOKI}/${path}?${name}=${selector}`, bearer: attacker.target.viewerToken });
    });
  },
};

export const costlyTail: Attack = {
  group: "logql",
  what: "a tail whose template replaces in 1 MiB for each record, and 100 records every two seconds",
  everyMs: 2000,
  async wave(attacker, turn) {
    const query = `{service_name="tailed"} | line_format \`${replaces(4)}\``;
    const head = [
      `GET ${LOKI}/tail?query=${encodeURIComponent(query)} HTTP/1.1`,
      "Host: x",
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      `Authorization: Bearer ${attacker.target.viewerToken}`,
      "\r\n",
    ].join("\r\n");
    if (turn % (TAIL_MS / 2000) === 0) void attacker.many(4, 4, () => attacker.hold([head], TAIL_MS));
    const records = Array.from({ length: 100 }, (_, index) => record(index, attacker.serial()));
    await store(attacker, attribute("service.name", "tailed"), records.join(","));
  },
};
