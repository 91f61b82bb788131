// Serves operators and orchestrators: /healthz (the process responds), /readyz (at least one store of metrics, telemetry or accounts works;
// lists each; 503 if none responds, or the process starts or drains), /metrics. Invariants: there is no authentication, so responses contain no
// data of tenants and no secrets; a single slow or unavailable store does not take the replica out of service, because the others still work.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Registry } from "prom-client";
import { Outage } from "../../common/outage.ts";
import { MAX_HEALTH_CONNECTIONS } from "../operations/operations-limits.ts";
import type { Log } from "../log.ts";
import type { ListenAddress } from "../settings.ts";
import { type InternalListener, listenInternally } from "./internal-listener.ts";

export interface HealthOptions {
  readonly listen: ListenAddress;
  /** One check per engine, by name; it throws if the engine does not work. Undefined while the engines start. */
  readonly checks: () => Readonly<Record<string, () => Promise<void>>> | undefined;
  readonly registry: Registry;
  /** The parts of alerting that do not work, by name; they do not make a replica unready. */
  readonly alertingFailures?: () => readonly string[];
  /** Called with the result of each check. */
  readonly onChecked?: (engine: string, isUp: boolean) => void;
  readonly draining: () => boolean;
  readonly log: Log;
  readonly checkTimeoutMs?: number;
}

const CHECK_TIMEOUT_MS = 3000;
const REMIND_MS = 300_000;

type Outages = Map<string, Outage>;

/** Listens; rejects with a single sentence if it cannot. */
export async function startHealth(options: HealthOptions): Promise<InternalListener> {
  const outages: Outages = new Map();
  return await listenInternally("HEALTH_LISTEN", options.listen, MAX_HEALTH_CONNECTIONS, (request, response) => {
    respond(options, outages, request, response).catch((error: unknown) => {
      options.log.error({ event: "health.response_failed", err: error }, "health listener failed to respond");
      response.destroy();
    });
  });
}

async function respond(options: HealthOptions, outages: Outages, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", "GET, HEAD");
    return send(response, 405, { error: "method_not_allowed", message: "only GET and HEAD are allowed here" });
  }
  switch (request.url?.split("?")[0]) {
    case "/healthz":
      return send(response, 200, { status: "ok" });
    case "/readyz":
      return sendReadiness(options, outages, response);
    case "/metrics":
      response.setHeader("content-type", options.registry.contentType);
      response.end(await options.registry.metrics());
      return;
    default:
      return send(response, 404, { error: "not_found", message: "there is /healthz, /readyz and /metrics" });
  }
}

async function sendReadiness(options: HealthOptions, outages: Outages, response: ServerResponse): Promise<void> {
  const checks = options.checks();
  // While draining, the engines close and must not be queried any more.
  const engines = options.draining() || !checks ? {} : await askEngines(checks, options, outages);
  if (options.draining()) return send(response, 503, { status: "draining" });
  if (!checks) return send(response, 503, { status: "starting" });
  const states = Object.values(engines);
  const status = states.every((state) => state === "ok") ? "ready" : states.includes("ok") ? "degraded" : "not ready";
  const failures = options.alertingFailures?.() ?? [];
  const alerting = failures.length > 0 && { alerting: Object.fromEntries(failures.map((name) => [name, "failing"])) };
  send(response, status === "not ready" ? 503 : 200, { status, engines, ...alerting });
}

function outageOf(engine: string, log: Log): Outage {
  return new Outage({
    began: (err) => log.warn({ event: "health.engine_unavailable", engine, err }, "engine does not answer"),
    reminded: (err, { failures, seconds }) =>
      log.warn({ event: "health.engine_still_unavailable", engine, err, checks: failures, seconds }, "engine still does not answer"),
    ended: ({ failures, seconds }) =>
      log.info({ event: "health.engine_recovered", engine, checks: failures, seconds }, "recovered: engine answers"),
    remindEveryMs: REMIND_MS,
  });
}

async function askEngines(
  checks: Readonly<Record<string, () => Promise<void>>>,
  { checkTimeoutMs = CHECK_TIMEOUT_MS, onChecked, log }: HealthOptions,
  outages: Outages,
): Promise<Record<string, "ok" | "failing">> {
  const results = Object.entries(checks).map(async ([name, check]) => {
    const failure = await failureOf(check, checkTimeoutMs);
    const outage = outages.get(name) ?? outageOf(name, log);
    outages.set(name, outage);
    if (failure === undefined) outage.recovered();
    else outage.failed(failure);
    onChecked?.(name, failure === undefined);
    return [name, failure === undefined ? "ok" : "failing"] as const;
  });
  return Object.fromEntries(await Promise.all(results));
}

async function failureOf(check: () => Promise<void>, timeoutMs: number): Promise<unknown> {
  const { promise: timedOut, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  try {
    await Promise.race([check(), timedOut]);
    return undefined;
  } catch (error) {
    return error ?? new Error("failed");
  } finally {
    clearTimeout(timer);
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(`${JSON.stringify(body)}\n`);
}
