import { expect, it } from "vitest";
import { freezeTables } from "./freeze.ts";

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
