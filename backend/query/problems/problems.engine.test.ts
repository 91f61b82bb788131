// GET /query/problems over real engines: a crash loop, a full disk, a firing alert, a silent agent, expiring tokens and a service that got
// worse, in their order, and a quiet organisation.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openChangesApp } from "../../../test/fixtures/changes-app.ts";
import { generate, MINUTES } from "../../../test/fixtures/incident-world.ts";
import { INCIDENT_CASES } from "../../../test/fixtures/incidents.ts";
import type { ProblemTables } from "./account-problems.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const [ORG, QUIET] = [randomUUID(), randomUUID()];
let app: Awaited<ReturnType<typeof openChangesApp>>;
let nowMs: number;

interface Problem {
  readonly kind: string;
  readonly severity: string;
  readonly title: string;
  readonly detail?: string;
  readonly since?: string;
  readonly action: string;
  readonly link: string;
}

interface Answer {
  readonly problems: Problem[];
  readonly totals: Record<string, { total: number; with_problem: number }>;
  readonly changes: { title: string }[];
  readonly missing: string[];
}

async function ask(orgId: string, query = ""): Promise<Answer> {
  const answer = await app.get(orgId, `/query/problems${query}`, "viewer");
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<Answer>();
}

async function send(orgId: string, lines: readonly string[], hostId = "h"): Promise<void> {
  await app.metrics.write({ orgId, hostId, node: "n" }, Buffer.from(lines.map((line) => `${line}\n`).join("")), Date.now() - 5000);
}

const pod = (name: string): string => `k8s_cluster_name="north",k8s_namespace_name="shop",k8s_pod_name="${name}"`;
const CRASH_LOOP = ["catalog-7f9c4d5b6-x2k7q", "catalog-7f9c4d5b6-m9wzt"].flatMap((name) => [
  `k8s_pod_phase{${pod(name)}} 2`,
  `k8s_container_ready{${pod(name)},k8s_container_name="app"} 0`,
  `k8s_container_restarts{${pod(name)},k8s_container_name="app",k8s_container_status_last_terminated_reason="OOMKilled"} 6`,
  `k8s_container_status_reason{${pod(name)},k8s_container_name="app",k8s_container_status_reason="CrashLoopBackOff"} 1`,
  `k8s_pod_memory_working_set_bytes{${pod(name)},k8s_deployment_name="catalog"} 5`,
]);

beforeAll(async () => {
  app = await openChangesApp();
  nowMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  const [incident] = INCIDENT_CASES;
  if (!incident) throw new Error("no incident");
  for (const orgId of [ORG, QUIET]) await app.addOrg(orgId);
  await app.send(ORG, generate(incident, 1, nowMs - MINUTES * MINUTE_MS), nowMs - MINUTES * MINUTE_MS);
  const alert = `alertname="Queue is long",rule_id="r1",severity="critical",queue="orders"`;
  await send(ORG, [
    ...CRASH_LOOP,
    `k8s_pod_phase{${pod("cart-0")}} 2`,
    `k8s_node_condition_ready{k8s_cluster_name="north",k8s_node_name="worker-1"} 1`,
    `system_filesystem_usage_bytes{host_id="h1",node="db-1",mountpoint="/data",state="used"} 97`,
    `system_filesystem_usage_bytes{host_id="h1",node="db-1",mountpoint="/data",state="free"} 3`,
    `ALERTS{${alert},alertstate="firing"} 1`,
    ...[14.4, 6].map(
      (rate) =>
        `ALERTS{alertname="SLO x",rule_id="r${rate}",severity="critical",slo="x",slo_id="o1",burn_rate="${rate}",alertstate="firing"} 1`,
    ),
    `slo:error_budget_remaining{slo="z",slo_id="forged by a sender"} -9`,
    `ALERTS_FOR_STATE{${alert}} ${Math.floor(nowMs / 1000) - 600}`,
    // Senders can write any value.
    `ALERTS{alertname="SLO z",severity="warning",slo="z",slo_id="o4",burn_rate="1",alertstate="firing"} 1`,
    `ALERTS_FOR_STATE{alertname="SLO z",severity="warning",slo="z",slo_id="o4",burn_rate="1"} 1e300`,
  ]);
  const budgets = Object.entries({ x: ["o1", 0.31], y: ["o2", -0.2], z: ["o3", 0.9] });
  await send(
    ORG,
    budgets.map(([slo, [id, left]]) => `slo:error_budget_remaining{slo="${slo}",slo_id="${id}"} ${left}`),
    "slo",
  );
  await app.flush();
  const db = app.db.withTables<ProblemTables>();
  const host = { org_id: ORG, machine_id: "m", agent_version: "1", created_at: new Date(nowMs), collector: null };
  const [silent, online] = [new Date(nowMs - 3_600_000), new Date(nowMs)];
  for (const [hostname, at] of [
    ["db-1", silent],
    ["db-2", online],
  ] as const)
    await db
      .insertInto("hosts")
      .values({
        ...host,
        id: randomUUID(),
        machine_id: hostname,
        hostname,
        last_heartbeat: at,
        config_in_force: null,
        config_error: null,
      })
      .execute();
  const oldKey = { org_id: ORG, ciphertext: "", master_key_id: "", created_at: new Date(nowMs - 90 * DAY_MS) };
  for (const [kind, node] of [
    ["cluster", "north"],
    ["host", "db-1"],
  ] as const)
    await db
      .insertInto("api_keys")
      .values({ ...oldKey, id: randomUUID(), owner_id: randomUUID(), key_hash: node, kind, node })
      .execute();
  const token = { org_id: ORG, created_by: "a@shop.example", created_at: new Date(nowMs) };
  for (const [name, days] of [
    ["grafana", 3],
    ["ci", 80],
  ] as const)
    await db
      .insertInto("read_tokens")
      .values({ ...token, id: randomUUID(), name, expires_at: new Date(nowMs + days * DAY_MS) })
      .execute();
}, 120_000);
afterAll(async () => await app?.[Symbol.asyncDispose]());

