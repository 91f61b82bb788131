// Serves the agent's health: /healthz (the process responds), /readyz (telemetry can be signed, and the collector runs), /status
// (everything as JSON), /metrics (for Prometheus, including the collector's own metrics). Invariants: no response contains a secret; none
// depends on the backend, so that an outage of the backend restarts no agent. Every client that can reach the node can send requests:
// connections per address are limited, and concurrent requests share one request to the collector.
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createServer } from "../../common/http.ts";
import { type AgentStatus, type HealthSource } from "./agent-status.ts";
import { renderMetrics } from "./metrics.ts";
import { inValueNames, type ListenAddress } from "../settings.ts";

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

/** A kubelet or a Prometheus needs one or two. The limit is per address, so that other clients cannot take theirs. */
const MOST_CONNECTIONS_OF_AN_ADDRESS = 64;
/** Closes a connection without progress, such as one whose client does not read the response. */
const IDLE_MS = 30_000;

/** Resolves once it listens; otherwise rejects with a message that names HEALTH_LISTEN. */
export async function startHealthServer(listen: ListenAddress, source: HealthSource): Promise<HealthServer> {
  const asked = askedOnce(source);
  const unanswered = new WeakMap<Socket, ServerResponse>();
  const server = createServer((request, response) => {
    // A request of forty bytes would queue a response a thousand times as large, and each read can bring thousands of requests.
    if (unanswered.get(request.socket)?.writableFinished === false) {
      request.socket.destroy();
      return;
    }
    unanswered.set(request.socket, response);
    void answer(request, asked, response);
  });
  server.setTimeout(IDLE_MS);
  boundByAddress(server);
  // Without a host: all IPv6 and IPv4 addresses that the machine has.
  server.listen(listen.host === "" ? { port: listen.port } : listen);
  await once(server, "listening").catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === "EADDRINUSE" ? "the port is in use: another agent runs here, or set another one" : cause.message;
    throw new Error(`HEALTH_LISTEN: cannot listen on ${listen.host}:${listen.port}: ${why}`, { cause });
  });
  return { port: (server.address() as AddressInfo).port, [Symbol.asyncDispose]: () => close(server) };
}

/** Slow requests, sent once for all clients that wait. */
interface Asked {
  readonly source: HealthSource;
  readonly collectorHealthy: () => Promise<boolean>;
  readonly metrics: () => Promise<string>;
}

function askedOnce(source: HealthSource): Asked {
  return { source, collectorHealthy: shared(() => source.collectorHealthy()), metrics: shared(() => renderMetrics(source)) };
}

function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return () => (underWay ??= ask().finally(() => (underWay = undefined)));
}

function boundByAddress(server: Server): void {
  const connections = new Map<string, number>();
  server.on("connection", (socket) => {
    const { remoteAddress = "" } = socket;
    const others = connections.get(remoteAddress) ?? 0;
    if (others >= MOST_CONNECTIONS_OF_AN_ADDRESS) {
      socket.destroy();
      return;
    }
    connections.set(remoteAddress, others + 1);
    socket.once("close", () => {
      const left = (connections.get(remoteAddress) ?? 1) - 1;
      if (left > 0) connections.set(remoteAddress, left);
      else connections.delete(remoteAddress);
    });
  });
}

async function answer({ url = "", method = "" }: IncomingMessage, asked: Asked, response: ServerResponse): Promise<void> {
  if (method !== "GET" && method !== "HEAD") return send(response, 405, "text/plain", "GET only\n");
  switch (url.split("?")[0]) {
    case "/healthz":
      return send(response, 200, "text/plain", "ok\n");
    case "/readyz":
      return readiness(asked, response);
    case "/status":
      return send(response, 200, "application/json", `${JSON.stringify(asked.source.status(), undefined, 2)}\n`);
    case "/metrics":
      return send(response, 200, "text/plain; version=0.0.4", await asked.metrics());
    default:
      return send(response, 404, "text/plain", "/healthz, /readyz, /status and /metrics are here\n");
  }
}

async function readiness({ source, collectorHealthy }: Asked, response: ServerResponse): Promise<void> {
  const status = source.status();
  const reasons = await notReady(status, collectorHealthy);
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

async function notReady({ identity, state, collector }: AgentStatus, collectorHealthy: () => Promise<boolean>): Promise<string[]> {
  const reasons: string[] = [];
  if (!identity?.signs) reasons.push(identity?.problem?.message ?? "not enrolled yet");
  if (state?.waits !== undefined) reasons.push(state.waits);
  else if (collector?.state !== "running")
    reasons.push(`the collector is ${collector?.state ?? "not started yet"}${collector?.lastError ? `: ${collector.lastError}` : ""}`);
  else if (!(await collectorHealthy())) reasons.push("the collector says it is not healthy");
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
