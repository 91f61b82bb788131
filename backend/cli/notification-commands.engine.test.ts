// `atherops channels`, `routes`, `silences`, `deliveries` and `alerts`, and the same resources in files, as administrators use them: over
// HTTP, with the real tables. Receivers of channels are tested elsewhere.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp, type Org } from "../../test/fixtures/accounts-app.ts";
import { relationalEngines, type OpenedEngine } from "../../test/fixtures/postgres.ts";
import { RuleCheck } from "../alerting/rule-check.ts";
import { addRoutesToApi } from "../alerting/mount.ts";
import { createRuleRoutes } from "../alerting/alert-rule-routes.ts";
import { type AlertingTables, RuleTable } from "../alerting/alert-rule-table.ts";
import { callerOf, type Guards } from "../http/request-identity.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { createNotificationRoutes } from "../notification/api/notification-routes.ts";
import type { NotificationTables } from "../notification/model/notification-tables.ts";
import { type Ran, runClient } from "./run-client.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-notification-"));
const evaluator = new VmalertClient("http://127.0.0.1:1");
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
let org: Org;
let url: string;
/** The requests that created or changed a channel. */
let written: { method: string; body: Record<string, unknown> }[] = [];

const db = () => (opened as OpenedEngine).database.tables<NotificationTables>();

beforeAll(async () => {
  opened = await relationalEngines[0]?.open();
  if (!opened) throw new Error("no engine");
  const metrics = { query: async () => ({ status: 200, body: Buffer.from("{}"), contentType: "application/json", pieces: [] }) };
  backend = await accountsApp(opened.database, {
    clock: { ms: Date.now() },
    routes: (app, guards) => {
      const rules = new RuleTable((opened as OpenedEngine).database.tables<AlertingTables>());
      const check = new RuleCheck({ metrics, dryRun: undefined, intervalMs: 15_000 });
      const responses = new ResponseBudget();
      const ruleRoutes = createRuleRoutes({ rules, check, evaluator, metrics, responses, changed: () => undefined, intervalMs: 1000 });
      addRoutesToApi(app, guards, [...ruleRoutes, ...createNotificationRoutes({ db: db(), responses })]);
      void app.register(async (scope) => registerChannels(scope, guards), { prefix: "/alerting" });
    },
  });
  url = await backend.app.listen({ host: "127.0.0.1", port: 0 });
  org = await makeOrg(backend, "shop");
  expect((await atherops(`login --email ${org.email}`, org.password)).code).toBe(0);
});
beforeEach(async () => {
  written = [];
  for (const table of ["routes", "silences", "notification_settings", "deliveries", "alerts", "channels"] as const)
    await db().deleteFrom(table).execute();
});
afterAll(async () => {
  await evaluator[Symbol.asyncDispose]();
  await backend?.[Symbol.asyncDispose]();
  await opened?.end();
  rmSync(folder, { recursive: true, force: true });
});

/** A stand-in for the backend's channels: like the backend, it does not return the secret of a Slack channel. */
function registerChannels(scope: FastifyInstance, guards: Guards): void {
  const onRequest = guards.user("admin");
  scope.get("/channels", { onRequest }, async (request) => {
    const rows = await db().selectFrom("channels").selectAll().where("org_id", "=", callerOf(request).orgId).execute();
    return rows.map(({ id, name, kind, settings, enabled }) => ({ id, name, kind, settings, enabled, heartbeat: null }));
  });
  type Body = { name: string; kind: "slack" | "webhook"; settings: Record<string, unknown>; enabled?: boolean };
  const columns = ({ name, kind, settings, enabled = true }: Body) => ({
    name,
    kind,
    enabled,
    settings: JSON.stringify(kind === "slack" ? { ...settings, url: undefined } : settings),
  });
  scope.post<{ Body: Body }>("/channels", { onRequest }, async (request, reply) => {
    written.push({ method: "POST", body: { ...request.body } });
    const row = { id: randomUUID(), org_id: callerOf(request).orgId, secret: "x", master_key_id: "x", created_at: new Date() };
    await db()
      .insertInto("channels")
      .values({ ...row, ...columns(request.body) })
      .execute();
    return await reply.code(201).send({ id: row.id, ...(request.body.kind === "webhook" && { signing_secret: "whsec_abc" }) });
  });
  scope.put<{ Body: Body; Params: { id: string } }>("/channels/:id", { onRequest }, async (request) => {
    written.push({ method: "PUT", body: { ...request.body } });
    await db().updateTable("channels").set(columns(request.body)).where("id", "=", request.params.id).execute();
    return {};
  });
  scope.delete<{ Params: { id: string } }>("/channels/:id", { onRequest }, async (request, reply) => {
    await db().deleteFrom("channels").where("id", "=", request.params.id).execute();
    return await reply.code(204).send();
  });
}

