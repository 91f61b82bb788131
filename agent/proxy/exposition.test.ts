// Tables made from the OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md, "OTLP Metric points to Prometheus",
// and from the name tables of prometheus/otlptranslator, whose strategy UnderscoreEscapingWithSuffixes is followed.
import { describe, expect, it } from "vitest";
import { MetricsConverter } from "./exposition.ts";
import type { DropReason } from "./series-writer.ts";
import type { AnyValue, KeyValue, Metric } from "./otlp-metrics.ts";
import { labelName, metricName, plainDecimal } from "./prometheus-names.ts";
import { MAX_LABELS } from "./series-labels.ts";

const TIME = "1763714400123456789";
const LARGE = 32 * 1024 * 1024;

function attributes(values: Record<string, string | AnyValue>): KeyValue[] {
  return Object.entries(values).map(([key, value]) => ({ key, value: typeof value === "string" ? { stringValue: value } : value }));
}

function convert(metrics: Metric[], resource: Record<string, string | AnyValue> = {}) {
  const dropped: Partial<Record<DropReason, number>> = {};
  const converter = new MetricsConverter((reason, points) => (dropped[reason] = (dropped[reason] ?? 0) + points));
  const document = {
    resourceMetrics: [{ resource: { attributes: attributes(resource) }, scopeMetrics: [{ scope: { name: "s" }, metrics }] }],
  };
  const text = Buffer.concat([...converter.convert(JSON.stringify(document), LARGE)]).toString("utf8");
  return { lines: text.split("\n").slice(0, -1), dropped };
}

function gauge(name: string, labels: Record<string, string | AnyValue> = {}): Metric {
  return { name, gauge: { dataPoints: [{ attributes: attributes(labels), timeUnixNano: TIME, asInt: "1" }] } };
}

function labelled(labels: Record<string, string>) {
  return { attributes: attributes(labels), timeUnixNano: TIME, asInt: "1" };
}

function many(prefix: string, count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, "1"]));
}

function histogram(point: object): Metric {
  return { name: "h", unit: "s", histogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: TIME, ...point }] } };
}

function exponential(point: object): Metric {
  return { name: "e", exponentialHistogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: TIME, ...point }] } };
}

/** le → count of the exponential histogram's one point. */
function exponentialBounds(point: object): Record<string, number> {
  const matches = convert([exponential(point)]).lines.map((line) => /^e_bucket\{le="(.*)"\} (\S+)/.exec(line));
  return Object.fromEntries(matches.flatMap((match) => (match ? [[match[1] ?? "", Number(match[2])]] : [])));
}

/** Lines without their value and time. */
function series(metrics: Metric[], resource: Record<string, string | AnyValue> = {}): string[] {
  return convert(metrics, resource).lines.map((line) => line.replace(/ \S+ \d+$/, ""));
}

