// Routes, silences, deliveries and Alertmanager's API with the real tables, in both stores: creating and changing them, roles, limits. That
// no organisation sees or changes another's: test/contract/isolation.test.ts.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp, type Org } from "../../../test/fixtures/accounts-app.ts";
import { relationalEngines, type OpenedEngine } from "../../../test/fixtures/postgres.ts";
import { addRoutes } from "../../http/route.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { createNotificationRoutes } from "./notification-routes.ts";
import type { NotificationTables } from "../model/notification-tables.ts";

const V2 = "/alertmanager/api/v2";
const START = Date.parse("2026-11-22T09:00:00Z");
const at = (seconds: number): string => new Date(START + seconds * 1000).toISOString();

describe.each(relationalEngines.filter(({ available }) => available))("$name", (engine) => {
  let opened: OpenedEngine;
  let backend: AccountsApp;
  let red: Org;
  let blue: Org;
  let viewer: string;

  beforeAll(async () => {
    opened = await engine.open();
    const { database } = opened;
    const clock = { ms: START };
    backend = await accountsApp(database, {
      clock,
      routes: (app, guards) => {
        const responses = new ResponseBudget();
        addRoutes(app, guards, createNotificationRoutes({ db: database.tables(), responses, nowMs: () => clock.ms, pageRows: 2 }));
      },
    });
    [red, blue] = [await makeOrg(backend, "red"), await makeOrg(backend, "blue")];
    await backend.call("POST", "/api/users", {
      bearer: red.token,
      body: { email: "viewer@red.example", password: "a password of a viewer", role: "viewer" },
    });
    viewer = await backend.login("viewer@red.example", "a password of a viewer");
  });
  afterAll(async () => {
    await backend?.[Symbol.asyncDispose]();
    await opened?.end();
  });

  const db = () => opened.database.tables<NotificationTables>();
  const call = async (method: string, url: string, body?: object, bearer: string = red.token) => {
    const answer = await backend.call(method, url, { bearer, ...(body && { body }) });
    return { status: answer.statusCode, json: answer.body === "" ? undefined : answer.json(), link: answer.headers["link"] };
  };
  /** What there is of routes. */
  const routes = async (bearer?: string) => (await call("GET", "/routes", undefined, bearer)).json as Record<string, unknown>[];
  const only = (severity: string, more: object = {}) => ({ matchers: [{ label: "severity", op: "=", value: severity }], ...more });
  const dueAt = async (org: Org) =>
    (await db().selectFrom("notification_turns").select("due_at").where("org_id", "=", org.orgId).executeTakeFirst())?.due_at;

  async function channel(org: Org, name: string, enabled = true): Promise<string> {
    const id = randomUUID();
    const rest = { secret: "x", master_key_id: "x", enabled, created_at: new Date(START), settings: "{}" };
    await db()
      .insertInto("channels")
      .values({ id, org_id: org.orgId, name, kind: "webhook", ...rest })
      .execute();
    return id;
  }

  async function alert(org: Org, fingerprint: string, labels: Record<string, string>, endsAt: Date | null = null): Promise<void> {
    const times = { starts_at: new Date(START), ends_at: endsAt, expires_at: new Date(START + 3600_000), updated_at: new Date(START) };
    const row = { org_id: org.orgId, fingerprint, rule_id: randomUUID(), bytes: 100, ...times };
    await db()
      .insertInto("alerts")
      .values({ ...row, labels: JSON.stringify(labels), annotations: JSON.stringify({ summary: fingerprint }) })
      .execute();
  }

  async function emptied(org: Org): Promise<void> {
    for (const table of ["routes", "silences", "notification_settings", "deliveries", "alerts", "channels", "notification_turns"] as const)
      await db().deleteFrom(table).where("org_id", "=", org.orgId).execute();
  }

  describe("inhibition rules and time intervals", () => {
    const inhibitRule = {
      name: "cluster down",
      source_matchers: [{ label: "alertname", op: "=", value: "ClusterDown" }],
      target_matchers: [{ label: "alertname", op: "=~", value: "Node.*" }],
      equal: ["cluster"],
    };
    const weekend = { name: "weekend", time_intervals: [{ weekdays: ["saturday", "sunday"], location: "Europe/Berlin" }] };

    test("are created, replaced, listed by name and deleted; a viewer only reads them, and another organisation has its own", async () => {
      await emptied(red);
      for (const [path, body, changed] of [
        ["/inhibit-rules", inhibitRule, { ...inhibitRule, equal: [] }],
        ["/time-intervals", weekend, { ...weekend, time_intervals: [{ weekdays: ["sunday"] }] }],
      ] as const) {
        const created = await call("POST", path, body);
        expect(created).toMatchObject({ status: 201, json: { ...body, created_at: at(0) } });
        expect(await call("POST", path, body)).toMatchObject({ status: 409, json: { error: "conflict" } });
        const { id } = created.json;
        expect(await call("PUT", `${path}/${id}`, changed)).toMatchObject({ status: 200, json: { id, ...changed } });
        expect((await call("GET", path, undefined, viewer)).json).toEqual([{ id, ...changed, created_at: at(0) }]);
        expect((await call("GET", path, undefined, blue.token)).json).toEqual([]);
        expect(await call("PUT", `${path}/${id}`, changed, viewer)).toMatchObject({ status: 403 });
        expect(await call("PUT", `${path}/${id}`, changed, blue.token)).toMatchObject({ status: 404 });
        expect(await call("DELETE", `${path}/${id}`, undefined, blue.token)).toMatchObject({ status: 404 });
        expect(await call("DELETE", `${path}/${id}`)).toMatchObject({ status: 204 });
        expect((await call("GET", path)).json).toEqual([]);
      }
    });

    test.each([
      ["/inhibit-rules", { ...inhibitRule, source_matchers: [] }, "source_matchers"],
      ["/inhibit-rules", { ...inhibitRule, target_matchers: [{ label: "a", op: "=~", value: "(" }] }, "matchers[0].value"],
      ["/inhibit-rules", { ...inhibitRule, equal: ["a b"] }, "equal"],
      ["/time-intervals", { name: "x", time_intervals: [{ weekdays: ["friday:monday"] }] }, "time_intervals[0]"],
      ["/time-intervals", { name: "x", time_intervals: [{ times: [{ start_time: "9:00", end_time: "10:00" }] }] }, "start_time"],
      ["/time-intervals", { name: "x", time_intervals: [{ location: "Mars/Olympus" }] }, "time_intervals[0]"],
      ["/time-intervals", { name: "x", time_intervals: [{ hours: ["1:2"] }] }, "hours"],
    ])("%s refuses %j", async (path, body, field) => {
      const refused = await call("POST", path, body);
      expect([refused.status, refused.json.message]).toEqual([400, expect.stringContaining(field)]);
    });

    test("a route names time intervals that exist, which then keep their name; the default route has none", async () => {
      await emptied(red);
      const { json } = await call("POST", "/time-intervals", weekend);
      expect(await call("POST", "/routes", only("a", { mute_time_intervals: ["nights"] }))).toMatchObject({
        status: 400,
        json: { message: "mute_time_intervals[0]: not a time interval of this organisation" },
      });
      const route = await call("POST", "/routes", only("a", { active_time_intervals: ["weekend"] }));
      expect(route.json).toMatchObject({ mute_time_intervals: [], active_time_intervals: ["weekend"] });
      expect(await call("DELETE", `/time-intervals/${json.id}`)).toMatchObject({ status: 409 });
      expect(await call("PUT", `/time-intervals/${json.id}`, { ...weekend, name: "other" })).toMatchObject({ status: 409 });
      const [, last] = await routes();
      const asDefault = { matchers: [], mute_time_intervals: ["weekend"] };
      expect(await call("PUT", `/routes/${String(last?.["id"])}`, asDefault)).toMatchObject({ status: 400 });
      const config = JSON.parse((await call("GET", `${V2}/status`)).json.config.original);
      expect(config).toMatchObject({ time_intervals: [weekend], route: { routes: [{ active_time_intervals: ["weekend"] }] } });
      await call("DELETE", `/routes/${route.json.id}`);
      expect(await call("DELETE", `/time-intervals/${json.id}`)).toMatchObject({ status: 204 });
    });

    test("Alertmanager's API names the alert that inhibits, and the time intervals that mute a group", async () => {
      await emptied(red);
      const pager = await channel(red, "pager");
      await call("POST", "/inhibit-rules", inhibitRule);
      await call("POST", "/time-intervals", { name: "always", time_intervals: [{}] });
      await call("POST", "/routes", { ...only("night"), channel_ids: [pager], mute_time_intervals: ["always"] });
      await alert(red, "0000000000000001", { alertname: "ClusterDown", cluster: "a" });
      await alert(red, "0000000000000002", { alertname: "NodeDown", cluster: "a" });
      await alert(red, "0000000000000003", { alertname: "Other", severity: "night" });
      const states = async (query = "") =>
        ((await call("GET", `${V2}/alerts${query}`)).json as { labels: Record<string, string>; status: object }[]).map(
          ({ labels, status }) => [labels["alertname"], status],
        );
      const plain = { state: "active", silencedBy: [], inhibitedBy: [], mutedBy: [] };
      expect(await states()).toEqual([
        ["ClusterDown", plain],
        ["NodeDown", { ...plain, state: "suppressed", inhibitedBy: ["0000000000000001"] }],
        ["Other", { ...plain, mutedBy: ["always"] }],
      ]);
      expect((await states("?inhibited=false")).map(([name]) => name)).toEqual(["ClusterDown", "Other"]);
      expect((await states("?active=false")).map(([name]) => name)).toEqual(["NodeDown"]);
      const groups = async (query = "") =>
        ((await call("GET", `${V2}/alerts/groups${query}`)).json as { alerts: { status: { mutedBy: string[] } }[] }[]).flatMap(
          ({ alerts }) => alerts.map(({ status }) => status.mutedBy),
        );
      expect((await groups()).filter((names) => names.length > 0)).toEqual([["always"]]);
      expect((await groups("?muted=false")).flat()).toEqual([]);
    });
  });

  describe("routes", () => {
    test("start with the default one, which has no channels and no matchers, and cannot be removed", async () => {
      await emptied(red);
      const [first, ...more] = await routes();
      expect(more).toEqual([]);
      expect(first).toEqual({
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        position: 0,
        matchers: [],
        channel_ids: [],
        group_by: ["alertname"],
        group_wait: "30s",
        group_interval: "5m",
        repeat_interval: "4h",
        continue: false,
        mute_time_intervals: [],
        active_time_intervals: [],
        is_default: true,
        created_at: at(0),
      });
      expect(await call("DELETE", `/routes/${String(first?.["id"])}`)).toMatchObject({ status: 409, json: { error: "conflict" } });
      expect(await call("PUT", `/routes/${String(first?.["id"])}`, only("a"))).toMatchObject({
        status: 400,
        json: { error: "invalid_field" },
      });
      const changed = await call("PUT", `/routes/${String(first?.["id"])}`, { matchers: [], repeat_interval: "1d", group_by: [] });
      expect(changed).toMatchObject({ status: 200, json: { repeat_interval: "1d", group_by: [], is_default: true } });
    });

    test("are created, moved, replaced and deleted, and each change evaluates the alerts again", async () => {
      await emptied(red);
      const id = await channel(red, "pager");
      const [a, b] = [await call("POST", "/routes", only("a", { channel_ids: [id] })), await call("POST", "/routes", only("b"))];
      expect([a.status, b.status]).toEqual([201, 201]);
      expect((await call("POST", "/routes", only("c", { position: 0, group_wait: "1m30s", continue: true }))).json).toMatchObject({
        position: 0,
        group_wait: "1m30s",
        continue: true,
      });
      const order = async () => (await routes()).map((one) => [(one["matchers"] as { value: string }[])[0]?.value, one["position"]]);
      expect(await order()).toEqual([
        ["c", 0],
        ["a", 1],
        ["b", 2],
        [undefined, 3],
      ]);
      const taken = async (severity: string) => (await call("POST", "/routes/test", { labels: { severity } }, viewer)).json;
      expect(await taken("a")).toMatchObject([{ id: a.json.id, channel_ids: [id] }]);
      expect(await taken("other")).toMatchObject([{ is_default: true }]);
      await db().updateTable("notification_turns").set({ due_at: null }).where("org_id", "=", red.orgId).execute();
      expect((await call("PUT", `/routes/${a.json.id}`, only("A", { position: 50 }))).json).toMatchObject({ position: 2, channel_ids: [] });
      expect(await dueAt(red)).toEqual(new Date(START));
      expect(await order()).toEqual([
        ["c", 0],
        ["b", 1],
        ["A", 2],
        [undefined, 3],
      ]);
      expect((await call("DELETE", `/routes/${b.json.id}`)).status).toBe(204);
      expect(await order()).toEqual([
        ["c", 0],
        ["A", 1],
        [undefined, 2],
      ]);
      expect((await call("DELETE", `/routes/${b.json.id}`)).status).toBe(404);
    });

    test.each([
      ["a label's name", { matchers: [{ label: "a-b", op: "=", value: "x" }] }, /^matchers\[0\]\.name: /],
      ["an operator", { matchers: [{ label: "a", op: "==", value: "x" }] }, /matchers/],
      ["an expression", { matchers: [{ label: "a", op: "=~", value: "(" }] }, /^matchers\[0\]\.value: is not a regular expression/],
      ["a duration", { group_wait: "soon" }, /^group_wait: must be a duration of at most 1h/],
      ["half a second", { group_wait: "1s500ms" }, /^group_wait: .* in whole seconds$/],
      ["repeating all the time", { repeat_interval: "1s" }, /^repeat_interval: must be a duration from 1m to 30d/],
      ["a group's label", { group_by: ["a b"] }, /group_by/],
      ["an id that is none", { channel_ids: ["x"] }, /^channel_ids\[0\]: not a channel of this organisation/],
      ["a channel that is not there", { channel_ids: [randomUUID()] }, /^channel_ids\[0\]: not a channel of this organisation/],
      ["a field that is not known", { receiver: "x" }, /receiver/],
    ])("reject %s", async (_, body, message) => {
      expect(await call("POST", "/routes", { matchers: [], ...body })).toMatchObject({
        status: 400,
        json: { error: "invalid_field", message: expect.stringMatching(message) },
      });
    });

    test("are limited to a hundred, with a hundred regular expressions including those of silences", async () => {
      await emptied(red);
      const costly = Array.from({ length: 20 }, () => ({ label: "a", op: "=~", value: "x.*" }));
      for (let made = 0; made < 5; made++) expect((await call("POST", "/routes", { matchers: costly })).status).toBe(201);
      const silence = { matchers: [{ name: "a", value: "x.+", isRegex: true }], endsAt: at(60), comment: "" };
      for (const [path, body] of [
        ["/routes", { matchers: costly.slice(0, 1) }],
        ["/silences", silence],
      ] as const)
        expect(await call("POST", path, body)).toMatchObject({ status: 409, json: { error: "limit_reached" } });
      for (let made = 5; made < 100; made++) await call("POST", "/routes", only("a"));
      expect(await call("POST", "/routes", only("a"))).toMatchObject({ status: 409, json: { error: "limit_reached" } });
      expect((await routes()).map(({ position }) => position)).toEqual(Array.from({ length: 101 }, (_, position) => position));
    });

    test("that are created concurrently get different positions", async () => {
      await emptied(red);
      await Promise.all(Array.from({ length: 8 }, async () => await call("POST", "/routes", only("a", { position: 0 }))));
      expect((await routes()).map(({ position }) => position)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });
  });

  const silenceOf = (value: string, more: object = {}) => ({
    matchers: [{ name: "alertname", value, isRegex: false, isEqual: true }],
    endsAt: at(3600),
    comment: "being repaired",
    ...more,
  });

  describe("silences", () => {
    test("are created with their author, listed in Alertmanager's format, and ended", async () => {
      await emptied(red);
      const made = await call("POST", "/silences", silenceOf("Down", { createdBy: "another user", startsAt: at(-600) }));
      const whole = {
        ...silenceOf("Down"),
        id: made.json.id,
        status: { state: "active" },
        startsAt: at(0),
        createdBy: red.email,
        updatedAt: at(0),
      };
      expect([made.status, made.json]).toEqual([201, whole]);
      expect(await dueAt(red)).toEqual(new Date(START));
      expect((await call("GET", "/silences")).json).toEqual([whole]);
      expect((await call("GET", `${V2}/silence/${made.json.id}`)).json).toEqual(whole);
      expect((await call("DELETE", `/silences/${made.json.id}`)).status).toBe(204);
      expect((await call("GET", "/silences")).json).toEqual([{ ...whole, status: { state: "expired" }, endsAt: at(0) }]);
      expect((await call("DELETE", `/silences/${made.json.id}`)).status).toBe(204);
    });

    test("are replaced like in Alertmanager: in place if only the end differs, otherwise by a new one", async () => {
      await emptied(red);
      const { silenceID: id } = (await call("POST", `${V2}/silences`, silenceOf("Down"))).json;
      expect((await call("POST", `${V2}/silences`, silenceOf("Down", { id, endsAt: at(7200) }))).json).toEqual({ silenceID: id });
      const { silenceID: other } = (await call("POST", `${V2}/silences`, silenceOf("Up", { id }))).json;
      expect(other).not.toBe(id);
      expect(
        ((await call("GET", `${V2}/silences`)).json as { id: string; status: { state: string } }[]).map((one) => [
          one.id,
          one.status.state,
        ]),
      ).toEqual([
        [other, "active"],
        [id, "expired"],
      ]);
      expect((await call("POST", `${V2}/silences`, silenceOf("Up", { id: randomUUID() }))).status).toBe(404);
    });

    test("are filtered by their exact matchers", async () => {
      await emptied(red);
      for (const name of ["A", "B"]) await call("POST", "/silences", silenceOf(name));
      const found = (await call("GET", `${V2}/silences?filter=${encodeURIComponent('alertname="B"')}`)).json;
      expect(found).toMatchObject([{ matchers: [{ value: "B" }] }]);
      expect((await call("GET", `${V2}/silences?filter=alertname%3D~%22B%22`)).json).toEqual([]);
      expect(await call("GET", `${V2}/silences?filter=nonsense`)).toMatchObject({ status: 400, json: { error: "invalid_parameter" } });
    });

    test.each([
      ["every alert", { matchers: [{ name: "a", value: ".*", isRegex: true }] }, /^matchers: at least one must not match/],
      ["no matcher", { matchers: [] }, /matchers/],
      ["a past end", { endsAt: at(-1) }, /^endsAt: must not be in the past/],
      ["an end before its start", { startsAt: at(7200) }, /^endsAt: must be after startsAt/],
      ["an end in years", { endsAt: "2036-01-01T00:00:00Z" }, /^endsAt: must be within 366 days/],
      ["a day for a time", { endsAt: "tomorrow" }, /^endsAt: must be an RFC 3339 time/],
      ["a day that no month has", { endsAt: at(3600).replace(/-\d\d-\d\dT/, "-02-30T") }, /^endsAt: must be an RFC 3339 time/],
      ["a time of no zone", { endsAt: at(3600).replace("Z", "") }, /^endsAt: must be an RFC 3339 time/],
      ["no reason", { comment: undefined }, /comment/],
      ["a long reason", { comment: "é".repeat(2000), matchers: [{ name: "a", value: "é".repeat(900) }] }, /^silence: .* more than 4096/],
      ["a NUL", { comment: "a\u0000" }, /^comment: /],
    ])("reject %s", async (_, more, message) => {
      expect(await call("POST", "/silences", silenceOf("x", more))).toMatchObject({
        status: 400,
        json: { error: "invalid_field", message: expect.stringMatching(message) },
      });
    });
  });

  test("deliveries are returned newest first, in pages, by status and channel, and without the message", async () => {
    await Promise.all([emptied(red), emptied(blue)]);
    const [one, other] = [randomUUID(), randomUUID()];
    const statuses = ["pending", "failed", "delivered", "delivered", "delivered"] as const;
    for (const [age, status] of statuses.entries()) {
      const row = { id: randomUUID(), channel_id: age === 4 ? other : one, group_key: "k", rule_ids: '["r"]', message: '{"secret":1}' };
      const outcome = {
        status,
        attempts: 3,
        http_status: status === "failed" ? 500 : null,
        error: status === "failed" ? "it said 500" : null,
      };
      const times = { next_at: new Date(START), created_at: new Date(START - age * 1000), delivered_at: null };
      await db()
        .insertInto("deliveries")
        .values({ ...row, ...outcome, ...times, org_id: red.orgId })
        .execute();
    }
    const first = await call("GET", "/deliveries");
    expect(first.json).toMatchObject([
      { status: "pending", created_at: at(0) },
      { status: "failed", error: "it said 500", http_status: 500 },
    ]);
    expect(Object.keys(first.json[0]).sort()).toEqual(
      ["id", "channel_id", "rule_ids", "status", "attempts", "http_status", "error", "created_at", "delivered_at"].sort(),
    );
    const next = /<([^>]+)>/.exec(String(first.link))?.[1] ?? "";
    expect((await call("GET", next)).json).toMatchObject([{ created_at: at(-2) }, { created_at: at(-3) }]);
    expect((await call("GET", "/deliveries?status=failed")).json).toHaveLength(1);
    expect((await call("GET", `/deliveries?channel_id=${other}`)).json).toMatchObject([{ created_at: at(-4) }]);
    expect((await call("GET", "/deliveries?status=lost")).status).toBe(400);
    expect((await call("GET", "/deliveries", undefined, blue.token)).json).toEqual([]);
  });

  describe("Alertmanager's API", () => {
    type ReturnedAlert = { labels: Record<string, string>; status: { state: string; silencedBy: string[] }; receivers: { name: string }[] };
    const names = async (query = "", bearer?: string) =>
      ((await call("GET", `${V2}/alerts${query}`, undefined, bearer)).json as ReturnedAlert[]).map(({ labels }) => labels["alertname"]);
    let silence: string;

    beforeAll(async () => {
      await Promise.all([emptied(red), emptied(blue)]);
      const [pager, mail] = [await channel(red, "pager"), await channel(red, "mail")];
      await channel(red, "off", false);
      await call("POST", "/routes", only("critical", { channel_ids: [pager, mail], continue: false, group_by: ["team"] }));
      const [rest] = (await routes()).filter(({ is_default }) => is_default);
      await call("PUT", `/routes/${String(rest?.["id"])}`, { matchers: [], channel_ids: [mail] });
      await alert(red, "1", { alertname: "Down", severity: "critical", team: "a" });
      await alert(red, "2", { alertname: "Slow", severity: "info", team: "a" });
      await alert(red, "3", { alertname: "Full", severity: "critical", team: "a" });
      await alert(red, "4", { alertname: "Over", severity: "critical" }, new Date(START));
      await alert(blue, "1", { alertname: "Theirs", severity: "critical" });
      silence = (await call("POST", "/silences", silenceOf("Full"))).json.id;
    });

    test("returns the firing alerts, their receivers, and the silences that mute them", async () => {
      expect((await call("GET", `${V2}/alerts`)).json).toMatchObject([
        { fingerprint: "1", status: { state: "active", silencedBy: [] }, receivers: [{ name: "pager" }, { name: "mail" }] },
        { fingerprint: "2", annotations: { summary: "2" }, startsAt: at(0), endsAt: at(3600), receivers: [{ name: "mail" }] },
        { fingerprint: "3", status: { state: "suppressed", silencedBy: [silence], inhibitedBy: [], mutedBy: [] } },
      ]);
    });

    // Requests of amtool 0.31 (cli/alert_query.go, cli/silence_query.go): it sends all flags, and a filter is a matcher as text.
    test.each([
      ["?active=true&inhibited=false&silenced=false&unprocessed=false", ["Down", "Slow"]],
      ["?active=false&inhibited=true&silenced=true&unprocessed=true", ["Full"]],
      ['?filter=alertname%3D"Down"', ["Down"]],
      ['?filter=severity%3D"critical"&filter=alertname!%3D"Down"', ["Full"]],
      ['?filter=alertname%3D~"D.*%7CS.*"', ["Down", "Slow"]],
      ["?receiver=pa.*", ["Down", "Full"]],
      ["?receiver=none", []],
    ])("filters %s", async (query, expected) => {
      expect(await names(query)).toEqual(expected);
    });

    test.each(["?filter=Down", "?filter=a%3D~%22(%22", "?active=maybe", "?receiver=(", "?receiver=a.%7B50%7D"])(
      "rejects %s",
      async (query) => {
        for (const path of ["alerts", "alerts/groups"])
          expect(await call("GET", `${V2}/${path}${query}`)).toMatchObject({ status: 400, json: { error: "invalid_parameter" } });
      },
    );

    // As go-swagger's client asks and reads (api/v2/client of Alertmanager: `Payload string`), and as Grafana does, which says no Accept.
    test("returns an error as plain text for amtool, and in the API's format for Grafana", async () => {
      const asked: [method: string, path: string, body?: object][] = [
        ["GET", "alerts?filter=Down"],
        ["GET", "alerts/groups?filter=Down"],
        ["GET", "silences?filter=Down"],
        ["POST", "silences", { ...silenceOf("x"), matchers: [] }],
        ["POST", "silences", { ...silenceOf("x"), id: randomUUID() }],
        ["GET", `silence/${randomUUID()}`],
        ["DELETE", `silence/${randomUUID()}`],
      ];
      for (const [method, path, body] of asked) {
        const ask = async (accept?: string) =>
          await backend.call(method, `${V2}/${path}`, { bearer: red.token, ...(body && { body }), ...(accept && { headers: { accept } }) });
        const ours = await ask();
        const { error, message } = ours.json();
        expect([path, [400, 404].includes(ours.statusCode), typeof error, typeof message]).toEqual([path, true, "string", "string"]);
        expect((await ask("*/*")).json()).toEqual({ error, message });
        const plain = await ask("application/json");
        expect([plain.statusCode, plain.headers["content-type"], plain.json()]).toEqual([
          ours.statusCode,
          "application/json; charset=utf-8",
          message,
        ]);
      }
      const refused = await backend.call("POST", `${V2}/silences`, {
        bearer: viewer,
        body: silenceOf("x"),
        headers: { accept: "application/json" },
      });
      expect([refused.statusCode, refused.json().error]).toEqual([403, "forbidden"]);
      const found = await backend.call("GET", `${V2}/receivers`, { bearer: red.token, headers: { accept: "application/json" } });
      expect(found.json()).toEqual([{ name: "mail" }, { name: "pager" }]);
    });

    test("returns groups as receivers get them", async () => {
      const groups = (await call("GET", `${V2}/alerts/groups`)).json as { labels: object; receiver: object; alerts: ReturnedAlert[] }[];
      expect(groups.map(({ labels, receiver, alerts }) => [receiver, labels, alerts.map((one) => one.labels["alertname"])])).toEqual([
        [{ name: "pager" }, { team: "a" }, ["Down", "Full"]],
        [{ name: "mail" }, { team: "a" }, ["Down", "Full"]],
        [{ name: "mail" }, { alertname: "Slow" }, ["Slow"]],
      ]);
      expect((await call("GET", `${V2}/alerts/groups?receiver=pager`)).json).toMatchObject([{ receiver: { name: "pager" } }]);
    });

    test("returns at most 4 MiB, however many receivers and groups an alert has, and reports the truncation", async () => {
      const many = await makeOrg(backend, randomUUID());
      const ids: string[] = [];
      for (let n = 0; n < 20; n += 1) ids.push(await channel(many, String(n).padEnd(200, "x")));
      const [rest] = await routes(many.token);
      await call("PUT", `/routes/${String(rest?.["id"])}`, { matchers: [], channel_ids: ids }, many.token);
      const times = { starts_at: new Date(START), ends_at: null, expires_at: new Date(START + 3600_000), updated_at: new Date(START) };
      const row = { org_id: many.orgId, rule_id: randomUUID(), bytes: 100, annotations: "{}", ...times };
      const rows = Array.from({ length: 1200 }, (_, n) => ({ ...row, fingerprint: String(n), labels: JSON.stringify({ n: String(n) }) }));
      await db().insertInto("alerts").values(rows).execute();
      const ask = async (path: string) => await backend.call("GET", `${V2}/${path}`, { bearer: many.token });
      for (const path of ["alerts", "alerts/groups", "alerts/groups?receiver=7x*"]) {
        const { statusCode, headers, body } = await ask(path);
        expect([path, statusCode, headers["warning"]]).toEqual([path, 200, expect.stringContaining("the response is truncated")]);
        expect(body.length).toBeLessThan(4.5 * 1024 * 1024);
        expect(body.length).toBeGreaterThan(1024 * 1024);
      }
      const seventh = (await ask("alerts/groups?receiver=7x*")).json<{ receiver: { name: string } }[]>();
      expect([...new Set(seventh.map(({ receiver }) => receiver.name))]).toEqual(["7".padEnd(200, "x")]);
    });

    test("returns enabled channels as receivers, and the routes as configuration", async () => {
      expect((await call("GET", `${V2}/receivers`)).json).toEqual([{ name: "mail" }, { name: "pager" }]);
      const { config, cluster } = (await call("GET", `${V2}/status`)).json;
      expect(cluster).toEqual({ status: "disabled", peers: [] });
      expect(JSON.parse(config.original)).toMatchObject({
        route: {
          receiver: "mail",
          routes: [
            { receiver: "pager", matchers: ['severity="critical"'], group_by: ["team"], continue: true },
            { receiver: "mail", matchers: ['severity="critical"'], continue: false },
          ],
        },
        receivers: [{ name: "mail" }, { name: "pager" }, { name: "none" }],
      });
    });
  });
});
