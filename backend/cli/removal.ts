// The command that removes one thing by its id, the same wherever there is one.
import type { Command } from "commander";
import type { Console } from "./output.ts";

export function addRemoval(parent: Command, console: Console, description: string, path: (id: string) => string): void {
  parent
    .command("remove <id>")
    .description(description)
    .action(async (id: string) => {
      await console.client().call("DELETE", path(encodeURIComponent(id)));
      console.note(`${id} removed`);
    });
}