describe("metric names", () => {
  it.each([
    // name, unit, kind, Prometheus name
    ["system.cpu.time", "s", "counter", "system_cpu_time_seconds_total"],
    ["system.memory.usage", "By", "other", "system_memory_usage_bytes"],
    ["system.disk.io", "By", "counter", "system_disk_io_bytes_total"],
    ["http.server.request.duration", "s", "other", "http_server_request_duration_seconds"],
    ["system.network.packets", "{packets}", "counter", "system_network_packets_total"],
    ["system.cpu.utilization", "1", "gauge", "system_cpu_utilization_ratio"],
    ["requests.count", "1", "counter", "requests_count_total"],
    ["up.down", "1", "other", "up_down"],
    ["hw.temperature", "Cel", "gauge", "hw_temperature_celsius"],
    ["cpu.load", "%", "gauge", "cpu_load_percent"],
    ["disk.rate", "By/s", "gauge", "disk_rate_bytes_per_second"],
    ["queue.rate", "{requests}/s", "gauge", "queue_rate_per_second"],
    ["speed", "m/s", "gauge", "speed_meters_per_second"],
    ["growth", "By/mo", "gauge", "growth_bytes_per_month"],
    ["beats", "{beat}/min", "gauge", "beats_per_min"],
    ["memory", "TiBy", "gauge", "memory_tebibytes"],
    ["memory", "kBy", "gauge", "memory_kilobytes"],
    ["work", "{weird unit}", "gauge", "work"],
    ["work", "fathoms", "gauge", "work_fathoms"],
    ["work", "a-b/c.d", "gauge", "work_a_b_per_c_d"],
    ["duration_seconds", "s", "other", "duration_seconds"],
    ["request.seconds.max", "s", "gauge", "request_seconds_max"],
    ["total_requests", "", "counter", "requests_total"],
    // Already in Prometheus' words: nothing is doubled, nothing is moved.
    ["container_cpu_usage_seconds_total", "", "counter", "container_cpu_usage_seconds_total"],
    ["container_cpu_usage_seconds_total", "s", "counter", "container_cpu_usage_seconds_total"],
    ["node_total_hosts_total", "", "counter", "node_total_hosts_total"],
    ["container_memory_working_set_bytes", "By", "gauge", "container_memory_working_set_bytes"],
    ["io_bytes_per_second", "By/s", "gauge", "io_bytes_per_second"],
    ["job:requests:rate5m", "", "gauge", "job:requests:rate5m"],
    // Characters
    ["weird@@name..with--all", "", "gauge", "weird_name_with_all"],
    ["_leading_and_trailing_", "", "gauge", "leading_and_trailing"],
    ["1st.metric", "", "gauge", "_1st_metric"],
    ["température", "Cel", "gauge", "temp_rature_celsius"],
    ["@#$", "s", "gauge", ""],
    ["", "s", "gauge", ""],
  ] as const)("%s in %j as %s is %j", (name, unit, kind, expected) => {
    expect(metricName(name, unit, kind)).toBe(expected);
  });
});

describe("label names", () => {
  it.each([
    ["http.method", "http_method"],
    ["a..b__c", "a_b_c"],
    ["1st", "key_1st"],
    ["_private", "_private"],
    ["__name__", "_name_"],
    ["ключ", "_"],
    ["", ""],
  ])("%j is %j", (key, expected) => {
    expect(labelName(key)).toBe(expected);
  });
});

describe("bounds in labels", () => {
  it.each([
    [0.005, "0.005"],
    [1, "1"],
    [-0.5, "-0.5"],
    [1e21, "1000000000000000000000"],
    [1.25e-7, "0.000000125"],
    [-1.5e22, "-15000000000000000000000"],
    [Number.POSITIVE_INFINITY, "+Inf"],
  ])("%d is written %s, never with an exponent", (value, expected) => {
    expect(plainDecimal(value)).toBe(expected);
    expect(Number(expected.replace("+Inf", "Infinity"))).toBe(value);
  });
});

