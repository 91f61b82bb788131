// The HTTP routes for inhibition rules and time intervals.
import type { FastifyReply, FastifyRequest } from "fastify";
import { audit } from "../../auth/audit-log.ts";
import { callerOf } from "../../http/request-identity.ts";
import { bindHandlers, endpoint, type Route, type RouteDeclaration } from "../../http/route.ts";
import { NO_CONTENT, readId } from "../../http/schemas.ts";
import { type Named, type NamedSettings, type SettingKind, SETTINGS } from "../routing/named-settings.ts";

function declare(kind: SettingKind, path: string) {
  const { noun, body, response } = SETTINGS[kind];
  return {
    list: {
      ...endpoint("GET", `/${path}`, "viewer", "alerting"),
      summary: `All ${noun}s, by name`,
      documented: { response: { 200: { type: "array", items: response } } },
    },
    create: {
      ...endpoint("POST", `/${path}`, "admin", "alerting"),
      summary: `Create an ${noun}`.replace("an t", "a t"),
      body,
      documented: { response: { 201: response } },
    },
    replace: {
      ...endpoint("PUT", `/${path}/:id`, "admin", "alerting"),
      summary: `Replace the whole ${noun}`,
      body,
      documented: { response: { 200: response } },
    },
    remove: {
      ...endpoint("DELETE", `/${path}/:id`, "admin", "alerting"),
      summary: `Delete the ${noun}`,
      documented: { response: NO_CONTENT },
    },
  } as const satisfies Record<string, RouteDeclaration>;
}

export const INHIBIT_RULE_ROUTES = declare("inhibit_rule", "inhibit-rules");
export const TIME_INTERVAL_ROUTES = declare("time_interval", "time-intervals");

export function createNamedSettingRoutes<K extends SettingKind>(kind: K, table: NamedSettings<K>): Route[] {
  const { noun } = SETTINGS[kind];
  return bindHandlers(kind === "inhibit_rule" ? INHIBIT_RULE_ROUTES : TIME_INTERVAL_ROUTES, {
    list: async (request: FastifyRequest) => await table.list(callerOf(request).orgId),
    create: async (request: FastifyRequest, reply: FastifyReply) => {
      const created = await table.write(callerOf(request).orgId, request.body as Named<K>);
      audit(request, `${kind}.create`, { [`${kind}_id`]: created.id, name: created.name });
      return await reply.code(201).send(created);
    },
    replace: async (request: FastifyRequest) => {
      const replaced = await table.write(callerOf(request).orgId, request.body as Named<K>, readId(request, noun));
      audit(request, `${kind}.update`, { [`${kind}_id`]: replaced.id, name: replaced.name });
      return replaced;
    },
    remove: async (request: FastifyRequest, reply: FastifyReply) => {
      const id = readId(request, noun);
      await table.delete(callerOf(request).orgId, id);
      audit(request, `${kind}.delete`, { [`${kind}_id`]: id });
      return await reply.code(204).send();
    },
  });
}
