// Records for which the examples have results: for each selector a stream with its labels, which contains the lines that the query
// mentions, the lines of the pages, and some additional ones. Invariant: no two records have the same time, so that their order is unique.

export interface DocumentRecord {
  readonly labels: Readonly<Record<string, string>>;
  readonly timeNs: bigint;
  readonly line: string;
}

/** Lines for typical examples: fields, conversions, and lines that no parser can read. */
const OWN_LINES = [
  "level=info ts=2026-01-02T03:04:05Z caller=metrics.go:160 component=frontend org_id=29 traceID=4f latency=fast duration=31.5s status=200 throughput=12MB total_bytes=4.5MB",
  "level=error ts=2026-01-02T03:04:06Z caller=metrics.go:161 component=querier org_id=7 latency=slow duration=900ms status=500 bytes_consumed=21MB total_bytes=25MB",
  'level=warn caller=http.go:12 msg="GET /api/v1/write (404) 20.5ms" method=GET path=/api/v1/write size=20KB status_code=404',
  'level=debug msg="POST /loki/api/v1/push (204) 1.5s" addr=192.168.4.7 org_id=29 size=1KiB duration=25ms method=POST',
  "=broken key=value key=again standalone",
  '{"level":"error","err":"timeout of database","message":"timeout","duration":"12s","status":504,"request_time":"0.25","org_id":"29"}',
  '{"level":"info","message":"ok","duration":"80ms","status":200,"request_time":"1.5","request":{"method":"GET","path":"/list"},"list":[1,2]}',
  '{"createDate":"2025-12-24","foo":"2h45m","bar":"1.5KiB","path":"a b c","count":3,"createdBy":"Anna","_entry":"unpacked line","pod":"p-1"}',
  '{"broken": ',
  '10.10.15.9 - - [10/Jun/2026:09:14:29 +0000] "GET /items HTTP/1.1" 200 512 "-" "curl/8" "203.0.113.9" "TLSv1.3" "US" ""',
  '192.168.4.2 - frank [10/Jun/2026:09:14:30 +0000] "POST /pay?x=1 HTTP/1.1" 500 12 "-" "Mozilla/5.0" "203.0.113.10" "TLSv1.3" "DE" ""',
  "Jan  2 03:04:05 host sshd[17]: Invalid user admin from 192.168.4.9 port 4711",
  "Jan  2 03:04:06 host sshd[18]: pam_unix(sshd:session): session opened for user root by (uid=0)",
  "\u001b[31merror\u001b[0m in colours \u001b[1;32mok\u001b[0m",
  "POST /api/prom/api/v1/query_range (200) 1.5s",
  "",
  "a line of words, with ünïcode and \t a tab",
];

const SECOND_NS = 1_000_000_000n;
const MOST_LINES = 90;

/** One after another, the last of them at `endNs`. */
export function recordsFor(examples: readonly string[], lines: readonly string[], endNs: bigint): DocumentRecord[] {
  const streams = new Map<string, { labels: Record<string, string>; lines: Set<string> }>();
  for (const example of examples) {
    for (const labels of selectorsOf(example)) {
      const key = JSON.stringify(Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1)));
      const stream = streams.get(key) ?? { labels, lines: new Set<string>() };
      streams.set(key, stream);
      for (const line of namedLines(example)) stream.lines.add(line);
    }
  }
  const all = [...streams.values()].flatMap((stream) => {
    const own = [...stream.lines].slice(0, MOST_LINES / 2);
    return [...own, ...OWN_LINES, ...lines.slice(0, MOST_LINES - own.length)].map((line) => ({ labels: stream.labels, line }));
  });
  // Streams take turns, as in life.
  const mixed = all.map((one, index) => ({ ...one, turn: (index * 7919) % all.length })).sort((one, other) => one.turn - other.turn);
  const stepNs = (1200n * SECOND_NS) / BigInt(Math.max(1, mixed.length));
  return mixed.map(({ labels, line }, index) => ({ labels, line, timeNs: endNs - BigInt(mixed.length - 1 - index) * stepNs }));
}

const MATCHER = /([A-Za-z_]\w*)\s*(=~|!=|!~|=)\s*("(?:[^"\\]|\\.)*"|`[^`]*`)/g;

/** Labels that each selector of a query selects. */
function selectorsOf(query: string): Record<string, string>[] {
  return [...query.matchAll(/(?<!\{)\{([^{}]*)\}(?!\})/g)].flatMap(([, inner = ""]) => {
    const labels: Record<string, string> = {};
    for (const [, name = "", operator, quoted = ""] of inner.matchAll(MATCHER)) {
      // The product's own, which no sender sets.
      if (name === "instance") continue;
      const value = textOf(quoted);
      if (operator === "=") labels[name] = value;
      if (operator === "=~") labels[name] = sampleOf(value);
    }
    return Object.values(labels).every((value) => value !== "") && Object.keys(labels).length > 0 ? [labels] : [];
  });
}

function textOf(quoted: string): string {
  return quoted.startsWith("`") ? quoted.slice(1, -1) : (JSON.parse(quoted.replaceAll(/\\([^"\\/bfnrtu])/g, "$1")) as string);
}

/** A text that the expression matches, as far as documentation writes any. */
function sampleOf(expression: string): string {
  const [first = ""] = expression.replaceAll(/^\(\?\w+\)/g, "").split("|");
  return first
    .replaceAll(/\[\\S\\s\]\*|\.\*|\(|\)/g, "")
    .replaceAll(/\.\+|\\w\+|\[\^[^\]]*\]\+?/g, "x")
    .replaceAll(/\\d\+?|\[\d.*?\]/g, "2")
    .replaceAll(/\\(.)/g, "$1");
}

/** Lines with what the filters of a query look for. */
function namedLines(query: string): string[] {
  const texts = [...query.matchAll(/\|[=~]\s*("(?:[^"\\]|\\.)*"|`[^`]*`)/g)].map(([, quoted = ""]) => sampleOf(textOf(quoted)));
  if (texts.length === 0) return [];
  const text = texts.join(" ");
  return [
    `a line with ${text} in it`,
    `level=error host=h1 duration=12s status_code=500 latency=1.5s size=30KB method=GET msg=${JSON.stringify(text)} err=failed ${text}`,
    JSON.stringify({ message: text, err: text, duration: "12s", status: 500, host: "h1", method: "GET", response_latency_seconds: 2 }),
  ];
}