describe("number points", () => {
  it("keep all digits of an integer, the time in milliseconds, and every double", () => {
    const values = [{ asInt: "9007199254740993" }, { asInt: "-9223372036854775808" }, { asInt: 7 }, { asDouble: 0.1 }, { asDouble: 1e300 }];
    const special = [{ asDouble: "NaN" }, { asDouble: "Infinity" }, { asDouble: "-Infinity" }, { asDouble: "2.5" }, { asDouble: 0 }];
    const { lines, dropped } = convert([
      { name: "m", gauge: { dataPoints: [...values, ...special].map((value) => ({ timeUnixNano: TIME, ...value })) } },
    ]);
    expect(lines.map((line) => line.split(" "))).toEqual(
      ["9007199254740993", "-9223372036854775808", "7", "0.1", "1e+300", "NaN", "+Inf", "-Inf", "2.5", "0"].map((value) => [
        "m",
        value,
        "1763714400123",
      ]),
    );
    expect(dropped).toEqual({});
  });

  it("without time are written without one", () => {
    const dataPoints = [{ asInt: "1" }, { timeUnixNano: "0", asInt: "2" }, { timeUnixNano: 0, asInt: "3" }];
    expect(convert([{ name: "m", gauge: { dataPoints } }]).lines).toEqual(["m 1", "m 2", "m 3"]);
  });

  it("that ended (NoRecordedValue) are left out and are no loss", () => {
    const dataPoints = [
      { timeUnixNano: TIME, flags: 1 },
      { timeUnixNano: TIME, flags: 1, asDouble: 0 },
      { timeUnixNano: TIME, flags: 2, asInt: "5" },
    ];
    expect(convert([{ name: "m", gauge: { dataPoints } }])).toEqual({ lines: ["m 5 1763714400123"], dropped: {} });
  });

  it("that are malformed are counted and do not stop the others", () => {
    const dataPoints = [
      { timeUnixNano: TIME },
      { timeUnixNano: TIME, asInt: "1.5" },
      { timeUnixNano: TIME, asDouble: "abc" },
      { timeUnixNano: "yesterday", asInt: "1" },
      { timeUnixNano: "1763714400", asInt: "1" },
      { timeUnixNano: "-5000000000000000000", asInt: "1" },
      { timeUnixNano: TIME, asInt: "8" },
    ];
    const { lines, dropped } = convert([{ name: "m", gauge: { dataPoints } }]);
    expect(lines).toEqual(["m 8 1763714400123"]);
    expect(dropped).toEqual({ malformed_point: 3, bad_time: 3 });
  });

  it("of a monotonic sum are a counter, of another sum a gauge", () => {
    const dataPoints = [{ timeUnixNano: TIME, asInt: "1" }];
    const sum = (isMonotonic?: boolean) => ({ name: "jobs", sum: { aggregationTemporality: 2, isMonotonic, dataPoints } });
    expect(series([sum(true), sum(false), sum()])).toEqual(["jobs_total", "jobs", "jobs"]);
  });

  it("of delta or unspecified temporality are counted and left out", () => {
    const dataPoints = [
      { timeUnixNano: TIME, asInt: "1" },
      { timeUnixNano: TIME, asInt: "2" },
    ];
    const metrics: Metric[] = [
      { name: "a", sum: { aggregationTemporality: 1, isMonotonic: true, dataPoints } },
      { name: "b", sum: { aggregationTemporality: "AGGREGATION_TEMPORALITY_DELTA", dataPoints } },
      { name: "c", histogram: { aggregationTemporality: 1, dataPoints } },
      { name: "d", sum: { isMonotonic: true, dataPoints } },
      { name: "e", exponentialHistogram: { aggregationTemporality: 0, dataPoints } },
      { name: "f", sum: { aggregationTemporality: "AGGREGATION_TEMPORALITY_CUMULATIVE", dataPoints: [dataPoints[1] ?? {}] } },
    ];
    expect(convert(metrics)).toEqual({ lines: ["f 2 1763714400123"], dropped: { delta: 6, unspecified_temporality: 4 } });
  });
});

describe("histograms", () => {
  it("have cumulative buckets, +Inf, sum and count", () => {
    const point = {
      attributes: attributes({ a: "x" }),
      count: "10",
      sum: 12.5,
      min: 0,
      max: 9,
      bucketCounts: ["1", "2", "0", "7"],
      explicitBounds: [0.5, 1, 2.5],
    };
    expect(convert([histogram(point)]).lines).toEqual(
      [
        'h_seconds_bucket{a="x",le="0.5"} 1',
        'h_seconds_bucket{a="x",le="1"} 3',
        'h_seconds_bucket{a="x",le="2.5"} 3',
        'h_seconds_bucket{a="x",le="+Inf"} 10',
        'h_seconds_sum{a="x"} 12.5',
        'h_seconds_count{a="x"} 10',
      ].map((line) => `${line} 1763714400123`),
    );
  });

  it("without a sum have none, without buckets only +Inf", () => {
    expect(series([histogram({ count: "3" })])).toEqual(['h_seconds_bucket{le="+Inf"}', "h_seconds_count"]);
  });

  it("keep counts beyond 2^53 exact", () => {
    const { lines } = convert([
      histogram({ count: "18446744073709551615", bucketCounts: ["9007199254740993", "9223372036854775807"], explicitBounds: [1] }),
    ]);
    expect(lines[0]).toBe('h_seconds_bucket{le="1"} 9007199254740993 1763714400123');
    expect(lines[1]).toContain("18446744073709551615");
  });

  it.each([
    ["too few counts", { bucketCounts: ["1", "2"], explicitBounds: [1, 2] }],
    ["falling bounds", { bucketCounts: ["1", "2", "3"], explicitBounds: [2, 1] }],
    ["equal bounds", { bucketCounts: ["1", "2", "3"], explicitBounds: [2, 2] }],
    ["a bound that is no number", { bucketCounts: ["1", "2"], explicitBounds: ["NaN"] }],
    ["a negative count", { bucketCounts: ["-1", "2"], explicitBounds: [1] }],
  ])("with %s are counted and left out", (_, point) => {
    expect(convert([histogram({ count: "3", ...point })])).toEqual({ lines: [], dropped: { malformed_point: 1 } });
  });

  it("rename a point's own `le`", () => {
    expect(series([histogram({ count: "1", attributes: attributes({ le: "mine" }) })])[0]).toBe(
      'h_seconds_bucket{exported_le="mine",le="+Inf"}',
    );
  });
});

