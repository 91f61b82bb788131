import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { freezeTables, isDefinition } from "./freeze.ts";

it("has in each table what was answered before the moment that it tells of it, also while another table was frozen", async () => {
  const frozen: Record<string, readonly string[]> = {};
  let committed: readonly string[] = [];
  const answered = ["before"];
  await freezeTables(
    {
      settle: async () => void (committed = [...answered]),
      query: async () => [{ name: "spans" }, { name: "logs" }] as never[],
      command: async ({ text }) => {
        const [, table = ""] = /`(\w+)` FREEZE/.exec(text) ?? [];
        frozen[table] = committed;
        answered.push(`while ${table} was frozen`);
      },
    },
    "backup_1",
  );
  expect(frozen).toEqual({ spans: ["before"], logs: ["before", "while spans was frozen"] });
});

it("leaves out what comes into the tables yet, and takes along what was set aside, which comes into none", () => {
  using folder = temporaryFolder();
  const paths = [
    "journal",
    "journal/logs",
    "journal/logs/0000000012.journal",
    "journal/logs/refused",
    "journal/logs/refused/1.entry",
    "tmp",
  ];
  expect(paths.filter((path) => !isDefinition(folder.path, path))).toEqual(["journal/logs/0000000012.journal", "tmp"]);
});
