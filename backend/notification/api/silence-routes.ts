// The requests for silences, ours and those of Alertmanager's API, which Grafana and `amtool` send. Invariant: the organisation is that of
// the session or the read token; a silence is made by who asks, and every change is audited.
import type { FastifyInstance, FastifyRequest } from "fastify";
import { addServiceRoute, type ServiceRoute } from "../../alerting/route-parts.ts";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards, readerOf } from "../../auth/request-identity.ts";
import { ApiError } from "../../errors.ts";
import { readId, notFound, NO_CONTENT, objectSchema, UUID_SCHEMA, parseUuid } from "../../http/schemas.ts";
import { ALERTMANAGER_ERRORS } from "./alertmanager-errors.ts";
import { readFilters } from "./alertmanager-parameters.ts";
import type { Matcher } from "../model/matchers.ts";
import {
  checkedSilence,
  SILENCE_BODY_SCHEMA,
  SILENCE_SCHEMA,
  type SilenceBody,
  silenceObject,
  type StoredSilence,
} from "../routing/silence-body.ts";
import type { SilenceTable } from "../routing/silence-store.ts";

const V2 = "/alertmanager/api/v2";
const ALL = { 200: { type: "array", items: SILENCE_SCHEMA } };
const FILTER = {
  type: "object",
  properties: { filter: { type: "array", items: { type: "string" }, description: "matchers that a silence has to have; repeatable" } },
};
const LIST: ServiceRoute = {
  method: "GET",
  path: "/silences",
  who: "reader",
  summary: "Silences: in force, to come, and those that ended in the last five days",
  response: ALL,
};
const CREATE: ServiceRoute = {
  method: "POST",
  path: "/silences",
  who: "admin",
  summary: "Creates a silence, or puts it in the place of the one with this id",
  body: SILENCE_BODY_SCHEMA,
  response: { 201: SILENCE_SCHEMA },
};
const EXPIRE: ServiceRoute = { method: "DELETE", path: "/silences/:id", who: "admin", summary: "Ends a silence now", response: NO_CONTENT };
const V2_LIST: ServiceRoute = {
  ...LIST,
  otherErrors: ALERTMANAGER_ERRORS,
  path: `${V2}/silences`,
  summary: "Alertmanager API v2: silences",
  toldQuery: FILTER,
};
const V2_CREATE: ServiceRoute = {
  ...CREATE,
  otherErrors: ALERTMANAGER_ERRORS,
  path: `${V2}/silences`,
  summary: "Alertmanager API v2: creates or replaces a silence",
  response: { 200: objectSchema({ silenceID: UUID_SCHEMA }) },
};
const V2_SHOW: ServiceRoute = {
  method: "GET",
  path: `${V2}/silence/:id`,
  who: "reader",
  summary: "Alertmanager API v2: one silence",
  otherErrors: ALERTMANAGER_ERRORS,
  response: { 200: SILENCE_SCHEMA },
};
const V2_EXPIRE: ServiceRoute = {
  ...EXPIRE,
  otherErrors: ALERTMANAGER_ERRORS,
  path: `${V2}/silence/:id`,
  summary: "Alertmanager API v2: ends a silence now",
  response: { 200: { type: "object" } },
};

export const SILENCE_REQUESTS = [LIST, CREATE, EXPIRE, V2_LIST, V2_CREATE, V2_SHOW, V2_EXPIRE];

export function registerSilenceRequests(app: FastifyInstance, guards: Guards, table: SilenceTable, nowMs: () => number): void {
  const told = (silence: StoredSilence) => silenceObject(silence, nowMs());
  const kept = async (request: FastifyRequest<{ Body: SilenceBody }>): Promise<StoredSilence> => {
    const { orgId, email } = callerOf(request);
    const { id } = request.body;
    const checked = checkedSilence(request.body, nowMs());
    const former = id ? (parseUuid(id) ?? unknown()) : undefined;
    const silence = former ? await table.replace(orgId, former, email, checked) : await table.create(orgId, email, checked);
    audit(request, former ? "silence.update" : "silence.create", { silence_id: silence.id });
    return silence;
  };
  const expire = async (request: FastifyRequest): Promise<void> => {
    const id = readId(request, "silence");
    await table.expire(callerOf(request).orgId, id);
    audit(request, "silence.expire", { silence_id: id });
  };
  addServiceRoute(app, guards, LIST, async (request) => (await table.list(readerOf(request).orgId)).map(told));
  addServiceRoute<SilenceBody>(app, guards, CREATE, async (request, reply) => await reply.code(201).send(told(await kept(request))));
  addServiceRoute(app, guards, EXPIRE, async (request, reply) => {
    await expire(request);
    return await reply.code(204).send();
  });
  addServiceRoute(app, guards, V2_LIST, async (request) => {
    const filters = readFilters(request);
    return (await table.list(readerOf(request).orgId)).filter((silence) => filters.every((one) => has(silence, one))).map(told);
  });
  addServiceRoute<SilenceBody>(app, guards, V2_CREATE, async (request) => ({ silenceID: (await kept(request)).id }));
  addServiceRoute(app, guards, V2_SHOW, async (request) => {
    const silence = await table.find(readerOf(request).orgId, readId(request, "silence"));
    if (!silence) throw notFound("silence");
    return told(silence);
  });
  addServiceRoute(app, guards, V2_EXPIRE, async (request) => {
    await expire(request);
    return {};
  });
}

/** The very matcher, as Alertmanager compares them. */
function has({ matchers }: StoredSilence, { name, value, isRegex, isEqual }: Matcher): boolean {
  return matchers.some((own) => own.name === name && own.value === value && own.isRegex === isRegex && own.isEqual === isEqual);
}

function unknown(): never {
  throw new ApiError("not_found", "there is no such silence in your organisation");
}
