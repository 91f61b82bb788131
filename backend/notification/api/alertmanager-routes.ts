// Alertmanager's API v2 of one organisation, for Grafana's data source and `amtool`: alerts, groups, receivers, status. Silences are in
// silence-routes.ts. Invariant: the organisation is that of the session or the read token; alerts and groups are built for one
// request of an organisation at a time, and are limited in bytes; only the names of channels are returned.
import { matchesLimits } from "../../storage/metrics/series-filters.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { FairQueue } from "../../admission/fair-queue.ts";
import { readerOf } from "../../http/request-identity.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { sendQueued } from "../../http/queued-response.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { objectSchema, optionalSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import packageFile from "../../package.json" with { type: "json" };
import { MAX_ACTIVE_ALERTS_BYTES } from "../notification-limits.ts";
import { ALERTMANAGER_ERRORS, toAlertmanagerConfig, NO_RECEIVER, readFilters, readFlag, readReceiver } from "./alertmanager-format.ts";
import { compileMatchers, type Labels } from "../model/matchers.ts";
import type { RouteStore } from "../routing/route-store.ts";
import { groupLabels } from "../routing/plan.ts";
import { findMutedRoutes, readNamedSettings } from "../routing/named-settings.ts";
import { type SilenceStore, silenceState } from "../routing/silences.ts";
import { type RoutedAlert, type ActiveAlert, findActiveAlerts } from "./active-alerts.ts";
import type { NotificationTables } from "../model/notification-tables.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";

export interface AlertmanagerOptions {
  readonly db: Kysely<NotificationTables>;
  readonly routes: RouteStore;
  readonly silences: SilenceStore;
  readonly nowMs: () => number;
  readonly responses: ResponseBudget;
}

const V2 = "/alertmanager/api/v2";
const QUEUE_LIMITS = {
  running: 2,
  waitingPerOrg: 64,
  fullMessage: "too many concurrent requests for alerts: try again",
  retryAfterS: 1,
};

const text = { type: "string" };
const texts = { type: "object", additionalProperties: text };
const RECEIVER = objectSchema({ name: text });
const ids = { type: "array", items: text };
const ALERT = objectSchema({
  fingerprint: text,
  labels: texts,
  annotations: texts,
  startsAt: TIME_SCHEMA,
  updatedAt: TIME_SCHEMA,
  endsAt: { ...TIME_SCHEMA, description: "time at which the alert ends unless the evaluator sends it again" },
  generatorURL: text,
  receivers: { type: "array", items: RECEIVER },
  status: objectSchema({ state: { type: "string", enum: ["active", "suppressed"] }, silencedBy: ids, inhibitedBy: ids, mutedBy: ids }),
});
const flag = (description: string) => ({ type: "boolean", default: true, description });
const PARAMETERS = optionalSchema({
  filter: { type: "array", items: text, description: 'matchers such as severity="critical"; repeatable' },
  receiver: { type: "string", description: "a regular expression for the whole name of a receiver" },
  active: flag("alerts that are neither silenced nor inhibited"),
  silenced: flag("alerts that are silenced"),
  inhibited: flag("alerts that are inhibited"),
  unprocessed: flag("there are none"),
  muted: flag("groups whose route does not notify now, because of its time intervals"),
});
const STATUS_RESPONSE = objectSchema({
  cluster: { type: "object", additionalProperties: true },
  versionInfo: { type: "object", additionalProperties: text },
  config: objectSchema({ original: { type: "string", description: "routes and receivers in Alertmanager's form, as JSON" } }),
  uptime: TIME_SCHEMA,
});
const GROUP = objectSchema({ labels: texts, receiver: RECEIVER, alerts: { type: "array", items: ALERT } });

function declare(path: string, summary: string, response: object, query?: object) {
  return {
    ...endpoint("GET", `${V2}/${path}`, "reader", "alerting"),
    ...(path.startsWith("alerts") && { limited: "filtered" }),
    summary: `Alertmanager API v2: ${summary}`,
    documented: { response: { 200: response }, ...(query && { query }) },
    otherErrors: ALERTMANAGER_ERRORS,
  } as const satisfies RouteDeclaration;
}

export const ALERTMANAGER_ROUTES = {
  status: declare("status", "status, with the routes as configuration", STATUS_RESPONSE),
  receivers: declare("receivers", "channels, by name", { type: "array", items: RECEIVER }),
  alerts: declare("alerts", "firing alerts, with or without a channel", { type: "array", items: ALERT }, PARAMETERS),
  groups: declare(
    "alerts/groups",
    "firing alerts in the groups in which receivers are notified",
    { type: "array", items: GROUP },
    PARAMETERS,
  ),
};

export function createAlertmanagerRoutes(options: AlertmanagerOptions): Route[] {
  const { db, routes, nowMs, responses } = options;
  const startedAt = new Date(nowMs()).toISOString();
  const queue = new FairQueue(QUEUE_LIMITS);
  return bindHandlers(ALERTMANAGER_ROUTES, {
    status: async (request: FastifyRequest) => {
      const { orgId } = readerOf(request);
      const settings = await readNamedSettings(tenantDatabase(db, orgId), orgId);
      const config = toAlertmanagerConfig(await routes.list(orgId), await readChannelNames(db, orgId), settings);
      const original = JSON.stringify(config, undefined, 2);
      return { cluster: { status: "disabled", peers: [] }, versionInfo: VERSION, config: { original }, uptime: startedAt };
    },
    receivers: async (request: FastifyRequest) =>
      [...(await readChannelNames(db, readerOf(request).orgId)).values()].map((name) => ({ name })),
    alerts: async (request: FastifyRequest, reply: FastifyReply) => {
      const filter = visibleTo(request, readAlertFilter(request));
      return await sendQueued({ queue, responses }, request, reply, async (orgId) => {
        const { alerts, muted } = await findAlerts(options, reply, orgId, filter);
        return alerts.map((each) => withMutes(each, muted));
      });
    },
    groups: async (request: FastifyRequest, reply: FastifyReply) => {
      const filter = visibleTo(request, readAlertFilter(request));
      const receiver = readReceiver(request);
      const showsMuted = readFlag(request, "muted");
      return await sendQueued({ queue, responses }, request, reply, async (orgId) => {
        const { alerts, muted } = await findAlerts(options, reply, orgId, filter);
        const shown = showsMuted ? alerts : alerts.map((alert) => ({ ...alert, routes: alert.routes.filter(({ id }) => !muted.has(id)) }));
        const { groups, isCut } = groupAlerts(shown, await readChannelNames(db, orgId), receiver, muted);
        if (isCut) warnIncomplete(reply);
        return groups;
      });
    },
  });
}

/** The backend's version, because there is no Alertmanager. */
const VERSION = { version: packageFile.version, revision: "", branch: "atherops", buildUser: "", buildDate: "", goVersion: "" };

/** Only alerts whose labels are within the limits of the reader. */
function visibleTo(request: FastifyRequest, filter: (alert: ActiveAlert) => boolean): (alert: ActiveAlert) => boolean {
  const { labelLimits } = readerOf(request);
  return (alert) => matchesLimits(labelLimits, alert.labels) && filter(alert);
}

function readAlertFilter(request: FastifyRequest): (alert: ActiveAlert) => boolean {
  const matches = compileMatchers(readFilters(request));
  const receiver = readReceiver(request);
  for (const name of ["unprocessed", "muted"]) readFlag(request, name);
  const isShown = createStateFilter(request);
  const hasReceiver = (receivers: ActiveAlert["receivers"]) =>
    receivers.length === 0 ? receiver(NO_RECEIVER) : receivers.some(({ name }) => receiver(name));
  return ({ labels, status, receivers }) => isShown(status) && hasReceiver(receivers) && matches(labels);
}

function createStateFilter(request: FastifyRequest): (status: ActiveAlert["status"]) => boolean {
  const shows = { active: readFlag(request, "active"), silenced: readFlag(request, "silenced"), inhibited: readFlag(request, "inhibited") };
  return ({ state, silencedBy, inhibitedBy }) =>
    state === "active" ? shows.active : (shows.silenced || silencedBy.length === 0) && (shows.inhibited || inhibitedBy.length === 0);
}

async function findAlerts(
  { db, routes, silences, nowMs }: AlertmanagerOptions,
  reply: FastifyReply,
  orgId: string,
  filter: (alert: ActiveAlert) => boolean,
): Promise<{ readonly alerts: readonly RoutedAlert[]; readonly muted: MutedRoutes }> {
  const now = new Date(nowMs());
  const active = (await silences.list(orgId)).filter((silence) => silenceState(silence, now.getTime()) === "active");
  const { inhibitRules, timeIntervals } = await readNamedSettings(tenantDatabase(db, orgId), orgId);
  const channels = await readChannelNames(db, orgId);
  const all = await routes.list(orgId);
  const query = { orgId, now, routes: all, silences: active, inhibitRules, channels, filter };
  const { alerts, isCut } = await findActiveAlerts(tenantDatabase(db, orgId), query);
  if (isCut) warnIncomplete(reply);
  return { alerts, muted: findMutedRoutes(all, timeIntervals, now) };
}

/** With the time intervals because of which no route sends the alert now; without them if one does. */
function withMutes({ alert, routes }: RoutedAlert, muted: MutedRoutes): ActiveAlert {
  if (!routes.every(({ id }) => muted.has(id))) return alert;
  const mutedBy = [...new Set(routes.flatMap(({ id }) => muted.get(id) ?? []))];
  return { ...alert, status: { ...alert.status, mutedBy } };
}

/** A header, because Alertmanager's response format cannot express it. */
function warnIncomplete(reply: FastifyReply): void {
  void reply.header("warning", '299 - "the response is truncated: filter the alerts"');
}

type MutedRoutes = ReturnType<typeof findMutedRoutes>;

interface Group {
  readonly labels: Labels;
  readonly receiver: { readonly name: string };
  readonly alerts: ActiveAlert[];
}

/**
 * One group per route, channel, and values of the labels by which the route groups. An alert is in each of its groups: with a hundred
 * routes of twenty channels each, that is two thousand. `isCut`: there are more groups.
 */
function groupAlerts(
  alerts: readonly RoutedAlert[],
  channels: ReadonlyMap<string, string>,
  isReceiver: (name: string) => boolean,
  muted: MutedRoutes,
): { readonly groups: Group[]; readonly isCut: boolean } {
  const groups = new Map<string, Group>();
  const findReceivers = createReceiverLookup(channels, isReceiver);
  let sum = 0;
  for (const { alert, routes, bytes } of alerts) {
    for (const route of routes) {
      const names = findReceivers(route);
      if (names.length === 0) continue;
      const labels = groupLabels(route, alert.labels);
      for (const name of names) {
        const key = JSON.stringify([route.id, name, labels]);
        const known = groups.get(key);
        sum += bytes + (known ? 0 : Buffer.byteLength(key));
        if (sum > MAX_ACTIVE_ALERTS_BYTES) return { groups: [...groups.values()], isCut: true };
        const group = known ?? { labels, receiver: { name }, alerts: [] };
        group.alerts.push({ ...alert, status: { ...alert.status, mutedBy: muted.get(route.id) ?? [] } });
        groups.set(key, group);
      }
    }
  }
  return { groups: [...groups.values()], isCut: false };
}

/** Returns a function that finds the requested receivers of a route; each route is evaluated once. */
function createReceiverLookup(
  channels: ReadonlyMap<string, string>,
  isReceiver: (name: string) => boolean,
): (route: RoutedAlert["routes"][number]) => readonly string[] {
  const known = new Map<string, readonly string[]>();
  return ({ id, channelIds }) => {
    const cached = known.get(id);
    if (cached) return cached;
    const names = channelIds.flatMap((channelId) => channels.get(channelId) ?? []);
    const receivers = (names.length === 0 ? [NO_RECEIVER] : names).filter(isReceiver);
    known.set(id, receivers);
    return receivers;
  };
}

/** Id → name of enabled channels. */
async function readChannelNames(db: Kysely<NotificationTables>, orgId: string): Promise<ReadonlyMap<string, string>> {
  const rows = await tenantDatabase(db, orgId)
    .selectFrom("channels")
    .select(["id", "name"])
    .where("org_id", "=", orgId)
    .where("enabled", "=", true)
    .orderBy("name")
    .execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}
