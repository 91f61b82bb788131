import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, test, vi } from "vitest";
import { CollectorConfigError } from "./render.ts";
import { parseHostConfig, RemoteConfigError, RemoteConfigLoop, type RemoteConfigRules } from "./remote-config.ts";

const RULES: RemoteConfigRules = { allowed: ["/var/log/**"], forbidden: ["/var/log/own"], signals: ["metrics", "logs"] };

describe("a remote configuration", () => {
  test("sets intervals, log paths, signals and log level", () => {
    const config = {
      intervals: { metrics: "1m30s", heartbeat: "10s" },
      log_paths: ["/var/log/app/*.log"],
      signals: ["logs"],
      log_level: "warn",
    };
    expect(parseHostConfig(config, RULES)).toEqual({
      metricsIntervalMs: 90_000,
      heartbeatIntervalMs: 10_000,
      logPaths: ["/var/log/app/*.log"],
      signals: ["logs"],
      logLevel: "warn",
    });
    expect(Object.values(parseHostConfig({}, RULES)).filter((value) => value !== undefined)).toEqual([]);
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
    [{ signals: ["traces"] }, "disabled on this host"],
    [{ signals: [] }, "signals"],
    [{ signals: ["smoke"] }, "signals"],
    [{ log_level: "loud" }, "log_level"],
    [null, "config"],
    [[], "config"],
  ])("rejects %j and names %s", (config, name) => {
    expect(() => parseHostConfig(config, RULES)).toThrow(RemoteConfigError);
    expect(() => parseHostConfig(config, RULES)).toThrow(name);
  });
});

describe("the polling loop", () => {
  /** A server with one configuration, polled every few milliseconds until `until` is true; returns the etags of the requests. */
  async function poll(
    apply: (attempt: number) => Promise<void>,
    until: (loop: RemoteConfigLoop, asked: unknown[]) => void,
  ): Promise<{ asked: (string | undefined)[]; logged: string; attempts: number; remembered: string }> {
    const folder = mkdtempSync(join(tmpdir(), "atherops-remote-config-"));
    const asked: (string | undefined)[] = [];
    let [logged, attempts] = ["", 0];
    const stateFile = join(folder, "remote-config.json");
    const loop = new RemoteConfigLoop({
      stateFile,
      rules: RULES,
      intervalMs: 5,
      credentials: {
        current: () => ({ id: "i", apiKey: "ak_x", keyCreatedAt: "" }),
        refresh: () => Promise.resolve(undefined),
      },
      backend: {
        remoteConfig: (_credential, _node, etag) => {
          asked.push(etag);
          const document = { version: "1", config: { signals: ["logs"] } };
          return Promise.resolve({ body: etag === "e" ? undefined : { document, etag: "e" }, keyAgeDays: 0 });
        },
      },
      apply: () => apply(++attempts),
      log: pino({ level: "warn" }, { write: (line) => void (logged += line) }),
    });
    loop.start();
    await vi.waitFor(() => until(loop, asked), { timeout: 50_000 });
    await loop[Symbol.asyncDispose]();
    const remembered = attempts > 1 ? readFileSync(stateFile, "utf8") : "";
    rmSync(folder, { recursive: true });
    return { asked, logged, attempts, remembered };
  }

  test("retries after a failure that is not about the configuration, and reports it", async () => {
    const full = (attempt: number): Promise<void> =>
      attempt < 3 ? Promise.reject(new Error("no space left on the device")) : Promise.resolve();
    const { asked, logged, attempts, remembered } = await poll(full, (loop, polls) => {
      expect(loop.status()).toEqual({ version: "1", error: undefined });
      expect(polls.length).toBeGreaterThan(4);
    });
    expect(asked.slice(0, 5)).toEqual([undefined, undefined, undefined, "e", "e"]);
    expect(attempts).toBe(3);
    expect(logged.match(/"level":40.*no space left/g)).toHaveLength(2);
    expect(JSON.parse(remembered)).toMatchObject({ etag: "e", version: "1" });
  });

  test("does not request a configuration again that the collector rejected", async () => {
    const refuses = (): Promise<void> => Promise.reject(new CollectorConfigError("no"));
    const { asked, attempts } = await poll(refuses, (_loop, polls) => expect(polls.length).toBeGreaterThan(3));
    expect(asked.slice(0, 3)).toEqual([undefined, "e", "e"]);
    expect(attempts).toBe(1);
  });
});
