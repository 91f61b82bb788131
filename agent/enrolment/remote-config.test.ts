import { describe, expect, test } from "vitest";
import { judgeHostConfig, RemoteConfigError, type RemoteConfigRules } from "./remote-config.ts";

const RULES: RemoteConfigRules = { allowed: ["/var/log/**"], forbidden: ["/var/log/own"], signals: ["metrics", "logs"] };

describe("a remote configuration", () => {
  test("may set intervals, log paths, signals and log level", () => {
    const config = {
      intervals: { metrics: "1m30s", heartbeat: "10s" },
      log_paths: ["/var/log/app/*.log"],
      signals: ["logs"],
      log_level: "warn",
    };
    expect(judgeHostConfig(config, RULES)).toEqual({
      metricsIntervalMs: 90_000,
      heartbeatIntervalMs: 10_000,
      logPaths: ["/var/log/app/*.log"],
      signals: ["logs"],
      logLevel: "warn",
    });
    expect(Object.values(judgeHostConfig({}, RULES)).filter((value) => value !== undefined)).toEqual([]);
  });

  test.each([
    [{ exporters: {} }, "config.exporters"],
    [{ intervals: { poll: "1s" } }, "intervals.poll"],
    [{ intervals: { metrics: "1ms" } }, "intervals.metrics"],
    [{ intervals: { metrics: 5 } }, "intervals.metrics"],
    [{ log_paths: ["/etc/shadow"] }, "/etc/shadow"],
    [{ log_paths: ["/var/log/own/credentials.json"] }, "credentials.json"],
    [{ log_paths: ["/var/log/../../etc/shadow"] }, ".."],
    [{ log_paths: "/var/log/a.log" }, "log_paths"],
    [{ log_paths: Array.from({ length: 101 }, () => "/var/log/a") }, "at most 100"],
    [{ signals: ["traces"] }, "turned off on this host"],
    [{ signals: [] }, "signals"],
    [{ signals: ["smoke"] }, "signals"],
    [{ log_level: "loud" }, "log_level"],
    [null, "config"],
    [[], "config"],
  ])("%j is refused, naming %s", (config, name) => {
    expect(() => judgeHostConfig(config, RULES)).toThrow(RemoteConfigError);
    expect(() => judgeHostConfig(config, RULES)).toThrow(name);
  });
});
