import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { createLog } from "../log.ts";
import type { Guards } from "../http/request-identity.ts";
import { createApp } from "../http/app.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { addServiceRoutes } from "./mount.ts";
import { createRuleRoutes } from "./alert-rule-routes.ts";
import { RuleCheck } from "./rule-check.ts";
import { VictoriaMetricsStore } from "../storage/metrics/metric-store.ts";
import type { RuleBody } from "./alert-rule.ts";
import type { RuleTable } from "./alert-rule-table.ts";

const BODY: RuleBody = { name: "a", severity: "info", expr: "up == 0", for: "0s", enabled: true, labels: {}, annotations: {} };
const metrics = { query: async () => ({ status: 200, body: Buffer.from("{}"), contentType: "application/json", pieces: [] }) };

const intervalMs = 15_000;

/** A dry run whose results arrive when the test decides. */
function heldDryRun() {
  const asked: { orgId: string; answer: () => void }[] = [];
  return {
    asked,
    async check(group: { name: string }) {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      asked.push({ orgId: group.name, answer: () => resolve(undefined) });
      return await promise;
    },
  };
}

test("limits tests of rules in progress and queued per organisation, and drops those of a disconnected client", async () => {
  const dryRun = heldDryRun();
  const check = new RuleCheck({ metrics, dryRun, intervalMs });
  const client = new AbortController();
  const outcomes = Array.from(
    { length: 300 },
    async () =>
      await check.check("loud", BODY, client.signal).then(
        () => "tried",
        (error: Error & { code?: string; retryAfterS?: number }) => `${error.code ?? error.message} ${error.retryAfterS ?? ""}`.trim(),
      ),
  );
  const quiet = check.check("quiet", BODY);
  await expect.poll(() => dryRun.asked.map(({ orgId }) => orgId)).toEqual(["loud", "loud", "loud", "loud", "quiet"]);
  client.abort(new Error("left"));
  for (const { answer } of dryRun.asked) answer();
  expect(await quiet).toEqual({ rule: { ...BODY, forMs: 0 }, matching: 1 });
  const counts: Record<string, number> = {};
  for (const outcome of await Promise.all(outcomes)) counts[outcome] = (counts[outcome] ?? 0) + 1;
  expect(counts).toEqual({ left: 68, "unavailable 5": 232 });
  expect(dryRun.asked).toHaveLength(5);
});

test("returns a retryable error if there is no time to test a rule", async () => {
  const dryRun = { check: async () => await Promise.reject(new Error("vmalert -dryRun did not end by itself: timed out")) };
  const refused = { code: "unavailable", status: 503, retryAfterS: 2 };
  await expect(new RuleCheck({ metrics, dryRun, intervalMs }).check("org", BODY)).rejects.toMatchObject(refused);
});

test("rejects an objective whose recording rules the evaluator rejects", async () => {
  const dryRun = {
    check: async ({ rules }: { rules: readonly object[] }) => (rules.every((rule) => "record" in rule) ? "unknown function" : undefined),
  };
  const count = "increase(a[$window])";
  const body = { name: "a", objective: 99, window: "30d", indicator: { promql: { good: count, total: count } } } as const;
  const slo = { ...body, description: "", no_traffic: "ignore", alerts: false, labels: {} } as const;
  const refused = { code: "invalid_field", message: "indicator.promql: the evaluator rejects the rule: unknown function" };
  await expect(new RuleCheck({ metrics, dryRun, intervalMs }).checkSlo("org", slo)).rejects.toMatchObject(refused);
});

test("rejects a rule with the reason for which the metrics store rejects its expression", async () => {
  await using store = new VictoriaMetricsStore({ writeUrl: "http://127.0.0.1:1", queryUrl: "http://127.0.0.1:1" });
  const check = new RuleCheck({ metrics: store, dryRun: undefined, intervalMs });
  const refused = { code: "invalid_field", message: 'expr: does not take "on"; a metric of that name is {__name__=~"on"}' };
  await expect(check.check("org", { ...BODY, expr: 'foo > 0 and {"on"} > 0' })).rejects.toMatchObject(refused);
});

test("rejects a rule over logs that would be evaluated less often than twice in its window", async () => {
  const check = new RuleCheck({ metrics, dryRun: undefined, intervalMs: 60_000 });
  const logs = { filter: {}, window: "1m", by: [], operator: ">", threshold: 1 } as const;
  const { expr: _expr, ...body } = BODY;
  await expect(check.check("org", { ...body, logs })).rejects.toMatchObject({
    code: "invalid_field",
    message: expect.stringMatching(/^logs\.window: must be at least 120s: rules are evaluated every 60s, so/),
  });
  expect(await check.check("org", { ...body, logs: { ...logs, window: "2m" } })).toMatchObject({ matching: 0 });
});

test("a disconnecting client cancels the test of its rule", async () => {
  const dryRun = heldDryRun();
  const guards: Guards = {
    signed: () => async () => undefined,
    reader: () => async () => undefined,
    user: () => async (request) => void (request.user = { userId: "u", orgId: "org", email: "e", role: "admin", labelLimits: undefined }),
  };
  const app = await createApp({ log: createLog("silent") });
  await using evaluator = new VmalertClient("http://127.0.0.1:1");
  const seen: (AbortSignal | undefined)[] = [];
  const check = new RuleCheck({
    metrics: { query: async (_org, _endpoint, _params, options) => (seen.push(options?.signal), await metrics.query()) },
    dryRun,
    intervalMs,
  });
  const rules = {} as RuleTable;
  const responses = new ResponseBudget();
  addServiceRoutes(app, guards, createRuleRoutes({ rules, check, evaluator, metrics, responses, changed: () => undefined, intervalMs }));
  await app.listen({ host: "127.0.0.1", port: 0 });
  const client = new AbortController();
  const request = { method: "POST" as const, headers: { "content-type": "application/json" }, signal: client.signal };
  const { port } = app.server.address() as AddressInfo;
  const answer = fetch(`http://127.0.0.1:${port}/rules`, { ...request, body: JSON.stringify(BODY) });
  const outcome = answer.then(
    () => "answered",
    () => "gone",
  );
  await expect.poll(() => dryRun.asked).toHaveLength(1);
  expect(seen[0]?.aborted).toBe(false);
  client.abort();
  await expect.poll(() => seen[0]?.aborted).toBe(true);
  dryRun.asked[0]?.answer();
  expect(await outcome).toBe("gone");
  await app.close();
});
