// Labels of a resource and its points as exposition text, from the OpenTelemetry specification,
// compatibility/prometheus_and_openmetrics.md.
import { describe, expect, it } from "vitest";
import { MAX_LABELS } from "./otlp-metrics-limits.ts";
import { ResourceLabels } from "./series-labels.ts";
import { attributes, convert, gauge, histogram, labelled, many, series, TIME } from "./exposition.fixture.ts";

describe("labels", () => {
  it("distinguish two nodes, pods and processes without service.name", () => {
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

  it("derive job and instance from the service, and target_info from the other resource attributes", () => {
    const resource = { "service.name": "shop", "service.namespace": "eu", "service.instance.id": "i-1", "telemetry.sdk.name": "otel" };
    const place = 'job="eu/shop",instance="i-1",service_name="shop",service_instance_id="i-1",service_namespace="eu"';
    const metrics = [gauge("m"), gauge("n")];
    expect(series(metrics, resource)).toEqual([`m{${place}}`, `n{${place}}`, `target_info{${place},telemetry_sdk_name="otel"}`]);
    expect(series(metrics, { "service.name": "shop" }), "nothing else to say").toHaveLength(2);
    expect(convert([], resource).lines, "no points").toEqual([]);
  });

  it("rename labels that the server sets, and a point's own job and instance", () => {
    const resource = { "service.name": "shop", "host.id": "h", org_id: "o" };
    expect(series([gauge("m", { node: "n", host_id: "x", job: "j", instance: "i" })], resource)[0]).toBe(
      'm{job="shop",service_name="shop",exported_org_id="o",exported_node="n",exported_host_id="x",exported_job="j",instance="i"}',
    );
  });

  it("repeat the prefix of a renamed label while another one has that name", () => {
    const labels = { exported_node: "b", node: "a", exported_exported_node: "c", "host.id": "h", "exported.host.id": "i" };
    expect(series([gauge("m", labels)])).toEqual([
      'm{exported_node="b",exported_exported_exported_node="a",exported_exported_node="c",exported_exported_host_id="h",exported_host_id="i"}',
    ]);
  });

  it("rename a resource's own le and quantile, which buckets and quantiles need", () => {
    const resource = { le: "r", quantile: "q", __name__: "n" };
    const summary = {
      name: "s",
      summary: { dataPoints: [{ timeUnixNano: TIME, count: 1, quantileValues: [{ quantile: 0.5, value: 1 }] }] },
    };
    const labels = '_name_="n",exported_le="r",exported_quantile="q"';
    expect(series([histogram({ count: 1 }), summary], resource)).toEqual([
      `h_seconds_bucket{${labels},le="+Inf"}`,
      `h_seconds_count{${labels}}`,
      `s{${labels},quantile="0.5"}`,
      `s_sum{${labels}}`,
      `s_count{${labels}}`,
    ]);
  });

  it("prefer the point's attribute over the resource's", () => {
    expect(series([gauge("m", { zone: "point" })], { zone: "resource" })).toEqual(['m{zone="point"}']);
  });

  it("join keys that map to the same name with `;`, in the order of the keys", () => {
    expect(series([gauge("m", { a_b: "2", "a.b": "1", "a-b": "0" })])).toEqual(['m{a_b="0;1;2"}']);
  });

  it("omit empty values, because an empty label is no label", () => {
    expect(series([gauge("m", { a: "", b: "1", c: {} })], { d: "" })).toEqual(['m{b="1"}']);
    expect(series([gauge("m", { a: "" })])).toEqual(["m"]);
  });

  it("escape only quotes, backslashes and line ends", () => {
    expect(series([gauge("m", { a: 'q"b\\s\nl\tü{},=' })])).toEqual([String.raw`m{a="q\"b\\s\nl${"\t"}ü{},="}`]);
  });

  it("write other values as JSON", () => {
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

  it("use each point's keys if they change from point to point", () => {
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

  it("never exceed the store's limit: the least informative ones of the resource are dropped first", () => {
    const [line = ""] = series([gauge("m", many("p", 10))], { ...many("a", 40), "k8s.pod.uid": "u", "service.name": "s" });
    expect(line.match(/="/g)).toHaveLength(MAX_LABELS);
    expect(line).toMatch(/^m\{job="s",k8s_pod_uid="u",service_name="s",a0="1".*p9="1"\}$/);
    expect(convert([gauge("m", many("p", MAX_LABELS + 1))])).toEqual({ lines: [], dropped: { too_many_labels: 1 } });
  });

  it("are truncated to the store's limit, between two characters", () => {
    const [line = ""] = series([gauge("m", { a: "ü".repeat(3000) })]);
    expect(line).toMatch(/^m\{a="ü{502}…[0-9a-f]{16}"\}$/);
  });

  it("that are truncated stay different, so that two series do not become one", () => {
    const statements = ["a", "b"].map((last) => gauge("m", { statement: `SELECT ${"x,".repeat(2000)}${last}` }));
    expect(new Set(series(statements)).size).toBe(2);
    expect(series(statements)).toEqual(series(statements));
  });

  it("omit the scope", () => {
    expect(series([gauge("m")])).toEqual(["m"]);
  });
});

it("attributes of a point take time in proportion to their number", () => {
  const before = process.threadCpuUsage();
  expect(convert([gauge("m", many("k", 50_000))]).lines).toEqual([]);
  const { user, system } = process.threadCpuUsage(before);
  // 3 s if each attribute is compared with every other.
  expect((user + system) / 1000).toBeLessThan(1200);
});

it("of a resource are limited to what can be written, because each point may iterate over them", () => {
  expect(new ResourceLabels(attributes(many("r", 1000))).text(1000, new Set()).split(",")).toHaveLength(2 * MAX_LABELS);
});
