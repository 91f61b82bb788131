// From the name tables of prometheus/otlptranslator, whose strategy UnderscoreEscapingWithSuffixes is followed.
import { describe, expect, it } from "vitest";
import { labelName, metricName, plainDecimal } from "./prometheus-names.ts";

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
  ] as const)("convert %s in %j as %s to %j", (name, unit, kind, expected) => {
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
  ])("convert %j to %j", (key, expected) => {
    expect(labelName(key)).toBe(expected);
  });
});

describe("bucket bounds in labels", () => {
  it.each([
    [0.005, "0.005"],
    [1, "1"],
    [-0.5, "-0.5"],
    [1e21, "1000000000000000000000"],
    [1.25e-7, "0.000000125"],
    [-1.5e22, "-15000000000000000000000"],
    [Number.POSITIVE_INFINITY, "+Inf"],
  ])("format %d as %s, never with an exponent", (value, expected) => {
    expect(plainDecimal(value)).toBe(expected);
    expect(Number(expected.replace("+Inf", "Infinity"))).toBe(value);
  });
});
