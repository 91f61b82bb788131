// The requests for channels. Invariants: the organisation is that of the session; a secret is answered once, to who made it; a test goes the
// way of every delivery, and what it costs is bounded for each organisation.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { formatDuration } from "../../../common/duration.ts";
import { FairQueue, QueueFullError } from "../../admission/fair-queue.ts";
import { addServiceRoute, type ServiceRoute } from "../../alerting/route-parts.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards, RANK } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { goneSignal } from "../../http/client.ts";
import { readId, notFound, NO_CONTENT, objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { CHANNEL_BODY_SCHEMA, CHANNEL_SCHEMA, type ChannelBody, type ChannelCheck, checkChannel } from "../channels/channel-settings.ts";
import { type ChannelRow, type ChannelStore, ROTATION_MS } from "../channels/channel-store.ts";
import type { Message, OpenChannel, Outcome, Send } from "../model/message.ts";

export interface ChannelRequestsOptions {
  readonly channels: ChannelStore;
  readonly check: ChannelCheck;
  readonly send: Send;
  readonly guards: Guards;
  /** Of the console; empty where nobody said where that is. */
  readonly externalUrl: string;
  readonly orgName: (orgId: string) => Promise<string>;
  /** Who is told of what may be another matter now. */
  readonly changed?: () => void;
  readonly now?: () => number;
}

const VERDICT = {
  type: "object",
  required: ["delivered", "status", "error"],
  properties: {
    delivered: { type: "boolean" },
    status: { type: ["integer", "null"], description: "the HTTP status of the receiver, where it answered one" },
    error: { type: ["string", "null"] },
  },
};
const ROTATED = objectSchema({
  signing_secret: { type: "string" },
  previous_until: { ...TIME_SCHEMA, description: "messages carry both signatures" },
});

export const CHANNEL_REQUESTS = {
  list: {
    method: "GET",
    path: "/channels",
    who: "viewer",
    summary: "Channels of your organisation, by name",
    response: { 200: { type: "array", items: CHANNEL_SCHEMA } },
  },
  create: {
    method: "POST",
    path: "/channels",
    who: "admin",
    summary: "Make a channel, 100 at most; of a webhook, signing_secret is answered here and never again",
    body: CHANNEL_BODY_SCHEMA,
    response: { 201: CHANNEL_SCHEMA },
  },
  replace: {
    method: "PUT",
    path: "/channels/:id",
    who: "admin",
    summary: "Replace a channel; secrets that are left out stay",
    body: CHANNEL_BODY_SCHEMA,
    response: { 200: CHANNEL_SCHEMA },
  },
  remove: {
    method: "DELETE",
    path: "/channels/:id",
    who: "admin",
    summary: "Remove a channel to which no route leads",
    response: NO_CONTENT,
  },
  test: {
    method: "POST",
    path: "/channels/:id/test",
    who: "admin",
    summary: "Send a test message now, the way that alerts go, 10 a minute; 200 also where it is not delivered: error says why",
    response: { 200: VERDICT },
  },
  rotate: {
    method: "POST",
    path: "/channels/:id/rotate",
    who: "admin",
    summary: "Make a new signing secret of a webhook; for a day messages carry a signature of each",
    response: { 200: ROTATED },
  },
} as const satisfies Record<string, ServiceRoute>;

const TEST_TURNS = { running: 8, perOrg: 1, waitingPerOrg: 4 };
const TESTS = { most: 10, everyMs: 60_000 };

export function registerChannelRequests(app: FastifyInstance, options: ChannelRequestsOptions): void {
  const { channels, check, guards, changed = () => undefined } = options;
  const { list, create, replace, remove, rotate } = CHANNEL_REQUESTS;

  addServiceRoute(app, guards, list, async (request) => {
    const { orgId, role } = callerOf(request);
    const isAdmin = RANK[role] >= RANK.admin;
    return (await channels.list(orgId)).map((row) => shown(row, isAdmin));
  });

  addServiceRoute<ChannelBody>(app, guards, create, async (request, reply) => {
    const { orgId } = callerOf(request);
    const { row, signingSecret } = await channels.create(orgId, await checkChannel(orgId, request.body, check));
    changed();
    audit(request, "channel.create", subjectOf(row));
    return await reply.code(201).send({ ...shown(row, true), ...(signingSecret !== undefined && { signing_secret: signingSecret }) });
  });

  addServiceRoute<ChannelBody>(app, guards, replace, async (request) => {
    const { orgId } = callerOf(request);
    const id = readId(request, "channel");
    const row = await channels.replace(orgId, id, await checkChannel(orgId, request.body, check));
    changed();
    audit(request, "channel.update", subjectOf(row));
    return shown(row, true);
  });

  addServiceRoute(app, guards, remove, async (request, reply) => {
    const row = await channels.delete(callerOf(request).orgId, readId(request, "channel"));
    changed();
    audit(request, "channel.delete", subjectOf(row));
    return await reply.code(204).send();
  });

  addServiceRoute(app, guards, rotate, async (request) => {
    const { row, signingSecret } = await channels.rotate(callerOf(request).orgId, readId(request, "channel"));
    audit(request, "channel.rotate", subjectOf(row));
    const rotatedAtMs = row.secret_rotated_at?.getTime() ?? 0;
    return { signing_secret: signingSecret, previous_until: new Date(rotatedAtMs + ROTATION_MS).toISOString() };
  });

  registerTest(app, options);
}

function registerTest(
  app: FastifyInstance,
  { channels, guards, send, externalUrl, orgName, now = Date.now }: ChannelRequestsOptions,
): void {
  const turns = new FairQueue(TEST_TURNS);
  const admit = testsAMinute(now);
  addServiceRoute(app, guards, CHANNEL_REQUESTS.test, async (request, reply) => {
    const { orgId } = callerOf(request);
    const channel = await channels.open(orgId, readId(request, "channel"));
    if (!channel) throw notFound("channel");
    admit(orgId);
    audit(request, "channel.test", { channel_id: channel.id, name: channel.name, kind: channel.kind });
    const message = testMessage(channel, { org: { id: orgId, name: await orgName(orgId) }, externalUrl, at: new Date(now()) });
    const signal = goneSignal(reply);
    const outcome = await turns.run(orgId, signal, async () => await send(channel, message, signal)).catch(tooMany);
    return verdictOf(outcome);
  });
}

function tooMany(error: unknown): never {
  if (!(error instanceof QueueFullError)) throw error;
  throw new ApiError("unavailable", "too many tests of channels at once: try again", { cause: error, retryAfterS: 5 });
}

/** Throws ApiError `over_quota`. Of this process: a test is worth no statement. */
function testsAMinute(now: () => number): (orgId: string) => void {
  const counted = new Map<string, { sinceMs: number; tests: number }>();
  return (orgId) => {
    const nowMs = now();
    for (const [org, { sinceMs }] of counted) if (nowMs - sinceMs >= TESTS.everyMs || nowMs < sinceMs) counted.delete(org);
    const own = counted.get(orgId) ?? { sinceMs: nowMs, tests: 0 };
    counted.set(orgId, own);
    if (own.tests >= TESTS.most) {
      const retryAfterS = Math.ceil((own.sinceMs + TESTS.everyMs - nowMs) / 1000);
      throw new ApiError("over_quota", `${TESTS.most} tests of channels a minute are the most`, { retryAfterS });
    }
    own.tests += 1;
  };
}

function testMessage({ id, name }: OpenChannel, { org, externalUrl, at }: { org: Message["org"]; externalUrl: string; at: Date }): Message {
  const labels = { alertname: "Test", severity: "info" };
  const ruleId = "00000000-0000-0000-0000-000000000000";
  const annotations = { summary: `A test of the channel ${name}: nothing is wrong` };
  return {
    id: randomUUID(),
    purpose: "test",
    org,
    channelId: id,
    receiver: name,
    groupKey: `test:${id}`,
    groupLabels: { alertname: "Test" },
    commonLabels: labels,
    commonAnnotations: annotations,
    status: "firing",
    alerts: [{ fingerprint: "0000000000000000", ruleId, labels, annotations, startsAt: at.toISOString(), status: "firing" }],
    truncatedAlerts: 0,
    externalUrl,
  };
}

function verdictOf(outcome: Outcome): object {
  return { delivered: outcome.delivered, status: outcome.httpStatus ?? null, error: outcome.delivered ? null : outcome.error };
}

function subjectOf({ id, name, kind }: ChannelRow): Record<string, unknown> {
  return { channel_id: id, name, kind };
}

/** Some receivers' whole secret is their URL: its path is for those who may change it. */
function shown(row: ChannelRow, isAdmin: boolean): Record<string, unknown> {
  const { id, name, kind, settings, enabled, heartbeat_seconds: seconds } = row;
  const isHidden = !isAdmin && typeof settings["url"] === "string";
  return {
    id,
    name,
    kind,
    settings: isHidden ? { ...settings, url: `${new URL(String(settings["url"])).origin}/…` } : settings,
    enabled,
    heartbeat: seconds === null ? null : formatDuration(seconds * 1000),
    last_heartbeat_at: row.last_heartbeat_at?.toISOString() ?? null,
    secret_rotated_at: row.secret_rotated_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
