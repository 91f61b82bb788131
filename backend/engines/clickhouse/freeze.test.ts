import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { freezeTables, isDefinition } from "./freeze.ts";

it("contains per table the rows acknowledged before the returned time, even if another table was frozen meanwhile", async () => {
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

it("omits journaled rows, which are in the tables, and includes dead letters, which are not", () => {
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
