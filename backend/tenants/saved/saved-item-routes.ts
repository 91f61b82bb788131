// Dashboards and saved views: both are named JSON documents of an organisation, which every user reads and administrators change.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import { audit } from "../../auth/audit-log.ts";
import { callerOf, type Guards } from "../../http/request-identity.ts";
import { tenantDatabase } from "../../engines/relational/tenant-database.ts";
import { CURSOR_QUERY, type CursorQuery, readPage } from "../../http/list-page.ts";
import { addRoutes, endpoint, type Route } from "../../http/route.ts";
import {
  closedSchema,
  FORBIDDEN_CHARACTERS,
  ID_PARAMS,
  listResponse,
  nameSchema,
  NO_CONTENT,
  objectSchema,
  readId,
  TIME_SCHEMA,
  UUID_SCHEMA,
} from "../../http/schemas.ts";
import {
  MAX_ADDRESS_LENGTH,
  MAX_DASHBOARD_PANELS,
  MAX_DASHBOARD_VARIABLES,
  MAX_DASHBOARDS,
  MAX_PANEL_QUERIES,
  MAX_PANEL_TEXT_LENGTH,
  MAX_PANEL_THRESHOLDS,
  MAX_SAVED_QUERY_LENGTH,
  MAX_VARIABLE_VALUES,
  MAX_VIEWS,
} from "../tenant-limits.ts";
import {
  insertItem,
  selectItems,
  type Owner,
  readItem,
  removeItem,
  replaceItem,
  type SavedItemRow,
  type SavedKind,
  type SavedTables,
} from "./saved-item-table.ts";

// Content of a dashboard and a saved view. The console reads both; the backend stores them unchanged. Invariant: every text and every list
// has a maximum, and the address of a view cannot lead outside the console.

const text = (maxLength: number) => ({ type: "string", maxLength }) as const;

const QUERY = closedSchema(["query"], {
  query: {
    ...text(MAX_SAVED_QUERY_LENGTH),
    description: "PromQL, a log query, or comparisons with attributes, as `source` says; may contain `$variable`",
  },
  legend: { ...text(200), description: "name of a series; `{{label}}` is the value of a label" },
});

const THRESHOLD = closedSchema(["value"], {
  value: { type: "number" },
  severity: { enum: ["warning", "critical"], description: "colour of its line" },
});

const PANEL = closedSchema(["title", "kind", "source", "width", "queries"], {
  title: text(200),
  kind: { enum: ["timeseries", "stat", "table", "list", "text"] },
  source: { enum: ["metrics", "logs", "traces"] },
  unit: { enum: ["short", "bytes", "Bps", "percentunit", "percent", "s", "ms", "reqps", "cps", "cores"] },
  min: { type: "number", description: "lower end of the value axis" },
  max: { type: "number", description: "upper end of the value axis" },
  stacked: { type: "boolean", description: "series on top of each other" },
  thresholds: { type: "array", maxItems: MAX_PANEL_THRESHOLDS, items: THRESHOLD },
  width: { type: "integer", minimum: 1, maximum: 12, description: "width in columns, of 12" },
  height: { type: "integer", minimum: 1, maximum: 24, description: "height in rows of 40 pixels" },
  queries: { type: "array", maxItems: MAX_PANEL_QUERIES, items: QUERY },
  text: { ...text(MAX_PANEL_TEXT_LENGTH), description: "plain text, for a panel of the kind text" },
});

const VARIABLE = closedSchema(["name"], {
  name: { type: "string", pattern: "^[A-Za-z0-9_]{1,50}$" },
  query: { ...text(MAX_SAVED_QUERY_LENGTH), description: "PromQL; its values are those of `label`" },
  label: text(200),
  values: { type: "array", maxItems: MAX_VARIABLE_VALUES, items: text(200), description: "instead of `query` and `label`" },
});

const DASHBOARD = closedSchema({
  name: nameSchema(100),
  description: text(1000),
  variables: { type: "array", maxItems: MAX_DASHBOARD_VARIABLES, items: VARIABLE },
  panels: { type: "array", maxItems: MAX_DASHBOARD_PANELS, items: PANEL },
});

const VIEW = closedSchema({
  name: nameSchema(100),
  address: {
    type: "string",
    maxLength: MAX_ADDRESS_LENGTH,
    pattern: `^#/[a-z]+(?:[/?][^${FORBIDDEN_CHARACTERS}]*)?$`,
    description: "URL fragment of the console, such as #/logs?q=level:error",
  },
});

export interface SavedRoutesOptions {
  readonly db: Kysely<SavedTables>;
  readonly guards: Guards;
  readonly now?: () => number;
  readonly pageRows?: number;
}

interface Resource {
  readonly kind: SavedKind;
  readonly path: string;
  readonly noun: string;
  readonly body: { readonly properties: Readonly<Record<string, object>> };
  readonly maxItems: number;
  /** Fields of the body that its list contains. */
  readonly listed: readonly string[];
}

