// The routes for channels. Invariants: the organisation is that of the session. A secret is returned once, to the user who created it. A
// test uses the path of every delivery, and its cost is limited for each organisation.
import { randomUUID } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { formatDuration } from "../../../common/duration.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, RANK } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { goneSignal } from "../../http/http-client.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { NO_CONTENT, notFound, objectSchema, readId, TIME_SCHEMA } from "../../http/schemas.ts";
import { CHANNEL_BODY_SCHEMA, CHANNEL_SCHEMA, type ChannelBody, type ChannelCheck, checkChannel } from "../channels/channel-settings.ts";
import { type ChannelRow, type ChannelStore, ROTATION_MS } from "../channels/channel-store.ts";
import type { Message, OpenChannel, Outcome, Send } from "../model/message.ts";

export interface ChannelRoutesOptions {
  readonly channels: ChannelStore;
  readonly check: ChannelCheck;
  readonly send: Send;
  readonly externalUrl: string;
  readonly orgName: (orgId: string) => Promise<string>;
  /** Called when receivers may have changed. */
  readonly changed?: () => void;
  readonly now?: () => number;
}

const TEST_SCHEMA = objectSchema({
  delivered: { type: "boolean" },
  status: { type: ["integer", "null"], description: "the HTTP status of the receiver, if it sent one" },
  error: { type: ["string", "null"] },
});
const ROTATION_SCHEMA = objectSchema({
  signing_secret: { type: "string" },
  previous_until: { ...TIME_SCHEMA, description: "until then, messages carry both signatures" },
});

export const CHANNEL_ROUTES = {
  list: {
    ...endpoint("GET", "/channels", "viewer", "alerting"),
    summary: "Channels of your organisation, by name",
    documented: { response: { 200: { type: "array", items: CHANNEL_SCHEMA } } },
  },
  create: {
    ...endpoint("POST", "/channels", "admin", "alerting"),
    summary: "Create a channel, at most 100; for a webhook, signing_secret is returned only here",
    body: CHANNEL_BODY_SCHEMA,
    documented: { response: { 201: CHANNEL_SCHEMA } },
  },
  replace: {
    ...endpoint("PUT", "/channels/:id", "admin", "alerting"),
    summary: "Replace a channel; secrets that are missing are kept",
    body: CHANNEL_BODY_SCHEMA,
    documented: { response: { 200: CHANNEL_SCHEMA } },
  },
  remove: {
    ...endpoint("DELETE", "/channels/:id", "admin", "alerting"),
    summary: "Remove a channel that no route uses",
    documented: { response: NO_CONTENT },
  },
  test: {
    ...endpoint("POST", "/channels/:id/test", "admin", "alerting"),
    summary:
      "Send a test message now on the path of alerts, without retries, at most 10 per minute of an organisation in each replica; 200 also if it is not delivered: error contains the reason",
    documented: { response: { 200: TEST_SCHEMA } },
  },
  rotate: {
    ...endpoint("POST", "/channels/:id/rotate", "admin", "alerting"),
    summary: "Create a new signing secret for a webhook; for a day, messages carry the signatures of both",
    documented: { response: { 200: ROTATION_SCHEMA } },
  },
} as const satisfies Record<string, RouteDeclaration>;

const TEST_QUEUE = { running: 8, perOrg: 1, waitingPerOrg: 4, fullMessage: "too many concurrent tests of channels: try again" };
const TEST_LIMIT = { tests: 10, windowMs: 60_000 };

