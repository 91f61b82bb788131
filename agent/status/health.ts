// Serves the agent's health: /healthz (the process responds), /readyz (telemetry can be signed, and the collector runs), /status (the whole
// status as JSON), /metrics (for Prometheus, including the collector's own metrics). Invariants: no response contains a secret; no response
// depends on the backend, so that an outage of the backend restarts no agent. Because any client that reaches the node can send requests,
// connections per address are limited, and concurrent requests share one request to the collector.
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createServer } from "../../common/http.ts";
import { listenAt } from "../listen.ts";
import { type AgentStatus, type HealthSource } from "./agent-status.ts";
import { renderMetrics } from "./metrics.ts";
import { inValueNames, type ListenAddress } from "../settings.ts";

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

/** The kubelet and Prometheus need one or two connections each. The limit is per address, so that no client blocks others. */
const MAX_CONNECTIONS_PER_ADDRESS = 64;
/** Closes a connection without progress, such as one whose client does not read the response. */
const IDLE_MS = 30_000;

/** Resolves once it listens; otherwise throws ListenError. */
export async function startHealthServer(listen: ListenAddress, source: HealthSource): Promise<HealthServer> {
  const checks = {
    source,
    collectorHealthy: shareConcurrent(() => source.collectorHealthy()),
    metrics: shareConcurrent(() => renderMetrics(source)),
  };
  const unanswered = new WeakMap<Socket, ServerResponse>();
  const server = createServer((request, response) => {
    // Pipelining is refused: small requests would queue responses a thousand times as large.
    if (unanswered.get(request.socket)?.writableFinished === false) {
      request.socket.destroy();
      return;
    }
    unanswered.set(request.socket, response);
    void answer(request, checks, response);
  });
  server.setTimeout(IDLE_MS);
  limitConnections(server);
  return { port: await listenAt(server, listen, "HEALTH_LISTEN"), [Symbol.asyncDispose]: () => close(server) };
}

/** Slow checks, each executed once for all waiting clients. */
interface Checks {
  readonly source: HealthSource;
  readonly collectorHealthy: () => Promise<boolean>;
  readonly metrics: () => Promise<string>;
}

/** Returns a function whose concurrent calls share one execution of `action`. */
function shareConcurrent<T>(action: () => Promise<T>): () => Promise<T> {
  let current: Promise<T> | undefined;
  return () => (current ??= action().finally(() => (current = undefined)));
}

function limitConnections(server: Server): void {
  const connections = new Map<string, number>();
  server.on("connection", (socket) => {
    const { remoteAddress = "" } = socket;
    const others = connections.get(remoteAddress) ?? 0;
    if (others >= MAX_CONNECTIONS_PER_ADDRESS) {
      socket.destroy();
      return;
    }
    connections.set(remoteAddress, others + 1);
    socket.once("close", () => {
      const remaining = (connections.get(remoteAddress) ?? 1) - 1;
      if (remaining > 0) connections.set(remoteAddress, remaining);
      else connections.delete(remoteAddress);
    });
  });
}

async function answer({ url = "", method = "" }: IncomingMessage, checks: Checks, response: ServerResponse): Promise<void> {
  if (method !== "GET" && method !== "HEAD") return send(response, 405, "text/plain", "GET only\n");
  switch (url.split("?")[0]) {
    case "/healthz":
      return send(response, 200, "text/plain", "ok\n");
    case "/readyz":
      return sendReadiness(checks, response);
    case "/status":
      return send(response, 200, "application/json", `${JSON.stringify(checks.source.status(), undefined, 2)}\n`);
    case "/metrics":
      return send(response, 200, "text/plain; version=0.0.4", await checks.metrics());
    default:
      return send(response, 404, "text/plain", "available: /healthz, /readyz, /status, /metrics\n");
  }
}

async function sendReadiness({ source, collectorHealthy }: Checks, response: ServerResponse): Promise<void> {
  const status = source.status();
  const reasons = await findProblems(status, collectorHealthy);
  // Telemetry is still delivered; an unready pod would only block a rollout.
  const warnings = status.identity?.signs && status.identity.problem ? [status.identity.problem.message] : [];
  const proxied = Object.entries(status.telemetry ?? {}).flatMap(([signal, { failingSince, lastError }]) =>
    failingSince === null ? [] : [{ signal, since: failingSince, error: lastError?.message }],
  );
  const queued = (status.failing ?? []).map(({ signal, sinceMs, error }) => ({ signal, since: new Date(sinceMs).toISOString(), error }));
  const failing = [...proxied, ...queued];
  send(
    response,
    reasons.length === 0 ? 200 : 503,
    "application/json",
    `${inValueNames(JSON.stringify({ ready: reasons.length === 0, reasons, warnings, failing, waits_for: status.waitsFor }))}\n`,
  );
}

async function findProblems({ identity, state, collector }: AgentStatus, collectorHealthy: () => Promise<boolean>): Promise<string[]> {
  const reasons: string[] = [];
  if (!identity?.signs) reasons.push(identity?.problem?.message ?? "not enrolled yet");
  if (state?.waits !== undefined) reasons.push(state.waits);
  else if (collector?.state !== "running")
    reasons.push(`the collector is ${collector?.state ?? "not started yet"}${collector?.lastError ? `: ${collector.lastError}` : ""}`);
  else if (!(await collectorHealthy())) reasons.push("the collector reports that it is unhealthy");
  return reasons;
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { "content-type": type }).end(body);
}

async function close(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}
