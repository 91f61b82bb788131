import { expect, it } from "vitest";
import { chooseByJob } from "./jobs.ts";

it("parses a query while every sandbox process is busy", async () => {
  const runner = chooseByJob({
    computing: { run: () => new Promise(() => undefined) },
    reading: { run: async (orgId, job) => Buffer.from(`${orgId} ${JSON.stringify(job)}`) },
  });
  void runner.run("acme", { kind: "endpoint" });
  expect((await runner.run("acme", { kind: "filter", parameters: {} })).toString()).toBe('acme {"kind":"filter","parameters":{}}');
});
