// `atherops dashboards` and `atherops views`: list, show and remove what users saved; and dashboards and saved views in `atherops apply`,
// which creates them, as the console does. Their fields are those of the API, which validates them; a file identifies them by name.
import type { Command } from "commander";
import type { Fields } from "./alerting-fields.ts";
import { type Existing, type Kind, type Resource, storedAt } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";
import { addList, addRemoval, type Console } from "./output.ts";
import type { Row } from "./text-table.ts";

const DASHBOARDS = "/api/dashboards";
const VIEWS = "/api/views";

function kindOf(section: string, noun: string, path: string, read: (fields: Fields) => Resource, list: Kind["list"]): Kind {
  return {
    section,
    noun,
    read,
    list,
    nameOf: ({ name }) => String(name),
    ...storedAt(path),
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
  listDashboards,
);

export const viewKind = kindOf(
  "views",
  "view",
  VIEWS,
  (fields) => ({ name: fields.text("name"), address: fields.text("address") }),
  async (client) =>
    (await client.rows(VIEWS)).map(({ id, name, address }) => ({ id: String(id), name: String(name), resource: { name, address } })),
);

/** The list of dashboards does not contain panels, so each dashboard is read separately. */
async function listDashboards(client: Client): Promise<Existing[]> {
  const dashboards: Existing[] = [];
  for (const { id } of await client.rows(DASHBOARDS)) {
    // oxlint-disable-next-line no-await-in-loop -- one at a time, as the backend admits them
    const { name, description, variables, panels } = await client.call<Row>("GET", `${DASHBOARDS}/${String(id)}`);
    dashboards.push({ id: String(id), name: String(name), resource: { name, description, variables, panels } });
  }
  return dashboards;
}

export function addSavedCommands(program: Command, console: Console): void {
  const dashboards = program
    .command("dashboards")
    .description("dashboards of your organisation; `atherops apply` creates and changes them")
    .addHelpText("after", "\nExamples:\n  atherops dashboards\n  atherops export dashboards > dashboards.yaml");
  addList(dashboards, console, {
    description: "dashboards, by name",
    path: DASHBOARDS,
    columns: ["name", "updated_by", "updated_at", "id"],
  });
  dashboards
    .command("show <id>")
    .description("a dashboard as JSON")
    .action(async (id: string) => {
      const dashboard = await console.call<Row>("GET", `${DASHBOARDS}/${encodeURIComponent(id)}`);
      console.world.stdout.write(`${JSON.stringify(dashboard, undefined, 1)}\n`);
    });
  addRemoval(dashboards, console, "remove a dashboard", (id) => `${DASHBOARDS}/${id}`);
  const views = program
    .command("views")
    .description("saved views of your organisation: addresses in the console")
    .addHelpText("after", "\nExample:\n  atherops export views > views.yaml");
  addList(views, console, { description: "saved views, by name", path: VIEWS, columns: ["name", "address", "updated_by", "id"] });
  addRemoval(views, console, "remove a saved view", (id) => `${VIEWS}/${id}`);
}
