// The routes for silences, ours and those of Alertmanager's API, which Grafana and `amtool` use. Invariant: the organisation is that of the
// session or the read token. A silence belongs to the caller, and every change is audited.
import type { FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, readerOf } from "../../http/request-identity.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { NO_CONTENT, notFound, objectSchema, optionalSchema, parseUuid, readId, UUID_SCHEMA } from "../../http/schemas.ts";
import { ALERTMANAGER_ERRORS, readFilters } from "./alertmanager-format.ts";
import type { Matcher } from "../model/matchers.ts";
import {
  validateSilence,
  SILENCE_BODY_SCHEMA,
  SILENCE_SCHEMA,
  type SilenceBody,
  describeSilence,
  type SilenceStore,
  type StoredSilence,
} from "../routing/silences.ts";

const V2 = "/alertmanager/api/v2";
const FILTER = optionalSchema({
  filter: { type: "array", items: { type: "string" }, description: "matchers that the silence must contain; repeatable" },
});
const LIST_RESPONSE = { 200: { type: "array", items: SILENCE_SCHEMA } };

export const SILENCE_ROUTES = {
  list: {
    ...endpoint("GET", "/silences", "reader", "alerting"),
    summary: "Silences: active, pending, and those that expired in the last five days, about the newest 500",
    documented: { response: LIST_RESPONSE },
  },
  create: {
    ...endpoint("POST", "/silences", "admin", "alerting"),
    summary: "Create a silence, or replace the silence with this id",
    body: SILENCE_BODY_SCHEMA,
    documented: { response: { 201: SILENCE_SCHEMA } },
  },
  expire: {
    ...endpoint("DELETE", "/silences/:id", "admin", "alerting"),
    summary: "Expire a silence now",
    documented: { response: NO_CONTENT },
  },
  alertmanagerList: {
    ...endpoint("GET", `${V2}/silences`, "reader", "alerting"),
    summary: "Alertmanager API v2: silences",
    documented: { query: FILTER, response: LIST_RESPONSE },
    otherErrors: ALERTMANAGER_ERRORS,
  },
  alertmanagerCreate: {
    ...endpoint("POST", `${V2}/silences`, "admin", "alerting"),
    summary: "Alertmanager API v2: create or replace a silence",
    body: SILENCE_BODY_SCHEMA,
    documented: { response: { 200: objectSchema({ silenceID: UUID_SCHEMA }) } },
    otherErrors: ALERTMANAGER_ERRORS,
  },
  alertmanagerShow: {
    ...endpoint("GET", `${V2}/silence/:id`, "reader", "alerting"),
    summary: "Alertmanager API v2: one silence",
    documented: { response: { 200: SILENCE_SCHEMA } },
    otherErrors: ALERTMANAGER_ERRORS,
  },
  alertmanagerExpire: {
    ...endpoint("DELETE", `${V2}/silence/:id`, "admin", "alerting"),
    summary: "Alertmanager API v2: expire a silence now",
    documented: { response: { 200: { type: "object" } } },
    otherErrors: ALERTMANAGER_ERRORS,
  },
} as const satisfies Record<string, RouteDeclaration>;

export function createSilenceRoutes(table: SilenceStore, nowMs: () => number): Route[] {
  const describe = (silence: StoredSilence) => describeSilence(silence, nowMs());
  const store = async (request: FastifyRequest<{ Body: SilenceBody }>): Promise<StoredSilence> => {
    const { orgId, email } = callerOf(request);
    const { id } = request.body;
    const checked = validateSilence(request.body, nowMs());
    const replacedId = id ? parseUuid(id) : undefined;
    if (id && replacedId === undefined) throw notFound("silence");
    const silence = replacedId ? await table.replace(orgId, replacedId, email, checked) : await table.create(orgId, email, checked);
    audit(request, replacedId ? "silence.update" : "silence.create", { silence_id: silence.id });
    return silence;
  };
  const expire = async (request: FastifyRequest): Promise<void> => {
    const id = readId(request, "silence");
    await table.expire(callerOf(request).orgId, id);
    audit(request, "silence.expire", { silence_id: id });
  };
  return bindHandlers(SILENCE_ROUTES, {
    list: async (request: FastifyRequest) => (await table.list(readerOf(request).orgId)).map(describe),
    create: async (request: FastifyRequest<{ Body: SilenceBody }>, reply: FastifyReply) =>
      await reply.code(201).send(describe(await store(request))),
    expire: async (request: FastifyRequest, reply: FastifyReply) => {
      await expire(request);
      return await reply.code(204).send();
    },
    alertmanagerList: async (request: FastifyRequest) => {
      const filters = readFilters(request);
      const silences = await table.list(readerOf(request).orgId);
      return silences.filter((silence) => filters.every((filter) => containsMatcher(silence, filter))).map(describe);
    },
    alertmanagerCreate: async (request: FastifyRequest<{ Body: SilenceBody }>) => ({ silenceID: (await store(request)).id }),
    alertmanagerShow: async (request: FastifyRequest) => {
      const silence = await table.find(readerOf(request).orgId, readId(request, "silence"));
      if (!silence) throw notFound("silence");
      return describe(silence);
    },
    alertmanagerExpire: async (request: FastifyRequest) => {
      await expire(request);
      return {};
    },
  });
}

/** Exactly this matcher, as Alertmanager compares them. */
function containsMatcher({ matchers }: StoredSilence, { name, value, isRegex, isEqual }: Matcher): boolean {
  return matchers.some(
    (matcher) => matcher.name === name && matcher.value === value && matcher.isRegex === isRegex && matcher.isEqual === isEqual,
  );
}
