// `atherops dashboards` and `atherops views`: list, show and remove what users saved. The console and `atherops apply` create them.
import type { Command } from "commander";
import { DASHBOARDS, VIEWS } from "./dashboard-kind.ts";
import { addRemoval, type Console } from "./output.ts";
import type { Row } from "./table.ts";

export function addSavedCommands(program: Command, console: Console): void {
  const dashboards = program
    .command("dashboards")
    .description("dashboards of your organisation; `atherops apply` creates and changes them")
    .addHelpText("after", "\nExamples:\n  atherops dashboards\n  atherops export dashboards > dashboards.yaml");
  dashboards
    .command("list", { isDefault: true })
    .description("dashboards, by name")
    .action(async () => console.print(await console.client().all(DASHBOARDS), ["name", "updated_by", "updated_at", "id"]));
  dashboards
    .command("show <id>")
    .description("a dashboard as JSON")
    .action(async (id: string) => {
      const dashboard = await console.client().call<Row>("GET", `${DASHBOARDS}/${encodeURIComponent(id)}`);
      console.world.stdout.write(`${JSON.stringify(dashboard, undefined, 1)}\n`);
    });
  addRemoval(dashboards, console, "remove a dashboard", (id) => `${DASHBOARDS}/${id}`);
  const views = program
    .command("views")
    .description("saved views of your organisation: addresses in the console")
    .addHelpText("after", "\nExample:\n  atherops export views > views.yaml");
  views
    .command("list", { isDefault: true })
    .description("saved views, by name")
    .action(async () => console.print(await console.client().all(VIEWS), ["name", "address", "updated_by", "id"]));
  addRemoval(views, console, "remove a saved view", (id) => `${VIEWS}/${id}`);
}
