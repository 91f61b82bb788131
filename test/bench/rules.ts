// `npm run bench -- rules [--organisations 2000] [--rules 50] [--vmalerts 2] [--interval-s 600] [--changes 5]`: rules of many organisations
// divided between several vmalerts next to a backend on PostgreSQL. Prints how long the first load and a change take, CPU and memory of each
// program while loading, per change and in a minute without changes, and how many rules are at no vmalert or at two. Target: a change is in
// force within 5 s, and every rule is at exactly one.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { isInShard } from "../../backend/engines/vmalert/vmalert-shards.ts";
import { login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { type Used, usedByProgram } from "../fixtures/components.ts";
import { FIRST_PASSWORD, startDistributedEngines } from "../fixtures/distributed.ts";
import { report, summary } from "../fixtures/measure.ts";
import { call, eventually, freeAddresses } from "../fixtures/processes.ts";
import { fillRules } from "../fixtures/rules.ts";
import { RULES_PASSWORD, startVmalert } from "../fixtures/vmalert-outside.ts";

const { values } = parseArgs({
  options: {
    organisations: { type: "string", default: "2000" },
    rules: { type: "string", default: "50" },
    vmalerts: { type: "string", default: "2" },
    "interval-s": { type: "string", default: "600" },
    changes: { type: "string", default: "5" },
  },
});
const [organisations, rulesOfEach, count] = [Number(values.organisations), Number(values.rules), Number(values.vmalerts)];
const intervalS = Number(values["interval-s"]);
const total = organisations * rulesOfEach;
const DEADLINE_MS = 900_000;
const MEASURED_MS = 60_000;

await using stack = new AsyncDisposableStack();
const engines = stack.use(await startDistributedEngines());
const [rules = "", ...listen] = await freeAddresses(count + 1);
const urls = listen.map((address) => `http://${address}`).join(",");
const place = await engines.place("one", {
  RULES_LISTEN: rules,
  RULES_PASSWORD,
  EVALUATOR_QUERY_URL: urls,
  EVALUATION_INTERVAL: `${intervalS}s`,
});
const backend = stack.use(await startBackend(place));
const operator = await login(place.apiUrl, "admin@localhost", FIRST_PASSWORD);
const tenant = await makeTenant(place.apiUrl, operator, "changes");
const orgIds = await fillRules(engines.databaseUrl, organisations, rulesOfEach);

const table: Record<string, Record<string, string>> = {};
const cpuSince = (before: Map<string, Used>): Record<string, number> =>
  Object.fromEntries([...usedByProgram()].map(([name, { cpuMs }]) => [name, cpuMs - (before.get(name)?.cpuMs ?? 0)]));
const rowOf = (cpu: Record<string, number>, per: number, unit: string): Record<string, string> =>
  Object.fromEntries(Object.entries(cpu).map(([name, ms]) => [name, `${(ms / per).toFixed(1)} ${unit}`]));

async function metric(address: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${address}/metrics`)).text();
  return [...text.matchAll(new RegExp(`^${name}\\S* ([\\d.e+]+)$`, "gm"))].reduce((sum, [, value]) => sum + Number(value), 0);
}
const sumOf = async (name: string): Promise<number> =>
  (await Promise.all(listen.map((address) => metric(address, name)))).reduce((sum, value) => sum + value, 0);
/** At how many vmalerts each rule is. */
async function loaded(): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  for (const address of listen) {
    const answer = await call("GET", `http://${address}/api/v1/rules`);
    for (const { rules: found } of (answer.json?.data?.groups ?? []) as { rules: { labels: { rule_id: string } }[] }[])
      for (const { labels } of found) times.set(labels.rule_id, (times.get(labels.rule_id) ?? 0) + 1);
  }
  return times;
}

let before = usedByProgram();
let startedMs = performance.now();
for (const [index, address] of listen.entries())
  stack.use(
    await startVmalert({
      rules,
      listen: address,
      shard: `${index}/${count}`,
      metricsUrl: engines.metricsUrl,
      interval: `${intervalS}s`,
      checkInterval: "5m",
    }),
  );
// A vmalert has all groups or none.
for (const [index, address] of listen.entries()) {
  const own = orgIds.find((orgId) => isInShard(orgId, { index, count })) ?? "";
  const ask = () => call("GET", `http://${address}/api/v1/rules?rule_group[]=${own}&exclude_alerts=true`);
  await eventually("all groups are loaded", async () => (await ask()).text.includes(own), DEADLINE_MS);
}
table["first load"] = { result: `${(performance.now() - startedMs).toFixed(0)} ms`, ...rowOf(cpuSince(before), 1, "ms CPU") };
const times = [...(await loaded()).values()];
const notOnce = times.filter((found) => found !== 1).length + (total - times.length);

/** Until the vmalert of the organisation has it. */
async function change(name: string): Promise<number> {
  const began = performance.now();
  const rule = { name, severity: "critical", expr: "absent(no_such_series)", for: "0s" };
  const made = await call("POST", `${place.alertingUrl}/rules`, { bearer: tenant.token, body: rule });
  if (made.status !== 201) throw new Error(made.text);
  const query = new URLSearchParams({ "rule_group[]": tenant.orgId });
  await eventually(
    `${name} is loaded`,
    async () => {
      const found = await Promise.all(listen.map((address) => call("GET", `http://${address}/api/v1/rules?${query.toString()}`)));
      return found.some(({ text }) => text.includes(made.json.id as string));
    },
    DEADLINE_MS,
  );
  return performance.now() - began;
}

await change("the first");
before = usedByProgram();
const tookMs: number[] = [];
for (let number = 0; number < Number(values.changes); number += 1) tookMs.push(await change(`change ${number}`));
const { median, most } = summary(tookMs);
table["a change"] = {
  result: `${median.toFixed(0)} ms, at most ${most.toFixed(0)} ms`,
  ...rowOf(cpuSince(before), tookMs.length, "ms CPU"),
};

const evaluatedBefore = await sumOf("vmalert_execution_total");
before = usedByProgram();
startedMs = performance.now();
// Paces the measurement.
await sleep(MEASURED_MS);
table["a minute without changes"] = rowOf(cpuSince(before), MEASURED_MS / 60_000, "ms CPU");
const seconds = (performance.now() - startedMs) / 1000;
const evaluations = (await sumOf("vmalert_execution_total")) - evaluatedBefore;
table["resident"] = Object.fromEntries(
  [...usedByProgram()].map(([name, { residentMb, processes }]) => [name, `${residentMb.toFixed(0)} MB of ${processes}`]),
);
const missed = await sumOf("vmalert_iteration_missed_total");
table["evaluations per second"] = {
  result: `${(evaluations / seconds).toFixed(1)}; ${(total / intervalS).toFixed(1)} expected; ${missed} missed`,
};
table["rules not at exactly one vmalert"] = { result: String(notOnce) };
report("rules", { organisations, rulesOfEach, vmalerts: count, intervalS }, table);
await backend.end();