describe("exponential histograms", () => {
  it("have the upper bounds of their scale", () => {
    const point = { scale: 0, count: "6", sum: 9, positive: { offset: -1, bucketCounts: ["1", "2", "3"] } };
    expect(exponentialBounds(point)).toEqual({ "1": 1, "2": 3, "4": 6, "+Inf": 6 });
    expect(series([exponential(point)]).slice(-2)).toEqual(["e_sum", "e_count"]);
  });

  it("put the negative side first and the zero bucket between", () => {
    const point = {
      scale: 0,
      count: "10",
      zeroCount: "4",
      zeroThreshold: 0.25,
      negative: { offset: 0, bucketCounts: ["1", "2"] },
      positive: { offset: 0, bucketCounts: ["3"] },
    };
    expect(Object.entries(exponentialBounds(point))).toEqual(
      expect.arrayContaining([
        ["-2", 2],
        ["-1", 3],
        ["0.25", 7],
        ["2", 10],
        ["+Inf", 10],
      ]),
    );
  });

  it("write no empty buckets beyond those in use, which would stand still once the sender leaves them out", () => {
    const positive = { offset: 0, bucketCounts: ["0", "1", "0", 2, 0, "0"] };
    const negative = { offset: 0, bucketCounts: ["0", "0"] };
    expect(exponentialBounds({ scale: 0, count: "3", positive, negative })).toEqual({ "4": 1, "8": 1, "16": 3, "+Inf": 3 });
    const wide = { offset: 0, bucketCounts: ["1", ...Array.from({ length: 400 }, () => "0")] };
    expect(exponentialBounds({ scale: 2, count: "1", positive: wide })).toEqual({ "1.189207115002721": 1, "+Inf": 1 });
    expect(exponentialBounds({ scale: 0, count: "0", positive: { bucketCounts: ["0"] } })).toEqual({ "+Inf": 0 });
  });

  it("of a fine scale use bounds that a coarser scale has too", () => {
    const bucketCounts = Array.from({ length: 64 }, () => "1");
    const fine = exponentialBounds({ scale: 5, count: "64", positive: { offset: 0, bucketCounts } });
    const coarse = exponentialBounds({ scale: 1, count: "64", positive: { offset: 0, bucketCounts: ["16", "16", "16", "16"] } });
    expect(Object.keys(fine)).toEqual(expect.arrayContaining(Object.keys(coarse)));
    expect(Object.keys(fine)).toHaveLength(8 + 1);
    for (const [le, count] of Object.entries(coarse)) expect(fine[le]).toBe(count);
  });

  it("never have more than 160 bounds, whatever their width", () => {
    const bucketCounts = Array.from({ length: 1000 }, () => "1");
    const found = exponentialBounds({ scale: 2, count: "1000", positive: { offset: -500, bucketCounts } });
    expect(Object.keys(found).length).toBeLessThanOrEqual(161);
    expect(Object.values(found).at(-1)).toBe(1000);
  });

  it.each([
    [{ scale: -11, positive: { offset: 0, bucketCounts: ["1"] } }, { "+Inf": 1 }],
    [
      { scale: 0, positive: { offset: -2000, bucketCounts: ["1"] } },
      { "0": 1, "+Inf": 1 },
    ],
    [
      { scale: 20, positive: { offset: 1 << 20, bucketCounts: ["1"] } },
      { "2.378414230005442": 1, "+Inf": 1 },
    ],
  ])("stay within what a number holds: %j", (point, expected) => {
    expect(exponentialBounds({ count: "1", ...point })).toEqual(expected);
  });
});

