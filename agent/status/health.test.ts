import { afterEach, describe, expect, test } from "vitest";
import { type HealthServer, startHealthServer } from "./health.ts";
import type { AgentStatus, HealthSource } from "./status.ts";

let server: HealthServer | undefined;
afterEach(async () => server?.[Symbol.asyncDispose]());

const RUNNING = { state: "running", pid: 1, since: "", restarts: 2, lastError: null, configError: null } as const;
const IDENTITY = { id: "i", keyCreatedAt: "", keyAgeDays: 3, signs: true, problem: undefined };

async function get(path: string, status: Partial<AgentStatus>, collectorHealthy = true): Promise<{ status: number; text: string }> {
  const whole: AgentStatus = {
    program: "p",
    version: "1",
    startedAt: "",
    signals: ["logs"],
    clockSkewS: 0,
    identity: undefined,
    heartbeat: undefined,
    collector: undefined,
    telemetry: undefined,
    ...status,
  };
  const source = { status: () => whole, collectorHealthy: () => Promise.resolve(collectorHealthy), collectorMetricsUrl: () => undefined };
  server = await startHealthServer({ host: "127.0.0.1", port: 0 }, source);
  const answer = await fetch(`http://127.0.0.1:${server.port}${path}`);
  return { status: answer.status, text: await answer.text() };
}

describe("the agent's health", () => {
  test("on a port that is taken says which setting to change", async () => {
    await get("/healthz", {});
    const second = startHealthServer({ host: "127.0.0.1", port: server?.port ?? 0 }, {} as HealthSource);
    await expect(second).rejects.toThrow(/^HEALTH_LISTEN: cannot listen on 127\.0\.0\.1:\d+: the port is in use/);
  });

  test("is alive from the first moment, and not ready with the reasons", async () => {
    expect((await get("/healthz", {})).status).toBe(200);
    await server?.[Symbol.asyncDispose]();
    const ready = await get("/readyz", {});
    expect(ready.status).toBe(503);
    expect(ready.text).toContain("not enrolled yet");
    expect(ready.text).toContain("not started yet");
  });

  test("is ready when it is enrolled and the collector runs, also while nothing gets through, and says so", async () => {
    const none = { lastSuccess: null, accepted: 0, retried: 4, refused: 0, acceptedBytes: 0, droppedPoints: {} };
    const failing = { ...none, lastError: { at: "", message: "answered 503" }, failingSince: "2026-01-01T00:00:00Z" };
    const fine = { ...none, lastError: null, failingSince: null };
    const answer = await get("/readyz", {
      identity: IDENTITY,
      collector: RUNNING,
      telemetry: { logs: failing, metrics: fine, traces: fine },
    });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ ready: true, failing: [{ signal: "logs", error: "answered 503" }] });
  });

  test("is ready with a problem that keeps nothing from being signed, and warns of it", async () => {
    const problem = { code: "failing", message: "the backend refused /api/clusters/rotate-key" };
    const answer = await get("/readyz", { identity: { ...IDENTITY, problem }, collector: RUNNING });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ ready: true, reasons: [], warnings: [problem.message] });
  });

  test.each([
    [
      "a key that the backend refuses",
      { identity: { ...IDENTITY, signs: false, problem: { code: "key_refused", message: "make a token" } }, collector: RUNNING },
      true,
      "make a token",
    ],
    [
      "a crashed collector",
      { identity: IDENTITY, collector: { ...RUNNING, state: "waiting", lastError: "boom" } as const },
      true,
      "waiting: boom",
    ],
    ["an unwell collector", { identity: IDENTITY, collector: RUNNING }, false, "not healthy"],
  ])("is not ready with %s, and names it", async (_what, status, healthy, words) => {
    const answer = await get("/readyz", status, healthy);
    expect(answer.status).toBe(503);
    expect(answer.text).toContain(words);
  });

  test("is offered to Prometheus", async () => {
    const { text } = await get("/metrics", { identity: IDENTITY, collector: RUNNING });
    expect(text).toMatch(/^# TYPE atherops_agent_collector_restarts_total counter\natherops_agent_collector_restarts_total 2$/m);
    expect(text).toMatch(/^atherops_agent_key_age_days 3$/m);
    expect(text).toMatch(/^atherops_agent_info\{program="p",version="1"\} 1$/m);
  });

  test("tells Prometheus what was left out, and why", async () => {
    const of = { lastSuccess: null, lastError: null, failingSince: null, accepted: 1, retried: 0, refused: 0, acceptedBytes: 9 };
    const metrics = { ...of, droppedPoints: { delta: 3, bad_time: 1 } };
    const logs = { ...of, droppedPoints: { too_large: 2 } };
    const { text } = await get("/metrics", { telemetry: { metrics, logs, traces: { ...of, droppedPoints: {} } } });
    expect(text).toContain('atherops_agent_records_dropped_total{signal="metrics",reason="delta"} 3\n');
    expect(text).toContain('atherops_agent_records_dropped_total{signal="metrics",reason="bad_time"} 1\n');
    expect(text).toContain('atherops_agent_records_dropped_total{signal="logs",reason="too_large"} 2\n');
  });

  test("answers other paths and methods in words", async () => {
    expect((await get("/secret", {})).status).toBe(404);
    const answer = await fetch(`http://127.0.0.1:${server?.port}/healthz`, { method: "POST" });
    expect(answer.status).toBe(405);
  });
});
