// Dashboards and saved views in `atherops apply`. Their fields are those of the API, which validates them; they are identified by name.
import type { Fields } from "./alerting-fields.ts";
import type { Existing, Kind, Resource } from "./alerting-file.ts";
import type { Client } from "./client.ts";
import type { Row } from "./table.ts";

export const DASHBOARDS = "/api/dashboards";
export const VIEWS = "/api/views";

const pathOf = (list: string, id: string): string => `${list}/${encodeURIComponent(id)}`;

function kindOf(section: string, noun: string, path: string, read: (fields: Fields) => Resource, list: Kind["list"]): Kind {
  return {
    section,
    noun,
    read,
    list,
    nameOf: ({ name }) => String(name),
    create: async (client, body) => void (await client.call("POST", path, { body })),
    replace: async (client, id, body) => void (await client.call("PUT", pathOf(path, id), { body })),
    remove: async (client, id) => void (await client.call("DELETE", pathOf(path, id))),
  };
}

export const dashboardKind = kindOf(
  "dashboards",
  "dashboard",
  DASHBOARDS,
  (fields) => ({
    name: fields.text("name"),
    description: fields.text("description", ""),
    variables: fields.any("variables") ?? [],
    panels: fields.any("panels") ?? [],
  }),
  existingDashboards,
);

export const viewKind = kindOf(
  "views",
  "view",
  VIEWS,
  (fields) => ({ name: fields.text("name"), address: fields.text("address") }),
  async (client) =>
    (await client.all(VIEWS)).map(({ id, name, address }) => ({ id: String(id), name: String(name), resource: { name, address } })),
);

/** The list of dashboards does not contain panels, so each dashboard is read separately. */
async function existingDashboards(client: Client): Promise<Existing[]> {
  const found: Existing[] = [];
  for (const { id } of await client.all(DASHBOARDS)) {
    // oxlint-disable-next-line no-await-in-loop -- one at a time, as the backend admits them
    const { name, description, variables, panels } = await client.call<Row>("GET", pathOf(DASHBOARDS, String(id)));
    found.push({ id: String(id), name: String(name), resource: { name, description, variables, panels } });
  }
  return found;
}
