import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { metadataOf } from "./metric-metadata.ts";

const described = (...names: string[]): unknown =>
  Object.fromEntries([...metadataOf(names)].map(([name, { type, unit }]) => [name, [type, unit]]));

test("distinguishes a counter, a histogram and a summary by the suffixes of their series", () => {
  expect(described("http_requests_total", "cpu_seconds_total", "system_memory_usage_bytes", "shop_baskets")).toEqual({
    cpu_seconds_total: ["counter", "seconds"],
    http_requests_total: ["counter", ""],
    system_memory_usage_bytes: ["gauge", "bytes"],
    shop_baskets: ["unknown", ""],
  });
  const histogram = { latency_seconds: ["histogram", "seconds"] };
  expect(described("latency_seconds_bucket", "latency_seconds_count", "latency_seconds_sum")).toEqual(histogram);
  expect(described("latency_seconds_sum", "latency_seconds_count", "latency_seconds_bucket")).toEqual(histogram);
  expect(described("gc_seconds", "gc_seconds_count", "gc_seconds_sum")).toEqual({ gc_seconds: ["summary", "seconds"] });
});

test("a suffix alone is no summary, and a name that is only a suffix stays unchanged", () => {
  expect(described("queue_count", "pods_sum", "_bucket", "__proto__")).toEqual(
    Object.fromEntries([
      ["queue_count", ["unknown", ""]],
      ["pods_sum", ["unknown", ""]],
      ["_bucket", ["unknown", ""]],
      ["__proto__", ["unknown", ""]],
    ]),
  );
});

test("a gauge of a histogram's name does not hide the histogram", () => {
  expect(described("size", "size_bucket", "size_sum", "size_count")).toEqual({ size: ["histogram", ""] });
  expect(described("size_bucket", "size")).toEqual({ size: ["histogram", ""] });
});

test("the agent's metrics have a help text, under the name of the metric of a series", () => {
  const help = (...names: string[]): string[] => [...metadataOf(names).values()].map((metadata) => metadata.help);
  expect(help("k8s_pod_phase")).toEqual(["Phase of the pod: 1 pending, 2 running, 3 succeeded, 4 failed, 5 unknown"]);
  expect(help("traces_spanmetrics_latency_bucket")).toEqual(["Duration of spans by service, name, kind and status, in seconds"]);
  expect(help("shop_baskets", "constructor")).toEqual(["", ""]);
});

test("every metric of the agent that the cluster of the end-to-end suite sends has a help text", () => {
  const sent = readFileSync(new URL("../../../docs/dashboards/metrics.txt", import.meta.url), "utf8")
    .split("\n")
    .filter(Boolean);
  const ours = sent.filter((name) => /^(?:atherops_agent|container|k8s|machine|system)_/.test(name));
  expect(ours.length).toBeGreaterThan(100);
  expect([...metadataOf(ours)].filter(([, { help }]) => help === "").map(([name]) => name)).toEqual([]);
});