async function atherops(args: string | readonly string[], input = ""): Promise<Ran> {
  return await runClient(args, { url, sessionFile: join(folder, "session.json"), input });
}

const rowsOf = async (command: string): Promise<Record<string, unknown>[]> => JSON.parse((await atherops(`--json ${command}`)).out);

test("`channels create` reads a secret from a file, or prints the signing secret", async () => {
  const made = await atherops("channels create bot --kind webhook --endpoint https://bot.example/x");
  expect([made.out, made.err]).toEqual(["whsec_abc\n", "channel bot created; its signing secret is not shown again\n"]);
  const file = join(folder, "slack-url");
  writeFileSync(file, "https://hooks.slack.com/services/x\n");
  expect((await atherops(`channels create team --kind slack --url-file ${file}`)).code).toBe(0);
  expect(written[1]?.body).toMatchObject({ kind: "slack", settings: { url: "https://hooks.slack.com/services/x" } });
  writeFileSync(join(folder, "key"), "0-key-of-opsgenie-0\n");
  expect((await atherops(`channels create ops --kind opsgenie --api-key-file ${join(folder, "key")} --region jsm`)).code).toBe(0);
  expect(written.pop()?.body["settings"]).toEqual({ api_key: "0-key-of-opsgenie-0", region: "jsm" });
  expect((await atherops("channels remove ops")).code).toBe(0);
  writeFileSync(join(folder, "text"), "{{ status }}\n");
  const own = ["--title", "{{ labels.team }}", "--text-file", join(folder, "text")];
  expect((await atherops(["channels", "create", "own", "--kind", "slack", "--url-file", file, ...own])).code).toBe(0);
  expect(written[2]?.body["settings"]).toMatchObject({ title: "{{ labels.team }}", text: "{{ status }}" });
  expect((await atherops("channels remove own")).code).toBe(0);
  expect((await atherops("channels create team --kind slack --url-file /nope")).err).toBe("atherops: /nope: cannot be read: ENOENT\n");
  expect((await atherops("channels disable bot")).err).toBe("channel bot disabled\n");
  expect(await rowsOf("channels")).toMatchObject([{ name: "bot", enabled: false }, { name: "team" }]);
  expect((await atherops("channels remove bot")).err).toBe("channel bot removed\n");
  expect((await atherops("channels remove bot")).err).toContain("channel bot not found: `atherops channels` lists all");
});

test.each([
  ["webhook", "--endpoint: is missing"],
  ["slack", "--url-file: is missing"],
  ["msteams", "--url-file: is missing"],
  ["pagerduty", "--routing-key-file: is missing"],
  ["opsgenie", "--api-key-file: is missing"],
  ["email", "--to: is missing"],
])("names the missing option for a channel of the kind %s", async (kind, words) => {
  const refused = await atherops(`channels create x --kind ${kind}`);
  expect([refused.code, refused.err, written]).toEqual([2, expect.stringContaining(words), []]);
});

test("`routes` adds, moves, changes and removes routes by position", async () => {
  await atherops("channels create bot --kind webhook --endpoint https://bot.example/x");
  expect((await atherops("routes add --match severity=info --channel bot")).err).toBe("route 1 added\n");
  const critical = 'routes add --match severity="critical" --match team=~a|b --group-by team,severity --position 1'.split(" ");
  expect((await atherops([...critical, "--continue", "--repeat", "1d"])).err).toBe("route 1 added\n");
  expect((await atherops("routes update 2 --wait 1m")).err).toBe("route 2 changed\n");
  expect((await atherops("routes update default --channel bot")).err).toBe("route default changed\n");
  const { out } = await atherops("routes");
  expect(out.split("\n").map((line) => line.split(/ {2,}/).slice(0, 8))).toEqual([
    ["ROUTE", "MATCHERS", "CHANNELS", "GROUP_BY", "GROUP_WAIT", "GROUP_INTERVAL", "REPEAT_INTERVAL", "CONTINUE"],
    ["1", 'severity="critical", team=~"a|b"', "-", "team, severity", "30s", "5m", "1d", "true"],
    ["2", 'severity="info"', "bot", "alertname", "1m", "5m", "4h", "false"],
    ["default", "-", "bot", "alertname", "30s", "5m", "4h", "false"],
    [""],
  ]);
  expect(await rowsOf("routes test severity=info team=other")).toMatchObject([{ route: "2", channels: ["bot"] }]);
  expect(await rowsOf("routes test severity=none")).toMatchObject([{ route: "default" }]);
  expect((await atherops("routes test severity")).err).toContain("severity is no label: write name=value");
  expect((await atherops("routes remove 1")).code).toBe(0);
  expect(await rowsOf("routes")).toMatchObject([{ route: "1", matchers: ['severity="info"'] }, { route: "default" }]);
  expect((await atherops("routes add --channel missing")).err).toContain("channel missing not found");
  const [{ id: botId } = {}] = await rowsOf("channels");
  expect((await atherops(`routes update default --channel ${String(botId)}`)).err).toBe("route default changed\n");
  expect((await atherops(["routes", "update", "1", "--match", ""])).err).toBe("route 1 changed\n");
  expect(await rowsOf("routes")).toMatchObject([{ route: "1", matchers: [] }, { route: "default" }]);
  expect((await atherops(["routes", "add", "--match", "", "--channel", "bot"])).code).toBe(2);
  expect((await atherops("routes update 1")).err).toContain("nothing to change: see `atherops routes update --help` for the options");
  expect((await atherops("routes add")).err).toContain("--match and --channel are missing");
  expect((await atherops("routes add --match nonsense")).err).toContain("--match: nonsense is no matcher: write severity=");
});