test("lists what is wrong with cause, start and next screen, most important first", async () => {
  const { problems, totals, changes, missing } = await ask(ORG);
  expect(missing).toEqual([]);
  const found = (kind: string): Problem[] => problems.filter((problem) => problem.kind === kind);
  expect(found("pod")).toMatchObject([
    {
      title: "2 pods of deployment shop/catalog are in state CrashLoopBackOff",
      detail: expect.stringContaining("last ended with OOMKilled; 6 restarts"),
      action: "Last lines",
      link: expect.stringContaining("restart_count"),
    },
  ]);
  expect(found("disk")).toMatchObject([{ title: "file system /data of n is 97 % full", link: "#/entity/n?kind=host&host=h" }]);
  expect(found("alert")).toMatchObject([
    {
      title: "alert Queue is long is firing",
      detail: expect.stringContaining("queue=orders"),
      since: new Date((Math.floor(nowMs / 1000) - 600) * 1000).toISOString(),
      link: expect.stringMatching(/^#\/alerts\/r1\?.*label=queue%3Dorders&at=/),
    },
  ]);
  expect(found("slo")).toMatchObject([
    { title: "objective x uses its error budget too fast: burn rate above 14.4", detail: "31 % of the budget left", link: "#/slos/o1" },
    { title: "the error budget of objective y is used up", link: "#/slos/o2" },
    { title: "objective z uses its error budget too fast: burn rate above 1" },
  ]);
  expect(found("agent")).toMatchObject([{ title: "the agent of db-1 is silent", since: new Date(nowMs - 3_600_000).toISOString() }]);
  expect(found("credential").map(({ title }) => title)).toEqual([
    "read token grafana expires in 3 days",
    // Agents of hosts do not renew their keys.
    "the key of cluster north was not renewed for 90 days",
  ]);
  const [service] = found("service");
  expect(service?.detail).toMatch(/version/);
  expect(service?.since).toBeDefined();
  expect(totals).toEqual({
    // Those of the incident are counted only if their last minute has just ended.
    pods: { total: expect.toSatisfy((total: number) => total === 3 || total === 3 + 10), with_problem: 2 },
    nodes: { total: expect.any(Number), with_problem: 0 },
    agents: { total: 2, with_problem: 1 },
  });
  expect(changes.length).toBeGreaterThan(0);
  const severities = problems.map(({ severity }) => severity);
  expect(severities).toEqual([
    ...severities.filter((severity) => severity === "critical"),
    ...severities.filter((severity) => severity !== "critical"),
  ]);
  const titles = problems.map(({ title }) => title);
  expect(titles.findIndex((title) => title.includes("CrashLoopBackOff"))).toBeLessThan(
    titles.findIndex((title) => title.includes("expires")),
  );
  expect((await ask(ORG, "?limit=1")).problems).toHaveLength(1);
});

test("an organisation without data has no problems, and no data of another", async () => {
  expect(await ask(QUIET)).toMatchObject({ problems: [], missing: [], totals: { pods: { total: 0 }, agents: { total: 0 } } });
});

test("a read token reads no agents and no names of tokens", async () => {
  const answer = (await app.get(ORG, "/query/problems", "token")).json<Answer>();
  expect(answer.missing).toEqual(["agents and credentials (only for users)"]);
  const kinds = answer.problems.map(({ kind }) => kind);
  expect([kinds.includes("pod"), kinds.includes("agent"), kinds.includes("credential")]).toEqual([true, false, false]);
});

test("compares an organisation's last hour once a minute, and reads its state each time", async () => {
  const query = vi.spyOn(app.metrics, "query");
  await ask(ORG);
  expect(query).toHaveBeenCalledTimes(2);
  query.mockRestore();
});

test("names a part that cannot be read, and lists the other problems", async () => {
  const query = vi.spyOn(app.metrics, "query").mockRejectedValue(new Error("away"));
  const { problems, missing } = await ask(ORG);
  query.mockRestore();
  expect(missing).toEqual(["Kubernetes", "metrics"]);
  expect(problems.map(({ kind }) => kind)).toContain("agent");
});
