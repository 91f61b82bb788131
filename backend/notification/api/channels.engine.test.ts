// Channels on both stores, with a real receiver: roles, how secrets are stored, and the result of a test message.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { authority } from "../../../agent/upstream/outgoing-proxy.fixture.ts";
import { type AccountsApp, accountsApp, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { MasterKeys } from "../../tenants/enrolment/master-key.ts";
import { createLog } from "../../log.ts";
import { addRoutes } from "../../http/route.ts";
import { reencryptChannels } from "../channels/channel-store.ts";
import { type Channels, startChannels } from "../create-channels.ts";
import type { NotificationTables } from "../model/notification-tables.ts";

vi.setConfig({ testTimeout: 120_000 });

const folder = mkdtempSync(join(tmpdir(), "atherops-channels-test-"));
const trusted = authority(folder, "trusted");
const seen: { headers: Record<string, string>; body: string }[] = [];
let answer: number | undefined = 200;
let receiver: Server;
let url: string;

beforeAll(async () => {
  receiver = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      seen.push({ headers: request.headers as Record<string, string>, body: Buffer.concat(parts).toString() });
      if (answer !== undefined) response.writeHead(answer, { location: "https://169.254.169.254/" }).end();
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  url = `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook?key=hidden`;
});
afterAll(async () => {
  receiver.closeAllConnections();
  await new Promise((done) => receiver.close(done));
  rmSync(folder, { recursive: true });
});

const masterKey = Buffer.alloc(32, 7);

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let channels: Channels;
  let red: Org;
  let blue: Org;
  let viewer: string;
  let timesChanged = 0;
  const clock = { ms: Date.now() };
  const db = () => store.database.tables<NotificationTables & AccountTables>();

  beforeAll(async () => {
    const settings = {
      publicUrl: "https://telemetry.example",
      notifyAllowedNetworks: ["127.0.0.1"],
      notifyCaFile: trusted.caFile,
      noProxy: undefined,
      smtpFrom: "alerts@telemetry.example",
      smtpAllowedDomains: ["partner.example"],
    };
    const secrets = { httpsProxy: undefined, smtpUrl: "smtp://127.0.0.1:1" };
    const routes: Parameters<typeof accountsApp>[1] = {
      clock,
      routes: (app, guards) => {
        const log = createLog("silent");
        channels = startChannels({ db: db(), masterKeys: new MasterKeys(masterKey), settings, secrets, log, now: () => clock.ms });
        addRoutes(
          app,
          guards,
          channels.createRoutes(() => (timesChanged += 1)),
        );
      },
    };
    backend = await accountsApp(store.database, routes);
    [red, blue] = [await makeOrg(backend), await makeOrg(backend)];
    const password = randomUUID();
    const email = `viewer@${randomUUID()}.example`;
    await backend.call("POST", "/api/users", { bearer: red.token, body: { email, password, role: "viewer" } });
    viewer = await backend.login(email, password);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const webhook = (more: object = {}) => ({ name: randomUUID(), kind: "webhook", settings: { url }, ...more });
  const call = async (method: string, path: string, body?: object, bearer = red.token) =>
    await backend.call(method, `/channels${path}`, { bearer, ...(body && { body }) });
  const made = async (body: object = webhook(), bearer = red.token) => {
    const created = await call("POST", "", body, bearer);
    expect([created.statusCode, created.json().message]).toEqual([201, undefined]);
    return created.json<Record<string, string> & { id: string }>();
  };
  const tested = async (id: string) => {
    clock.ms += 60_000;
    return (await call("POST", `/${id}/test`)).json();
  };

  test("returns a webhook's signing secret once, stores it encrypted, and signs a test message with it", async () => {
    const body = webhook({ heartbeat: "90m" });
    const { signing_secret: secret = "", ...rest } = await made(body);
    expect(rest).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      ...body,
      enabled: true,
      heartbeat: "1h30m",
      last_heartbeat_at: null,
      secret_rotated_at: null,
      created_at: new Date(clock.ms).toISOString(),
    });
    expect((await call("GET", "")).json()).toContainEqual(rest);
    expect((await call("GET", "")).body).not.toContain("whsec_");
    const row = await db()
      .selectFrom("channels")
      .selectAll()
      .where("id", "=", rest.id ?? "")
      .executeTakeFirstOrThrow();
    expect(JSON.stringify(row)).not.toContain(secret.slice(6));

    clock.ms = Date.now();
    answer = 200;
    expect((await call("POST", `/${rest.id}/test`)).json()).toEqual({ delivered: true, status: 200, error: null });
    const last = seen.at(-1);
    expect(new Webhook(secret).verify(last?.body ?? "", last?.headers ?? {})).toMatchObject({
      version: "4",
      receiver: body.name,
      externalURL: "https://telemetry.example",
      atherops: { purpose: "test", org: { id: red.orgId } },
    });
  });

  test("returns a rotated secret once, signs with both for a day, then with the new one only", async () => {
    const { id, signing_secret: before = "" } = await made();
    clock.ms = Date.now();
    const { signing_secret: after, previous_until } = (await call("POST", `/${id}/rotate`)).json();
    expect([after === before, Date.parse(previous_until) - clock.ms]).toEqual([false, 86_400_000]);
    const opened = await channels.store.open(red.orgId, id);
    expect([opened?.secret, opened?.previousSecret]).toEqual([after, before]);
    answer = 200;
    await call("POST", `/${id}/test`);
    const last = seen.at(-1);
    for (const secret of [before, after]) new Webhook(secret).verify(last?.body ?? "", last?.headers ?? {});
    clock.ms += 86_400_001;
    expect((await channels.store.open(red.orgId, id))?.previousSecret).toBeUndefined();
    clock.ms = Date.now();
    const slack = await made({ name: randomUUID(), kind: "slack", settings: { url } });
    expect((await call("POST", `/${slack.id}/rotate`)).statusCode).toBe(409);
  });

  test("never returns a secret URL or a key, and keeps them if they are omitted", async () => {
    const key = "k".repeat(32);
    for (const [kind, settings, shown, secret, other] of [
      ["slack", { url }, {}, url, { url: url.replace("hidden", "other") }],
      ["msteams", { url }, {}, url, { url: url.replace("hidden", "other") }],
      ["opsgenie", { api_key: key, region: "jsm" }, { region: "jsm" }, key, { api_key: "K-".repeat(18), region: "us" }],
      ["pagerduty", { routing_key: key, region: "eu" }, { region: "eu" }, key, { routing_key: "K".repeat(32), region: "us" }],
    ] as const) {
      const name = randomUUID();
      const { id, ...rest } = await made({ name, kind, settings });
      expect([rest["settings"], rest["signing_secret"]]).toEqual([shown, undefined]);
      const kept = await call("PUT", `/${id}`, { name, kind, settings: shown, enabled: false });
      expect([kept.statusCode, kept.json().enabled]).toEqual([200, false]);
      expect((await channels.store.open(red.orgId, id))?.secret).toBe(secret);
      await call("PUT", `/${id}`, { name, kind, settings: other });
      expect((await channels.store.open(red.orgId, id))?.secret).toBe(Object.values(other)[0]);
      expect((await call("GET", "")).body).not.toContain(Object.values(other)[0]);
    }
  });

  test("shows a viewer channels without the path of their URL", async () => {
    const { id, name } = await made();
    const [seenByViewer] = (await call("GET", "", undefined, viewer))
      .json<{ id: string; settings: object }[]>()
      .filter((one) => one.id === id);
    expect(seenByViewer).toMatchObject({ name, settings: { url: `${new URL(url).origin}/…` } });
    expect((await call("GET", "", undefined, viewer)).body).not.toContain("hidden");
  });

  test.each([
    [{ settings: { url: "http://hooks.example/" } }, /^settings.url: must begin with https/],
    [{ settings: { url: "https://169.254.169.254/latest/" } }, /^settings.url: is an address/],
    [{ settings: { url: "https://[::1]/" } }, /^settings.url: is an address/],
    [{ settings: { url: "https://a:b@hooks.example/" } }, /^settings.url: must not contain a user name/],
    [{ settings: { url: "hooks.example" } }, /^settings.url: is not a URL/],
    [{ settings: {} }, /url/],
    [{ settings: { url: "https://hooks.example/", secret: "x" } }, /settings/],
    [{ kind: "slack", settings: {} }, /^settings.url: is required/],
    [{ kind: "slack", settings: { url: "https://10.0.0.1/" } }, /^settings.url: is an address/],
    [{ kind: "pagerduty", settings: {} }, /^settings.routing_key: is required/],
    [{ kind: "pagerduty", settings: { routing_key: "short" } }, /routing_key/],
    [{ kind: "pagerduty", settings: { routing_key: "k".repeat(32), region: "jsm" } }, /^settings.region: must be us or eu/],
    [{ kind: "msteams", settings: {} }, /^settings.url: is required/],
    [{ kind: "msteams", settings: { url: "https://10.0.0.1/workflows/x" } }, /^settings.url: is an address/],
    [{ kind: "opsgenie", settings: {} }, /^settings.api_key: is required/],
    [{ kind: "opsgenie", settings: { api_key: "k/../".repeat(8) } }, /api_key/],
    [{ kind: "opsgenie", settings: { api_key: "k".repeat(36), region: "jsm" }, heartbeat: "1d" }, /^heartbeat: must be null/],
    [{ kind: "email", settings: { to: ["any@evil.example"] } }, /^settings.to: any@evil.example is neither/],
    [{ kind: "email", settings: { to: ["any@partner.example,any@evil.example"] } }, /to/],
    [{ kind: "email", settings: { to: [] } }, /to/],
    [{ kind: "carrier pigeon" }, /kind/],
    [{ heartbeat: "10s" }, /^heartbeat: must be a duration from 1m to 31d/],
    [{ name: "" }, /name/],
    [{ colour: "red" }, /colour/],
  ])("rejects %j, with the field's name", async (more, message) => {
    const refused = await call("POST", "", webhook(more));
    expect([refused.statusCode, refused.json().error, refused.json().message]).toEqual([
      400,
      "invalid_field",
      expect.stringMatching(message),
    ]);
  });

  store.once("sends e-mail to users of the organisation and to listed domains", async () => {
    const to = [red.email.toUpperCase(), "any@partner.example"];
    const { settings } = await made({ name: randomUUID(), kind: "email", settings: { to: [...to, red.email] } });
    expect(settings).toEqual({ to: [red.email, "any@partner.example"] });
    const foreign = await call("POST", "", { name: randomUUID(), kind: "email", settings: { to: [blue.email] } });
    expect(foreign.json().message).toContain("is neither a user of your organisation");
  });

  test("stores custom templates with a channel, returns them to viewers, and rejects unknown names", async () => {
    const settings = { url: "https://hooks.slack.com/services/T/B/x", title: "{{ labels.team }}: {{ count }}", text: "{{ status }}" };
    const { id, name } = await made({ name: randomUUID(), kind: "slack", settings });
    const { title, text } = settings;
    const list = (await call("GET", "", undefined, viewer)).json<{ id: string; settings: object }[]>();
    expect(list.find((one) => one.id === id)?.settings).toEqual({ title, text });
    const replaced = async (own: object) => (await call("PUT", `/${id}`, { name, kind: "slack", settings: own })).json();
    expect(await replaced({ title: "{{ secret }}" })).toMatchObject({
      error: "invalid_field",
      message: expect.stringMatching(/^settings\.title: unknown placeholder \{\{ secret \}\}: use status, count,/),
    });
    expect(await replaced({ text: "x".repeat(4001) })).toMatchObject({ error: "invalid_field" });
    expect((await replaced({ text })).settings).toEqual({ text });
    const hook = await call("POST", "", { ...webhook(), settings: { url, title } });
    expect(hook.json().message).toBe("settings.title: not a setting of the kind webhook; its settings are url");
  });

  test("does not change the kind of a channel", async () => {
    const { id } = await made();
    const changed = await call("PUT", `/${id}`, { name: randomUUID(), kind: "slack", settings: { url } });
    expect(changed.json()).toMatchObject({ error: "invalid_field", message: expect.stringMatching(/^kind: is webhook/) });
  });

  store.once("a test returns the receiver's response, also if it redirects or does not listen; ten a minute", async () => {
    const { id } = await made();
    answer = 302;
    expect(await tested(id)).toEqual({
      delivered: false,
      status: 302,
      error: "the receiver responded with status 302: redirects are not followed",
    });
    answer = 200;
    const gone = await made(webhook({ settings: { url: "https://127.0.0.1:1/" } }));
    expect(await tested(gone.id)).toEqual({ delivered: false, status: null, error: "no response: ECONNREFUSED" });
    clock.ms += 60_000;
    const answers: Awaited<ReturnType<typeof call>>[] = [];
    for (let n = 0; n < 11; n += 1) answers.push(await call("POST", `/${id}/test`));
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
    expect(answers.at(-1)?.headers["retry-after"], "the rest of the minute").toBe("60");
    expect((await call("POST", `/${(await made(webhook(), blue.token)).id}/test`, undefined, blue.token)).statusCode).toBe(200);
  });

  test("rejects the removal of a channel that a route uses, and removes another one permanently", async () => {
    const { id } = await made();
    const route = {
      id: randomUUID(),
      org_id: red.orgId,
      position: 0,
      matchers: "[]",
      channel_ids: JSON.stringify([id]),
      group_by: "[]",
      group_wait_seconds: 30,
      group_interval_seconds: 300,
      repeat_interval_seconds: 14_400,
      continue: false,
      is_default: false,
      created_at: new Date(),
    };
    await db().insertInto("routes").values(route).execute();
    expect((await call("DELETE", `/${id}`)).json()).toMatchObject({ error: "conflict", message: expect.stringMatching(/^a route uses/) });
    await db().deleteFrom("routes").where("id", "=", route.id).execute();
    expect((await call("DELETE", `/${id}`)).statusCode).toBe(204);
    expect((await call("DELETE", `/${id}`)).statusCode).toBe(404);
  });

  test("audits each change, without a secret", async () => {
    const { id, name, signing_secret: secret = "" } = await made();
    await call("PUT", `/${id}`, webhook({ name }));
    await call("POST", `/${id}/rotate`);
    clock.ms += 60_000;
    await call("POST", `/${id}/test`);
    await call("DELETE", `/${id}`);
    await backend.trail.settled();
    const entries = (await backend.call("GET", "/api/audit", { bearer: red.token })).json<
      { action: string; subject: { channel_id?: string } }[]
    >();
    const own = entries.filter(({ subject }) => subject.channel_id === id);
    expect(own.map(({ action }) => action)).toEqual(["delete", "test", "rotate", "update", "create"].map((verb) => `channel.${verb}`));
    for (const hidden of ["whsec_", "hidden", secret.slice(6, 20)]) expect(JSON.stringify(own)).not.toContain(hidden);
  });

  test("limits an organisation to a hundred channels", async () => {
    const { orgId, token } = await makeOrg(backend);
    const one = await db().selectFrom("channels").selectAll().where("org_id", "=", red.orgId).limit(1).executeTakeFirstOrThrow();
    const rows = Array.from({ length: 99 }, (_, n) => ({ ...one, id: randomUUID(), org_id: orgId, name: `${n}`, settings: "{}" }));
    await db().insertInto("channels").values(rows).execute();
    expect((await call("POST", "", webhook(), token)).statusCode).toBe(201);
    expect((await call("POST", "", webhook(), token)).json()).toMatchObject({ error: "limit_reached" });
    await db().deleteFrom("channels").where("org_id", "=", orgId).execute();
  });

  test("does not return a channel of another organisation, whose name is available", async () => {
    const { id, name } = await made();
    await made(webhook({ name }), blue.token);
    expect((await call("POST", "", webhook({ name }))).json()).toMatchObject({ error: "conflict" });
    expect(await channels.store.open(blue.orgId, id)).toBeUndefined();
  });

  test("evaluates the organisation's alerts after a change, and cannot decrypt a secret that was moved to another channel", async () => {
    await db().deleteFrom("notification_turns").execute();
    timesChanged = 0;
    const [one, other] = [await made(), await made()];
    await call("PUT", `/${one.id}`, webhook({ name: one["name"] }));
    expect(timesChanged).toBe(3);
    const turn = await db().selectFrom("notification_turns").select("due_at").where("org_id", "=", red.orgId).executeTakeFirst();
    expect(turn?.due_at?.getTime()).toBe(clock.ms);
    const { secret } = await db().selectFrom("channels").select("secret").where("id", "=", one.id).executeTakeFirstOrThrow();
    await db().updateTable("channels").set({ secret }).where("id", "=", other.id).execute();
    await expect(channels.store.open(red.orgId, other.id)).rejects.toThrow(/authenticate/);
    await call("DELETE", `/${other.id}`);
    expect(timesChanged).toBe(4);
  });

  test("re-encrypts secrets with a new master key, and without the previous one stops with the variable to set", async () => {
    const { id, signing_secret: before } = await made();
    const { signing_secret: after } = (await call("POST", `/${id}/rotate`)).json();
    const next = Buffer.alloc(32, 8);
    await expect(reencryptChannels(db(), new MasterKeys(next))).rejects.toThrow(/MASTER_PREVIOUS_KEY/);
    expect(await reencryptChannels(db(), new MasterKeys(next, masterKey))).toBeGreaterThan(0);
    const row = await db().selectFrom("channels").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    const settings = { notifyAllowedNetworks: [], smtpAllowedDomains: [], publicUrl: undefined, notifyCaFile: undefined };
    const moved = startChannels({
      db: db(),
      masterKeys: new MasterKeys(next),
      settings: { ...settings, noProxy: undefined, smtpFrom: undefined },
      secrets: { httpsProxy: undefined, smtpUrl: undefined },
      log: createLog("silent"),
      now: () => clock.ms,
    });
    expect(moved.store.decrypt(row)).toMatchObject({ secret: after, previousSecret: before });
    expect(await reencryptChannels(db(), new MasterKeys(masterKey, next))).toBeGreaterThan(0);
  });
});