test("`silences` adds a silence with a reason and an end, lists it, and ends it", async () => {
  const made = await atherops(["silences", "add", "alertname=Down", 'instance=~"db-.*"', "--for", "4h", "--comment", "being repaired"]);
  expect(made.err).toMatch(/^silenced until \d{4}-.*Z: alertname="Down", instance=~"db-\.\*"\n$/);
  const [silence] = await rowsOf("silences");
  expect(silence).toMatchObject({ createdBy: org.email, comment: "being repaired", status: { state: "active" } });
  expect(Date.parse(String(silence?.["endsAt"])) - Date.parse(String(silence?.["startsAt"]))).toBeGreaterThan(3.9 * 3600_000);
  expect((await atherops("silences")).out).toContain('active  alertname="Down", instance=~"db-.*"');
  expect((await atherops(`silences remove ${made.out.trim()}`)).code).toBe(0);
  expect([await rowsOf("silences"), (await rowsOf("silences --all")).length]).toEqual([[], 1]);
  expect((await atherops("silences add a=b --comment x --for ever")).err).toContain("--for ever: write it as 30m, 2h or 7d, at most 366d");
  expect((await atherops("silences add a=b")).code).toBe(2);
});

test("`alerts` and `deliveries` print names of channels, without terminal control sequences", async () => {
  await atherops("channels create bot --kind webhook --endpoint https://bot.example/x");
  await atherops("routes add --match severity=critical --channel bot");
  const [channel] = await rowsOf("channels");
  const common = { org_id: org.orgId, bytes: 9, starts_at: new Date(), ends_at: null, updated_at: new Date(), annotations: "{}" };
  for (const [fingerprint, labels] of Object.entries({
    "1": { alertname: "Down\u001b[2J", severity: "critical" },
    "2": { alertname: "Slow" },
  }))
    await db()
      .insertInto("alerts")
      .values({ ...common, fingerprint, rule_id: randomUUID(), labels: JSON.stringify(labels), expires_at: new Date(Date.now() + 60_000) })
      .execute();
  expect((await atherops("alerts severity=critical")).out).toMatch(/\nDown\\u001b\[2J +critical +active +\S+Z +bot +\{\}\n$/);
  expect((await atherops("alerts --channel missing")).err).toContain("channel missing not found");
  expect((await atherops("alerts --channel bot")).out.trim().split("\n")).toHaveLength(2);
  expect((await atherops("alerts")).out.trim().split("\n")).toHaveLength(3);
  expect((await atherops("alerts --silenced")).out).toBe("none\n");
  await atherops("silences add alertname=Slow --for 1h --comment x");
  const file = join(folder, "inhibit.yaml");
  writeFileSync(file, "inhibit_rules: [{name: slow, source_matchers: [alertname=Slow], target_matchers: [severity=critical]}]\n");
  expect((await atherops(`apply -f ${file}`)).code).toBe(0);
  expect((await rowsOf("alerts --silenced")).map(({ labels }) => labels)).toEqual([{ alertname: "Slow" }]);
  const row = { id: randomUUID(), org_id: org.orgId, channel_id: String(channel?.["id"]), group_key: "k", rule_ids: "[]", message: null };
  const outcome = { status: "failed" as const, attempts: 7, http_status: 500, error: "it said 500", next_at: new Date() };
  await db()
    .insertInto("deliveries")
    .values({ ...row, ...outcome, created_at: new Date() })
    .execute();
  expect((await atherops("deliveries --status failed --channel bot")).out).toMatch(/Z +bot +failed +7 +500 +it said 500 /);
  expect((await atherops("deliveries --status delivered")).out).toBe("none\n");
});

const FILE = `
channels:
  - {name: bot, kind: webhook, settings: {url: "https://bot.example/x"}}
  - {name: team, kind: slack, settings: {url_file: SECRET, title: "{{ labels.team }}: {{ count }}", text: "{{ status }}"}}
routes:
  - matchers: [severity=critical, 'team=~"a|b"']
    channels: [bot, team]
    group_wait: 60s
  - {default: true, channels: [team]}
rules:
  - {name: Down, severity: critical, expr: up == 0}
silences:
  - {matchers: ['alertname="Down"'], ends_at: END, comment: repaired}
  - {matchers: [a=b], ends_at: "2026-01-01T00:00:00Z", comment: over}
`;

test("`apply` creates the channels, routes, silences and rules of a file once, and `export` prints a file that changes nothing", async () => {
  writeFileSync(join(folder, "secret"), "https://hooks.slack.com/services/x\n");
  const yaml = FILE.replace("SECRET", join(folder, "secret")).replace("END", new Date(Date.now() + 3600_000).toISOString());
  const dry = await atherops("apply -f - --dry-run", yaml);
  expect([dry.code, written]).toEqual([0, []]);
  expect(dry.out.split("\n").slice(0, 4)).toEqual([
    "channel bot would be created",
    "channel team would be created",
    "route 1 would be created",
    "route default would change",
  ]);
  const applied = await atherops("apply -f -", yaml);
  expect(applied).toMatchObject({ code: 0, err: "5 created, 1 changed, 0 removed, 1 unchanged\n" });
  expect(applied.out).toContain("channel bot created\n  signing secret, not shown again: whsec_abc\n");
  expect(written[1]?.body["settings"]).toEqual({
    url: "https://hooks.slack.com/services/x",
    title: "{{ labels.team }}: {{ count }}",
    text: "{{ status }}",
  });
  const again = await atherops("apply -f - --prune", yaml);
  expect(again).toMatchObject({ code: 0, err: "0 created, 0 changed, 0 removed, 7 unchanged\n" });
  const { out } = await atherops("export");
  expect(out).not.toContain("hooks.slack.com");
  expect(await atherops("apply -f - --prune", out)).toMatchObject({ code: 0, err: "0 created, 0 changed, 0 removed, 6 unchanged\n" });
  const common = yaml.replace(', text: "{{ status }}"', "");
  expect(await atherops("apply -f -", common)).toMatchObject({ code: 0, err: "0 created, 1 changed, 0 removed, 6 unchanged\n" });
  expect((await atherops("export")).out).not.toContain("status }}");
});

const INTERVALS = `
time_intervals:
  - name: nights
    time_intervals: [{times: [{start_time: "22:00", end_time: "24:00"}], weekdays: ["monday:friday"]}]
routes:
  - {matchers: [severity=warning], mute_time_intervals: [nights]}
inhibit_rules:
  - {name: cluster down, source_matchers: [alertname=ClusterDown], target_matchers: ['alertname=~"Node.*"'], equal: [cluster]}
`;

test("`apply` creates time intervals before the routes that name them, and inhibition rules, once, and `export` prints a file that changes nothing", async () => {
  const applied = await atherops("apply -f -", INTERVALS);
  expect(applied).toMatchObject({ code: 0, err: "3 created, 0 changed, 0 removed, 0 unchanged\n" });
  const exported = await atherops("export time_intervals routes inhibit_rules");
  expect(exported.out).toContain("mute_time_intervals:\n      - nights");
  for (const yaml of [INTERVALS, exported.out])
    expect(await atherops("apply -f -", yaml)).toMatchObject({ code: 0, err: expect.stringMatching(/^0 created, 0 changed, 0 removed/) });
  const changed = await atherops("apply -f -", INTERVALS.replace("equal: [cluster]", "equal: []"));
  expect(changed.out).toContain('inhibition rule cluster down changed\n  equal: ["cluster"] -> []\n');
  const unknown = await atherops("apply -f -", "routes: [{matchers: [a=b], mute_time_intervals: [days]}]");
  expect(unknown).toMatchObject({
    code: 1,
    err: expect.stringContaining("mute_time_intervals[0]: not a time interval of this organisation"),
  });
});

test("`apply` replaces all routes except the default with those of a file, whose channels must exist", async () => {
  await atherops("channels create bot --kind webhook --endpoint https://bot.example/x");
  for (const severity of ["info", "critical"]) await atherops(`routes add --match severity=${severity} --channel bot`);
  const applied = await atherops("apply -f -", "routes: [{matchers: [severity=critical], channels: [bot]}]");
  expect(applied.out).toBe('route 1 changed\n  matchers: ["severity=\\"info\\""] -> ["severity=\\"critical\\""]\nroute 2 removed\n');
  expect((await rowsOf("routes")).map(({ route }) => route)).toEqual(["1", "default"]);
  const unknown = await atherops("apply -f -", "routes: [{matchers: [severity=critical], channels: [missing]}]");
  expect(unknown).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringContaining("route 1: channel missing not found"),
  });
});