export function createChannelRoutes(options: ChannelRoutesOptions): Route[] {
  const { channels, check, changed = () => undefined } = options;
  return bindHandlers(CHANNEL_ROUTES, {
    list: async (request: FastifyRequest) => {
      const { orgId, role } = callerOf(request);
      const isAdmin = RANK[role] >= RANK.admin;
      return (await channels.list(orgId)).map((row) => describeChannel(row, isAdmin));
    },
    create: async (request: FastifyRequest<{ Body: ChannelBody }>, reply: FastifyReply) => {
      const { orgId } = callerOf(request);
      const { row, signingSecret } = await channels.create(orgId, await checkChannel(orgId, request.body, check));
      changed();
      audit(request, "channel.create", auditSubject(row));
      const secret = signingSecret === undefined ? {} : { signing_secret: signingSecret };
      return await reply.code(201).send({ ...describeChannel(row, true), ...secret });
    },
    replace: async (request: FastifyRequest<{ Body: ChannelBody }>) => {
      const { orgId } = callerOf(request);
      const id = readId(request, "channel");
      const row = await channels.replace(orgId, id, await checkChannel(orgId, request.body, check));
      changed();
      audit(request, "channel.update", auditSubject(row));
      return describeChannel(row, true);
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const row = await channels.delete(callerOf(request).orgId, readId(request, "channel"));
      changed();
      audit(request, "channel.delete", auditSubject(row));
      return await reply.code(204).send();
    },
    rotate: async (request: FastifyRequest) => {
      const { row, signingSecret } = await channels.rotate(callerOf(request).orgId, readId(request, "channel"));
      audit(request, "channel.rotate", auditSubject(row));
      const rotatedAtMs = row.secret_rotated_at?.getTime() ?? 0;
      return { signing_secret: signingSecret, previous_until: new Date(rotatedAtMs + ROTATION_MS).toISOString() };
    },
    test: createTest(options),
  });
}

function createTest({ channels, send, externalUrl, orgName, now = Date.now }: ChannelRoutesOptions): Route["handler"] {
  const queue = new FairQueue(TEST_QUEUE);
  const admit = createTestLimit(now);
  return async (request, reply) => {
    const { orgId } = callerOf(request);
    const channel = await channels.open(orgId, readId(request, "channel"));
    if (!channel) throw notFound("channel");
    admit(orgId);
    audit(request, "channel.test", { channel_id: channel.id, name: channel.name, kind: channel.kind });
    const message = buildTestMessage(channel, { org: { id: orgId, name: await orgName(orgId) }, externalUrl, at: new Date(now()) });
    const signal = goneSignal(reply);
    const outcome = await queue.run(orgId, signal, async () => await send(channel, message, signal));
    return describeOutcome(outcome);
  };
}

/** Throws ApiError `over_quota`. Counted per process, because a test is not worth a statement. */
function createTestLimit(now: () => number): (orgId: string) => void {
  const counted = new Map<string, { sinceMs: number; tests: number }>();
  return (orgId) => {
    const nowMs = now();
    for (const [org, { sinceMs }] of counted) if (nowMs - sinceMs >= TEST_LIMIT.windowMs || nowMs < sinceMs) counted.delete(org);
    const window = counted.get(orgId) ?? { sinceMs: nowMs, tests: 0 };
    counted.set(orgId, window);
    if (window.tests >= TEST_LIMIT.tests) {
      const retryAfterS = Math.ceil((window.sinceMs + TEST_LIMIT.windowMs - nowMs) / 1000);
      throw new ApiError("over_quota", `${TEST_LIMIT.tests} tests of channels per minute is the limit`, { retryAfterS });
    }
    window.tests += 1;
  };
}

function buildTestMessage(
  { id, name }: OpenChannel,
  { org, externalUrl, at }: { org: Message["org"]; externalUrl: string; at: Date },
): Message {
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

function describeOutcome(outcome: Outcome): object {
  return { delivered: outcome.delivered, status: outcome.httpStatus ?? null, error: outcome.delivered ? null : outcome.error };
}

function auditSubject({ id, name, kind }: ChannelRow): Record<string, unknown> {
  return { channel_id: id, name, kind };
}

/** For some receivers the URL is the secret, so only administrators get its path. */
function describeChannel(row: ChannelRow, isAdmin: boolean): Record<string, unknown> {
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
