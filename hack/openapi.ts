// Generates the documents that both HTTP services serve at /openapi.json, without an engine: their routes are added to applications that
// never listen. Invariant: the routes are those that `serve` adds; test/contract/matrix.test.ts compares a running backend.
import { tokenRoutes } from "../backend/sender-protocols.ts";
import type { FastifyInstance, FastifySchema, RouteOptions } from "fastify";
import { registerAccountRoutes, registerEnrolmentRoutes } from "../backend/tenants/tenant-routes.ts";
import { registerAuditRoutes } from "../backend/auth/audit/audit-routes.ts";
import { addRoutesToApi, addServiceRoutes } from "../backend/alerting/mount.ts";
import { createRuleRoutes } from "../backend/alerting/alert-rule-routes.ts";
import { registerSloReports } from "../backend/alerting/slo-report-routes.ts";
import { createSloRoutes } from "../backend/alerting/slo-routes.ts";
import { createChannelRoutes } from "../backend/notification/api/channel-routes.ts";
import { closeRoutes, createApp } from "../backend/http/app.ts";
import type { Access, Route, RouteGuard } from "../backend/http/route.ts";
import type { Guards } from "../backend/http/request-identity.ts";
import { IngestTokens } from "../backend/auth/ingest-tokens/ingest-tokens.ts";
import { registerIngestRoutes, registerTokenRoutes } from "../backend/ingest/ingest-routes.ts";
import { registerChangesRoute } from "../backend/query/changes/changes-route.ts";
import { registerKubernetesRoute } from "../backend/query/kubernetes/kubernetes-route.ts";
import { registerMcpRoute } from "../backend/query/mcp/mcp-route.ts";
import { registerProblemsRoute } from "../backend/query/problems/problems-route.ts";
import { registerLogRoutes } from "../backend/query/native/log-routes.ts";
import { registerLokiRoutes } from "../backend/query/loki/loki-routes.ts";
import { registerMetricsRoutes } from "../backend/query/prometheus/promql-routes.ts";
import { createNotificationRoutes } from "../backend/notification/api/notification-routes.ts";
import { createLog } from "../backend/log.ts";
import { createOwnMetrics } from "../backend/operations/own-metrics.ts";
import { registerSavedRoutes } from "../backend/tenants/saved/saved-item-routes.ts";
import { registerSsoRoutes } from "../backend/auth/sso/sso-routes.ts";
import { registerRemovalRoutes } from "../backend/tenants/removal/removal-routes.ts";
import { registerUsageRoutes } from "../backend/tenants/usage/usage-routes.ts";
import { registerTraceRoutes } from "../backend/query/native/trace-routes.ts";

/** The document of each service: path → text, pretty-printed, with sorted paths. */
export async function openApiPages(): Promise<Record<string, string>> {
  return { "docs/openapi.json": await pageOf(() => apiRoutes()), "docs/openapi-alerting.json": await pageOf(alertingRoutes) };
}

export interface DeclaredRoute {
  readonly method: string;
  /** As in docs/openapi.json. */
  readonly path: string;
  readonly access: Exclude<Access, RouteGuard> | Pick<RouteGuard, "security">;
  /** What a caller with limits to values of labels gets. */
  readonly limited: "filtered" | "refused";
  /** A body with a field that its schema does not have is refused. */
  readonly isBodyClosed: boolean;
}

/** The routes of docs/openapi.json as their code declares them, for the tests of every route; `isHidden`: those that it does not contain. */
export async function declaredRoutes(isHidden = false): Promise<DeclaredRoute[]> {
  const routes: DeclaredRoute[] = [];
  const app = await apiRoutes(({ method, url, schema, onRequest }) => {
    const {
      hide = false,
      security = [],
      documented,
      body,
    } = (schema ?? {}) as {
      hide?: boolean;
      security?: Record<string, unknown>[];
      body?: { additionalProperties?: boolean };
    } & FastifySchema;
    if (hide !== isHidden) return;
    const { access = "anyone" } = (onRequest ?? {}) as Partial<Pick<DeclaredRoute, "access">>;
    const guarded = onRequest && access === "anyone" ? { security: security.flatMap(Object.keys) as RouteGuard["security"] } : access;
    const path = url.replaceAll(/:(\w+)/g, "{$1}");
    const rest = { access: guarded, limited: documented?.limited ?? "refused", isBodyClosed: body?.additionalProperties === false };
    for (const each of [method].flat()) routes.push({ method: each, path, ...rest });
  });
  await app.close();
  return routes;
}

/** A guard that only says what it would let through. */
const guard = (access: DeclaredRoute["access"]) => Object.assign(async () => undefined, { access });
const guards: Guards = { user: guard, reader: () => guard("reader"), signed: (...keys) => guard({ keys }) };

export async function apiRoutes(onRoute: (route: RouteOptions) => void = () => {}): Promise<FastifyInstance> {
  const app = await createApp({ log: createLog("silent"), openApiTitle: "AtherOps telemetry API" });
  app.addHook("onRoute", onRoute);
  // Handlers never run, so they need no stores.
  const parts = { guards, ownMetrics: createOwnMetrics({ defaults: false }), memoryBytes: 0 } as never;
  registerIngestRoutes(app, parts);
  const ingestTokens = new IngestTokens({} as never);
  const noHandlers = {} as never;
  registerTokenRoutes(
    app,
    createOwnMetrics({ defaults: false }),
    tokenRoutes(noHandlers, noHandlers, { ingestTokens, handler: noHandlers }),
  );
  registerAccountRoutes(app, parts);
  registerSavedRoutes(app, parts);
  registerUsageRoutes(app, parts);
  registerRemovalRoutes(app, parts);
  registerAuditRoutes(app, parts);
  registerSsoRoutes(app, { signing: { jwtSecret: Buffer.alloc(32) } } as never);
  registerEnrolmentRoutes(app, parts);
  registerLogRoutes(app, parts);
  registerLokiRoutes(app, parts);
  registerTraceRoutes(app, parts);
  registerMetricsRoutes(app, parts);
  registerChangesRoute(app, parts);
  registerKubernetesRoute(app, parts);
  registerProblemsRoute(app, parts);
  registerSloReports(app, parts);
  registerMcpRoute(app, parts);
  addRoutesToApi(app, guards, serviceRoutes());
  return app;
}

export async function alertingRoutes(): Promise<FastifyInstance> {
  const app = await createApp({ log: createLog("silent"), openApiTitle: "AtherOps alerting API" });
  addServiceRoutes(app, guards, serviceRoutes());
  return app;
}

function serviceRoutes(): Route[] {
  return [
    ...createRuleRoutes({} as never),
    ...createSloRoutes({} as never),
    ...createNotificationRoutes({} as never),
    ...createChannelRoutes({} as never),
  ];
}

async function pageOf(routes: () => Promise<FastifyInstance>): Promise<string> {
  const app = await routes();
  await closeRoutes(app);
  const document = (await app.inject("/openapi.json")).json<{ paths: Record<string, Record<string, unknown>> }>();
  await app.close();
  const paths = Object.entries(document.paths).sort(byName);
  const ordered = paths.map(([path, methods]) => [path, Object.fromEntries(Object.entries(methods).sort(byName))] as const);
  return `${JSON.stringify({ ...document, paths: Object.fromEntries(ordered) }, undefined, 2)}\n`;
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : 1;
}