const RESOURCES: readonly Resource[] = [
  { kind: "dashboard", path: "/api/dashboards", noun: "dashboard", body: DASHBOARD, maxItems: MAX_DASHBOARDS, listed: [] },
  { kind: "view", path: "/api/views", noun: "saved view", body: VIEW, maxItems: MAX_VIEWS, listed: ["address"] },
];

type BodyRequest = FastifyRequest<{ Body: { readonly name: string } }>;

const STAMPS = {
  id: UUID_SCHEMA,
  created_by: { type: "string", description: "e-mail address" },
  created_at: TIME_SCHEMA,
  updated_by: { type: "string", description: "e-mail address" },
  updated_at: TIME_SCHEMA,
} as const;

export function registerSavedRoutes(app: FastifyInstance, options: SavedRoutesOptions): void {
  for (const resource of RESOURCES) addRoutes(app, options.guards, [...readRoutes(resource, options), ...writeRoutes(resource, options)]);
}

const ownerOf = (request: FastifyRequest, { kind, maxItems }: Resource): Owner => ({ orgId: callerOf(request).orgId, kind, maxItems });

function readRoutes(resource: Resource, { db, pageRows }: SavedRoutesOptions): Route[] {
  const { path, noun, body, listed } = resource;
  const tenantDb = (request: FastifyRequest) => tenantDatabase(db, callerOf(request).orgId);
  const listedFields = Object.fromEntries(listed.map((name) => [name, { type: "string" }]));
  const entry = { name: { type: "string" }, ...listedFields, ...STAMPS };
  return [
    {
      ...endpoint("GET", path, "viewer", "saved"),
      limited: "filtered",
      summary: `The ${noun}s of your organisation, by name`,
      description: "Pages have 500 entries; the Link header points to the next page.",
      query: CURSOR_QUERY,
      response: listResponse(entry),
      handler: async (request: FastifyRequest<CursorQuery>, reply: FastifyReply) => {
        const query = selectItems(tenantDb(request), ownerOf(request, resource));
        return (await readPage(request, reply, query, { sortedBy: "name", limit: pageRows })).map(describe);
      },
    },
    {
      ...endpoint("GET", `${path}/:id`, "viewer", "saved"),
      limited: "filtered",
      summary: `A ${noun} of your organisation`,
      params: ID_PARAMS,
      response: { 200: objectSchema({ ...body.properties, ...STAMPS }) },
      handler: async (request) => describe(await readItem(tenantDb(request), ownerOf(request, resource), readId(request, noun))),
    },
  ];
}

function writeRoutes(resource: Resource, { db, now = Date.now }: SavedRoutesOptions): Route[] {
  const { kind, path, noun, body, maxItems } = resource;
  const tenantDb = (request: FastifyRequest) => tenantDatabase(db, callerOf(request).orgId);
  const savedBy = (request: BodyRequest) => {
    const { name, ...rest } = request.body;
    return { name, body: JSON.stringify(rest), email: callerOf(request).email, at: new Date(now()) };
  };
  return [
    {
      ...endpoint("POST", path, "admin", "saved"),
      errors: ["conflict"],
      summary: `Create a ${noun}; at most ${maxItems}`,
      body,
      response: { 201: objectSchema({ id: UUID_SCHEMA, name: { type: "string" } }) },
      handler: async (request: BodyRequest, reply: FastifyReply) => {
        const saved = savedBy(request);
        const id = await insertItem(tenantDb(request), ownerOf(request, resource), saved);
        audit(request, `${kind}.create`, { [`${kind}_id`]: id, name: saved.name });
        return await reply.code(201).send({ id, name: saved.name });
      },
    },
    {
      ...endpoint("PUT", `${path}/:id`, "admin", "saved"),
      errors: ["conflict"],
      summary: `Replace a ${noun}`,
      params: ID_PARAMS,
      body,
      response: { 200: objectSchema({ id: UUID_SCHEMA, name: { type: "string" } }) },
      handler: async (request: BodyRequest) => {
        const id = readId(request, noun);
        const saved = savedBy(request);
        await replaceItem(tenantDb(request), ownerOf(request, resource), id, saved);
        audit(request, `${kind}.update`, { [`${kind}_id`]: id, name: saved.name });
        return { id, name: saved.name };
      },
    },
    {
      ...endpoint("DELETE", `${path}/:id`, "admin", "saved"),
      summary: `Remove a ${noun}`,
      params: ID_PARAMS,
      response: NO_CONTENT,
      handler: async (request, reply) => {
        const id = readId(request, noun);
        const name = await removeItem(tenantDb(request), ownerOf(request, resource), id);
        audit(request, `${kind}.delete`, { [`${kind}_id`]: id, name });
        return await reply.code(204).send();
      },
    },
  ];
}

function describe(row: SavedItemRow): Record<string, unknown> {
  const { id, name, body, created_by, created_at, updated_by, updated_at } = row;
  const stamps = { created_by, created_at: created_at.toISOString(), updated_by, updated_at: updated_at.toISOString() };
  return { ...(JSON.parse(body) as object), id, name, ...stamps };
}
