// The rules of many organisations are divided between two vmalerts: each rule is evaluated by exactly one of them, and a change takes
// effect within seconds. RULE_ORGANISATIONS and RULES_OF_EACH set the size.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { login, makeTenant, startBackend, type BackendPlace, type Tenant } from "../fixtures/backend-process.ts";
import { FIRST_PASSWORD, startDistributedEngines, type DistributedEngines } from "../fixtures/distributed.ts";
import { NO_POSTGRES, postgresBinaries } from "../fixtures/postgres.ts";
import { call, eventually, freeAddresses, type TestProcess } from "../fixtures/processes.ts";
import { fillRules } from "../fixtures/rules.ts";
import { RULES_PASSWORD, startVmalert } from "../fixtures/vmalert-outside.ts";

const ORGANISATIONS = Number(process.env["RULE_ORGANISATIONS"] ?? 40);
const RULES_OF_EACH = Number(process.env["RULES_OF_EACH"] ?? 5);
/** The time grows with the number of rules that are loaded for the first time. */
const DEADLINE_MS = 240_000;

describe.skipIf(!postgresBinaries)(`two vmalerts${postgresBinaries ? "" : `: ${NO_POSTGRES}`}`, () => {
  let engines: DistributedEngines;
  let place: BackendPlace;
  let backend: TestProcess;
  let tenant: Tenant;
  const vmalerts: AsyncDisposable[] = [];
  let evaluators: string[];

  beforeAll(async () => {
    engines = await startDistributedEngines();
    const [rules = "", ...listen] = await freeAddresses(3);
    evaluators = listen;
    const urls = listen.map((address) => `http://${address}`).join(",");
    place = await engines.place("one", { RULES_LISTEN: rules, RULES_PASSWORD, EVALUATOR_QUERY_URL: urls, EVALUATION_INTERVAL: "60s" });
    backend = await startBackend(place);
    for (const [index, address] of listen.entries())
      vmalerts.push(await startVmalert({ rules, listen: address, shard: `${index}/2`, metricsUrl: engines.metricsUrl }));
    const operator = await login(place.apiUrl, "admin@localhost", FIRST_PASSWORD);
    tenant = await makeTenant(place.apiUrl, operator, "changes");
    await fillRules(engines.databaseUrl, ORGANISATIONS, RULES_OF_EACH);
  });
  afterAll(async () => {
    for (const vmalert of vmalerts) await vmalert[Symbol.asyncDispose]();
    await backend?.end();
    await engines?.[Symbol.asyncDispose]();
  });

  const loaded = async (address: string): Promise<string[]> => {
    const answer = await call("GET", `http://${address}/api/v1/rules`);
    return (answer.json?.data?.groups ?? []).map(({ name }: { name: string }) => name) as string[];
  };

  test("each organisation is assigned to one of them, and a change is effective in seconds", async () => {
    const create = (name: string) => {
      const rule = { name, severity: "critical", expr: "absent(no_such_series)", for: "0s" };
      return call("POST", `${place.alertingUrl}/rules`, { bearer: tenant.token, body: rule });
    };
    const first = await create("the first");
    expect(first.status, first.text).toBe(201);
    const all = await eventually(
      "all groups are loaded",
      async () => {
        const groups = await Promise.all(evaluators.map(loaded));
        return groups.flat().length >= ORGANISATIONS + 1 && groups;
      },
      DEADLINE_MS,
    );
    expect(new Set(all.flat()).size).toBe(ORGANISATIONS + 1);
    expect(all.flat()).toHaveLength(ORGANISATIONS + 1);
    for (const groups of all) expect(groups.length).toBeGreaterThan(ORGANISATIONS / 4);

    for (const name of ["a change", "another change"]) {
      const startedMs = performance.now();
      const made = await create(name);
      expect(made.status, made.text).toBe(201);
      await eventually(
        "the changed rule is evaluated",
        async () => {
          const status = await call("GET", `${place.alertingUrl}/rules/${made.json.id as string}/status`, { bearer: tenant.token });
          return status.json.state === "firing";
        },
        DEADLINE_MS,
      );
      console.log(`${ORGANISATIONS * RULES_OF_EACH} rules: a change is effective after ${Math.round(performance.now() - startedMs)} ms`);
    }
  });
});
