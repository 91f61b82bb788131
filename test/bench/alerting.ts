// `npm run bench -- alerting [RULES] [TENANTS] [INTERVAL_MS]`: rules of many tenants on the real service, metrics engine and evaluator of
// this machine. Prints how long it takes to create a rule, until the evaluator has it, to ask for its status, and whether the groups
// are evaluated within their interval. Default: 5,000 rules over 100 tenants, every 15 s.
import type { AddressInfo } from "node:net";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { alertingApp } from "../fixtures/alerting-app.ts";

const [rules = 5000, tenants = 100, intervalMs = 15_000] = process.argv.slice(2).map(Number);
const CLIENTS = 8;
const SERIES = 20;

await using service = await alertingApp({ intervalMs });
await service.app.listen({ host: "127.0.0.1", port: 0 });
const url = `http://127.0.0.1:${(service.app.server.address() as AddressInfo).port}`;
const orgs: string[] = [];
for (let n = 0; n < tenants; n++) orgs.push(await service.makeOrg(`tenant-${n}`));
const samples = Array.from({ length: SERIES }, (_, n) => `requests_total{host="h${n}"} ${n * 10}`).join("\n");
for (const org of orgs) await service.push(org, samples);

interface Made {
  id: string;
  org: string;
}
const made: Made[] = [];
const table: [what: string, ...figures: string[]][] = [];

async function ask(method: string, path: string, org: string, body?: object): Promise<{ json: { id: string }; ms: number }> {
  const startedAt = performance.now();
  const headers = { authorization: `Bearer ${org}:admin`, ...(body && { "content-type": "application/json" }) };
  const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return { json: JSON.parse(text || "{}"), ms: performance.now() - startedAt };
}

/** Milliseconds until the evaluator shows the rule with this threshold in its expression. */
async function untilLoaded({ id, org }: Made, threshold: number): Promise<number> {
  const startedAt = performance.now();
  const query = new URLSearchParams({ "rule_group[]": org, "match[]": `{rule_id="${id}"}`, exclude_alerts: "true" });
  for (;;) {
    const text = await (await fetch(`${service.evaluator.url}/api/v1/rules?${query.toString()}`)).text();
    if (text.includes(`\\u003e ${threshold}"`)) return performance.now() - startedAt;
    await sleep(10);
  }
}

const ruleBody = (n: number, threshold: number): object => ({
  name: `rule ${n}`,
  severity: "warning",
  expr: `sum by (host) (rate(requests_total[5m])) + requests_total > ${threshold}`,
  for: "1m",
  annotations: { summary: "{{ $labels.host }} has {{ $value | humanize }}" },
});

async function inParallel(count: number, work: (n: number) => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return performance.now() - startedAt;
}

function row(what: string, values: number[], more = ""): void {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): string => `${(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1)} ms`;
  table.push([what, at(0.5), at(0.99), at(1), String(values.length), more]);
}

const creating: number[] = [];
const loading: Promise<number>[] = [];
const tookMs = await inParallel(rules, async (n) => {
  const org = orgs[n % tenants] ?? "";
  const { json, ms } = await ask("POST", "/rules", org, ruleBody(n, 100 + n));
  creating.push(ms);
  made.push({ id: json.id, org });
  if (n % 50 === 0) loading.push(untilLoaded({ id: json.id, org }, 100 + n));
});
row(`create (${CLIENTS} clients at once)`, creating, `${(rules / (tookMs / 1000)).toFixed(0)} rules/s`);
row("created → in the evaluator, meanwhile", await Promise.all(loading));

const alone: number[] = [];
const changes: number[] = [];
for (let n = 0; n < 30; n++) {
  const target = made[(n * 97) % made.length] ?? { id: "", org: "" };
  const { ms } = await ask("PUT", `/rules/${target.id}`, target.org, { ...ruleBody(n, 900_000 + n), name: `changed ${n}` });
  alone.push(ms);
  changes.push(await untilLoaded(target, 900_000 + n));
}
row("change one rule, one client", alone);
row(`changed → in the evaluator, ${rules} loaded`, changes);

const status = async (count: number): Promise<number[]> => {
  const times: number[] = [];
  await inParallel(count, async (n) => {
    const target = made[(n * 31) % made.length] ?? { id: "", org: "" };
    times.push((await ask("GET", `/rules/${target.id}/status`, target.org)).ms);
  });
  return times;
};
await status(200);
row(`status (${CLIENTS} clients at once)`, await status(4000));
const single: number[] = [];
for (let n = 0; n < 500; n++) {
  const target = made[(n * 31) % made.length] ?? { id: "", org: "" };
  single.push((await ask("GET", `/rules/${target.id}/status`, target.org)).ms);
}
row("status, one client", single);
const lists: number[] = [];
for (const org of orgs) lists.push((await ask("GET", "/rules", org)).ms);
row("list of one tenant", lists);

const evaluatorMetric = async (name: string): Promise<number[]> => {
  const text = await (await fetch(`${service.evaluator.url}/metrics`)).text();
  return [...text.matchAll(new RegExp(`^${name}\\S* ([\\d.e+-]+)$`, "gm"))].map((match) => Number(match[1]));
};
await sleep(intervalMs * 2);
const missedBefore = (await evaluatorMetric("vmalert_iteration_missed_total")).reduce((sum, one) => sum + one, 0);
await sleep(intervalMs * 3);
const missed = (await evaluatorMetric("vmalert_iteration_missed_total")).reduce((sum, one) => sum + one, 0) - missedBefore;
const durations = await evaluatorMetric('vmalert_iteration_duration_seconds\\{[^}]*quantile="0.99"');
row(
  `evaluation of one group, its p99 (interval ${intervalMs / 1000} s)`,
  durations.map((seconds) => seconds * 1000),
  `${missed} missed in 3 intervals`,
);
const errors = (await evaluatorMetric("vmalert_config_last_reload_errors_total"))[0];

console.log(
  `\n${rules} rules over ${tenants} tenants, ${cpus().length} cores (${cpus()[0]?.model ?? "?"}), Node ${process.version}; refused reloads: ${errors}\n`,
);
const header = ["", "p50", "p99", "max", "n", ""];
const widths = header.map((_, column) => Math.max(...[header, ...table].map((cells) => (cells[column] ?? "").length)));
for (const cells of [header, ...table])
  console.log(cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join("  "));
