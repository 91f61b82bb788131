import { expect, it } from "vitest";
import { chooseByJob } from "./jobs.ts";

it("reads the text of a query while every process that computes is busy", async () => {
  const runner = chooseByJob({
    computing: { run: () => new Promise(() => undefined) },
    reading: { run: async (orgId, job) => Buffer.from(`${orgId} ${JSON.stringify(job)}`) },
  });
  void runner.run("acme", { kind: "endpoint" });
  expect((await runner.run("acme", { kind: "filter", parameters: {} })).toString()).toBe('acme {"kind":"filter","parameters":{}}');
});
