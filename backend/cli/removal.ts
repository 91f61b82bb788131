// The command that removes one thing by its id, the same wherever there is one.
import type { Command } from "commander";
import { Missing } from "./cli-error.ts";
import type { Console } from "./output.ts";

export function addRemoval(parent: Command, console: Console, description: string, path: (id: string) => string): void {
  parent
    .command("remove <id>")
    .description(description)
    .action(async (id: string) => {
      try {
        await console.client().call("DELETE", path(encodeURIComponent(id)));
      } catch (error) {
        // A name is easily taken for the id.
        throw error instanceof Missing ? new Missing(`${error.message}: \`atherops ${parent.name()}\` lists the ids`) : error;
      }
      console.note(`${id} removed`);
    });
}
