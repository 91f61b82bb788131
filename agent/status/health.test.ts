import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type HealthServer, startHealthServer } from "./health.ts";
import type { AgentStatus, HealthSource } from "./agent-status.ts";

let server: HealthServer | undefined;
afterEach(async () => server?.[Symbol.asyncDispose]());

const RUNNING = { state: "running", pid: 1, since: "", restarts: 2, lastError: null, configError: null } as const;
const IDENTITY = { id: "i", keyCreatedAt: "", keyAgeDays: 3, signs: true, problem: undefined };

function sourceOf(status: Partial<AgentStatus>, collectorHealthy = true): HealthSource {
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
  return { status: () => whole, collectorHealthy: () => Promise.resolve(collectorHealthy), collectorMetricsUrl: () => undefined };
}

async function get(path: string, status: Partial<AgentStatus>, collectorHealthy = true): Promise<{ status: number; text: string }> {
  const source = sourceOf(status, collectorHealthy);
  server = await startHealthServer({ host: "127.0.0.1", port: 0 }, source);
  const answer = await fetch(`http://127.0.0.1:${server.port}${path}`);
  return { status: answer.status, text: await answer.text() };
}

describe("the agent's health", () => {
  test("on a port in use, or an address of another machine, names the setting to change", async () => {
    await get("/healthz", {});
    const second = startHealthServer({ host: "127.0.0.1", port: server?.port ?? 0 }, {} as HealthSource);
    await expect(second).rejects.toThrow(/^HEALTH_LISTEN: cannot listen on 127\.0\.0\.1:\d+: the port is in use/);
    const elsewhere = startHealthServer({ host: "192.0.2.1", port: 0 }, {} as HealthSource);
    await expect(elsewhere).rejects.toMatchObject({ name: "ListenError", message: expect.stringContaining("EADDRNOTAVAIL") });
  });

  test("is alive immediately, and not ready with the reasons", async () => {
    expect((await get("/healthz", {})).status).toBe(200);
    await server?.[Symbol.asyncDispose]();
    const ready = await get("/readyz", {});
    expect(ready.status).toBe(503);
    expect(ready.text).toContain("not enrolled yet");
    expect(ready.text).toContain("not started yet");
  });

  test("is ready if it is enrolled and the collector runs, even if no data is delivered, which it reports", async () => {
    const none = { lastSuccess: null, accepted: 0, retried: 4, refused: 0, acceptedBytes: 0, splitLines: 0, droppedPoints: {} };
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

  test("is ready with a problem that does not prevent signing, and warns of it", async () => {
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
    ["an unwell collector", { identity: IDENTITY, collector: RUNNING }, false, "unhealthy"],
  ])("is not ready with %s, and names it", async (_what, status, healthy, words) => {
    const answer = await get("/readyz", status, healthy);
    expect(answer.status).toBe(503);
    expect(answer.text).toContain(words);
  });

  test("is exported to Prometheus", async () => {
    const { text } = await get("/metrics", { identity: IDENTITY, collector: RUNNING });
    expect(text).toMatch(/^# TYPE atherops_agent_collector_restarts_total counter\natherops_agent_collector_restarts_total 2$/m);
    expect(text).toMatch(/^atherops_agent_key_age_days 3$/m);
    expect(text).toMatch(/^atherops_agent_info\{program="p",version="1"\} 1$/m);
  });

  test("exports to Prometheus how many log files are not read, by reason", async () => {
    const logFiles = {
      open: 3,
      notRead: { unread: 2, encoding: 1 },
      lost: { files: 1, bytes: 7 },
      isFollowing: true,
      lastPassMs: 0,
      lastCollectorPassMs: 0,
    };
    const { text } = await get("/metrics", { logFiles });
    expect(text).toContain('atherops_agent_log_files_not_read{reason="unread"} 2\n');
    expect(text).toContain('atherops_agent_log_files_not_read{reason="encoding"} 1\n');
  });

  test("exports to Prometheus what was left out, and why", async () => {
    const counts = { accepted: 1, retried: 0, refused: 0, acceptedBytes: 9, splitLines: 5 };
    const of = { lastSuccess: null, lastError: null, failingSince: null, ...counts };
    const metrics = { ...of, droppedPoints: { delta: 3, bad_time: 1 } };
    const logs = { ...of, droppedPoints: { too_large: 2 } };
    const { text } = await get("/metrics", { telemetry: { metrics, logs, traces: { ...of, droppedPoints: {} } } });
    expect(text).toContain('atherops_agent_records_dropped_total{signal="metrics",reason="delta"} 3\n');
    expect(text).toContain('atherops_agent_records_dropped_total{signal="metrics",reason="bad_time"} 1\n');
    expect(text).toContain('atherops_agent_records_dropped_total{signal="logs",reason="too_large"} 2\n');
    expect(text).toContain("atherops_agent_log_lines_split_total 5\n");
  });

  test("returns a message for other paths and methods", async () => {
    expect((await get("/secret", {})).status).toBe(404);
    const answer = await fetch(`http://127.0.0.1:${server?.port}/healthz`, { method: "POST" });
    expect(answer.status).toBe(405);
  });

  test("queries the collector's health once for all concurrent requests", async () => {
    const { promise: healthy, resolve } = Promise.withResolvers<boolean>();
    const asked = { questions: 0, ofCollector: 0 };
    const source = sourceOf({ identity: IDENTITY, collector: RUNNING });
    server = await startHealthServer(
      { host: "127.0.0.1", port: 0 },
      {
        ...source,
        status: () => (asked.questions++, source.status()),
        collectorHealthy: () => (asked.ofCollector++, healthy),
      },
    );
    const { port } = server;
    const answers = Array.from({ length: 20 }, () => fetch(`http://127.0.0.1:${port}/readyz`));
    await vi.waitFor(() => expect(asked.questions).toBe(20), { timeout: 30_000 });
    resolve(true);
    expect((await Promise.all(answers)).map((answer) => answer.status)).toEqual(answers.map(() => 200));
    expect(asked.ofCollector).toBe(1);
  });

  test("queries the collector's metrics rarely for many concurrent requests", async () => {
    let asked = 0;
    const hung = createServer(() => void asked++).listen(0, "127.0.0.1");
    await once(hung, "listening");
    try {
      const url = `http://127.0.0.1:${(hung.address() as AddressInfo).port}/metrics`;
      server = await startHealthServer({ host: "127.0.0.1", port: 0 }, { ...sourceOf({}), collectorMetricsUrl: () => url });
      const { port } = server;
      const answers = await Promise.all(Array.from({ length: 40 }, () => fetch(`http://127.0.0.1:${port}/metrics`)));
      expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200));
      // One every two seconds, for so long is it waited for.
      expect(asked).toBeLessThan(20);
    } finally {
      hung.closeAllConnections();
      hung.close();
    }
  });

  test("accepts 64 connections per address, and continues to serve them", async () => {
    server = await startHealthServer({ host: "127.0.0.1", port: 0 }, sourceOf({}));
    const { port } = server;
    const sockets: Socket[] = [];
    for (let i = 0; i < 70; i++) {
      sockets.push(connect(port, "127.0.0.1").on("error", () => {}));
      await once(sockets[i] as Socket, "connect");
    }
    await vi.waitFor(() => expect(sockets.filter(({ closed }) => closed)).toHaveLength(6), { timeout: 50_000 });
    const [first] = sockets as [Socket];
    first.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await text(first)).toMatch(/^HTTP\/1\.1 200 /);
    // That one is free again.
    const next = connect(port, "127.0.0.1");
    next.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await text(next)).toMatch(/^HTTP\/1\.1 200 /);
    for (const socket of sockets) socket.destroy();
  });

  test("keeps a connection open only if the client waits for each response", async () => {
    server = await startHealthServer({ host: "127.0.0.1", port: 0 }, sourceOf({}));
    const ask = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    const socket = connect(server.port, "127.0.0.1").on("error", () => {});
    for (let i = 0; i < 2; i++) {
      socket.write(ask);
      const [answer] = (await once(socket, "data")) as [Buffer];
      expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /);
    }
    let more = "";
    socket.on("data", (data: Buffer) => (more += data.toString()));
    socket.write(ask.repeat(1000));
    await once(socket, "close");
    expect(more.match(/HTTP\/1\.1 200/g)?.length ?? 0).toBeLessThan(10);
  });
});