describe("summaries", () => {
  it("have quantiles, sum and count", () => {
    const quantileValues = [{ value: 1 }, { quantile: 0.99, value: 4.5 }, { quantile: 1, value: "NaN" }];
    const { lines } = convert([
      { name: "s", unit: "s", summary: { dataPoints: [{ timeUnixNano: TIME, count: "3", sum: 6, quantileValues }] } },
    ]);
    expect(lines).toEqual(
      [
        's_seconds{quantile="0"} 1',
        's_seconds{quantile="0.99"} 4.5',
        's_seconds{quantile="1"} NaN',
        "s_seconds_sum 6",
        "s_seconds_count 3",
      ].map((line) => `${line} 1763714400123`),
    );
  });

  it("with a quantile beyond 1 are counted and left out", () => {
    const dataPoints = [{ timeUnixNano: TIME, count: "3", quantileValues: [{ quantile: 50, value: 1 }] }];
    expect(convert([{ name: "s", summary: { dataPoints } }])).toEqual({ lines: [], dropped: { malformed_point: 1 } });
  });
});

describe("labels", () => {
  it("keep two nodes, pods and processes apart without any service.name", () => {
    const node = { "k8s.node.name": "n1", "host.name": "h1" };
    const places = [
      node,
      { ...node, "k8s.node.name": "n2" },
      { ...node, "k8s.pod.uid": "p1" },
      { ...node, "process.pid": { intValue: "7" } },
    ];
    expect(new Set(places.map((place) => series([gauge("m", { cpu: "0" })], place)[0])).size).toBe(places.length);
    expect(series([gauge("m", { cpu: "0" })], node)).toEqual(['m{k8s_node_name="n1",host_name="h1",cpu="0"}']);
  });

  it("make job and instance of the service, and target_info of what else the resource says", () => {
    const resource = { "service.name": "shop", "service.namespace": "eu", "service.instance.id": "i-1", "telemetry.sdk.name": "otel" };
    const place = 'job="eu/shop",instance="i-1",service_name="shop",service_instance_id="i-1",service_namespace="eu"';
    const metrics = [gauge("m"), gauge("n")];
    expect(series(metrics, resource)).toEqual([`m{${place}}`, `n{${place}}`, `target_info{${place},telemetry_sdk_name="otel"}`]);
    expect(series(metrics, { "service.name": "shop" }), "nothing else to say").toHaveLength(2);
    expect(convert([], resource).lines, "no points").toEqual([]);
  });

  it("rename what the server sets, and a point's own job and instance", () => {
    const resource = { "service.name": "shop", "host.id": "h", org_id: "o" };
    expect(series([gauge("m", { node: "n", host_id: "x", job: "j", instance: "i" })], resource)[0]).toBe(
      'm{job="shop",service_name="shop",exported_org_id="o",exported_node="n",exported_host_id="x",exported_job="j",instance="i"}',
    );
  });

  it("let the point's attribute win over the resource's", () => {
    expect(series([gauge("m", { zone: "point" })], { zone: "resource" })).toEqual(['m{zone="point"}']);
  });

  it("join keys that become one name with `;`, in the order of the keys", () => {
    expect(series([gauge("m", { a_b: "2", "a.b": "1", "a-b": "0" })])).toEqual(['m{a_b="0;1;2"}']);
  });

  it("leave empty values out, since an empty label is no label", () => {
    expect(series([gauge("m", { a: "", b: "1", c: {} })], { d: "" })).toEqual(['m{b="1"}']);
    expect(series([gauge("m", { a: "" })])).toEqual(["m"]);
  });

  it("escape quotes, backslashes and line ends, and leave everything else", () => {
    expect(series([gauge("m", { a: 'q"b\\s\nl\tü{},=' })])).toEqual([String.raw`m{a="q\"b\\s\nl${"\t"}ü{},="}`]);
  });

  it("write other values as JSON does", () => {
    const labels = {
      a: { boolValue: true },
      b: { intValue: "9007199254740993" },
      c: { doubleValue: 1.5 },
      d: { arrayValue: { values: [{ stringValue: "x" }, { intValue: "1" }] } },
      e: { kvlistValue: { values: [{ key: "k", value: { boolValue: false } }] } },
      f: { bytesValue: "AQI=" },
    };
    expect(series([gauge("m", labels)])).toEqual([
      String.raw`m{a="true",b="9007199254740993",c="1.5",d="[\"x\",1]",e="{\"k\":false}",f="AQI="}`,
    ]);
  });

  it("follow a change of keys from point to point", () => {
    const dataPoints = [
      labelled({ a: "1", b: "2" }),
      labelled({ b: "2", a: "1" }),
      labelled({ a: "1" }),
      labelled({}),
      labelled({ a: "1", b: "" }),
      labelled({ a: "3", b: "4" }),
    ];
    expect(series([{ name: "m", gauge: { dataPoints } }], { r: "x" })).toEqual([
      'm{r="x",a="1",b="2"}',
      'm{r="x",b="2",a="1"}',
      'm{r="x",a="1"}',
      'm{r="x"}',
      'm{r="x",a="1"}',
      'm{r="x",a="3",b="4"}',
    ]);
  });

  it("are never more than the store takes: the least telling of the resource go first", () => {
    const [line = ""] = series([gauge("m", many("p", 10))], { ...many("a", 40), "k8s.pod.uid": "u", "service.name": "s" });
    expect(line.match(/="/g)).toHaveLength(MAX_LABELS);
    expect(line).toMatch(/^m\{job="s",k8s_pod_uid="u",service_name="s",a0="1".*p9="1"\}$/);
    expect(convert([gauge("m", many("p", MAX_LABELS + 1))])).toEqual({ lines: [], dropped: { too_many_labels: 1 } });
  });

  it("are cut to the length that the store takes, between two characters", () => {
    const [line = ""] = series([gauge("m", { a: "ü".repeat(3000) })]);
    expect(line).toBe(`m{a="${"ü".repeat(512)}"}`);
  });

  it("say nothing of the scope", () => {
    expect(series([gauge("m")])).toEqual(["m"]);
  });
});

describe("documents", () => {
  it.each([
    "{",
    "[]]",
    "null",
    '{"resourceMetrics":5}',
    '{"resourceMetrics":[null]}',
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":5,"gauge":{"dataPoints":[{}]}}]}]}]}',
  ])("that are malformed are refused: %s", (json) => {
    expect(() => [...new MetricsConverter(() => {}).convert(json, LARGE)]).toThrow(/not an OTLP/);
  });

  it.each([
    "{}",
    '{"resourceMetrics":[]}',
    '{"resourceMetrics":[{}]}',
    '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"x"}]}]}]}',
  ])("without points give no post: %s", (json) => {
    expect([...new MetricsConverter(() => {}).convert(json, LARGE)]).toEqual([]);
  });

  it("that would become any amount of text are refused", () => {
    const resource = { attributes: attributes({ long: "v".repeat(1000) }) };
    const dataPoints = Array.from({ length: 2000 }, () => ({ timeUnixNano: TIME, asInt: "1" }));
    const json = JSON.stringify({ resourceMetrics: [{ resource, scopeMetrics: [{ metrics: [{ name: "m", gauge: { dataPoints } }] }] }] });
    expect(() => [...new MetricsConverter(() => {}).convert(json, 200_000)]).toThrow(/more than 1600000 bytes/);
  });

  it("are cut into posts below the limit at line ends, and always the same way", () => {
    const dataPoints = Array.from({ length: 2000 }, (_, index) => ({
      attributes: attributes({ index: `ü${index}` }),
      timeUnixNano: TIME,
      asInt: "1",
    }));
    const json = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: "m", gauge: { dataPoints } }] }] }] });
    const converter = new MetricsConverter(() => {});
    const posts = [...converter.convert(json, 60_000)];
    expect(posts.length).toBeGreaterThan(1);
    for (const post of posts) {
      expect(post.length).toBeLessThanOrEqual(60_000);
      expect(post.toString().endsWith("\n")).toBe(true);
    }
    expect(Buffer.concat(posts).toString().split("\n")).toHaveLength(2001);
    expect([...converter.convert(json, 60_000)]).toEqual(posts);
  });
});
