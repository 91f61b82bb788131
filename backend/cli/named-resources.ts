// Adds commands for a resource that users identify by name or id: enable, disable, remove; and reads options that several commands have.
// Invariant: an unknown name is a Problem that names the command which lists the existing ones.
import type { Command } from "commander";
import type { Existing, Kind } from "./alerting-file.ts";
import type { Client } from "./api-client.ts";
import { formatLabelLimits, type LabelLimits, parseLabelLimits } from "../client/limited-labels.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import type { Console } from "./output.ts";

/** Finds a resource by name, otherwise by id. Throws Problem. */
export async function findExisting(kind: Kind, client: Client, nameOrId: string): Promise<Existing> {
  return findIn(await kind.list(client), kind, nameOrId);
}

export function findIn(all: readonly Existing[], { noun, section }: Kind, nameOrId: string): Existing {
  const match = all.find(({ name }) => name === nameOrId) ?? all.find(({ id }) => id === nameOrId);
  if (!match) throw new Problem(`${noun} ${nameOrId} not found: \`atherops ${section}\` lists all`);
  return match;
}

export function addSwitches(parent: Command, console: Console, kind: Kind, descriptions: Record<"enable" | "disable", string>): void {
  for (const verb of ["enable", "disable"] as const)
    parent
      .command(`${verb} <${kind.noun}>`)
      .description(descriptions[verb])
      .action(async (nameOrId: string) => {
        const client = console.client();
        const { id, name, resource } = await findExisting(kind, client, nameOrId);
        await kind.replace(client, id, { ...resource, enabled: verb === "enable" });
        console.note(`${kind.noun} ${name} ${verb}d`);
      });
}

export function addRemovalByName(parent: Command, console: Console, kind: Kind, description: string): void {
  parent
    .command(`remove <${kind.noun}>`)
    .description(description)
    .action(async (nameOrId: string) => {
      const client = console.client();
      const { id, name } = await findExisting(kind, client, nameOrId);
      await kind.remove(client, id);
      console.note(`${kind.noun} ${name} removed`);
    });
}

/** Collects the values of a repeatable option. */
export function collect(value: string, all: readonly string[] = []): string[] {
  return [...all, value];
}

/** For the option `--limit` of read tokens, users and issuers. */
export const LIMIT_HELP =
  "limit to exact values of a label: k8s.namespace.name, source (service.name) or deployment.environment.name; repeatable, all must match";

/** `k8s.namespace.name=shop,web` as the field of the API; undefined without limits. Throws WrongUsage. */
export function toLabelLimits(texts: readonly string[]): LabelLimits | undefined {
  try {
    return parseLabelLimits(texts);
  } catch (error) {
    throw new WrongUsage(`--limit ${(error as Error).message}`);
  }
}

export function limitsText(limits: unknown): string {
  return formatLabelLimits(limits as LabelLimits | null);
}
