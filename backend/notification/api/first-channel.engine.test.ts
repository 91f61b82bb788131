// The dispatcher learns of a change of channels immediately over HTTP; otherwise it would read them again only after an hour.
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AccountsApp, accountsApp, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { postedAlert, type Tables } from "../../../test/fixtures/notification.ts";
import { eventually } from "../../../test/fixtures/processes.ts";
import { MasterKeys } from "../../tenants/enrolment/master-key.ts";
import { createLog } from "../../operations/log.ts";
import type { Message } from "../model/message.ts";
import { addRoutes } from "../../http/route.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { createNotificationRoutes } from "./routes.ts";
import { startChannels } from "../start-channels.ts";
import { type Notification, startNotification } from "../start.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const HOUR_MS = 3600_000;
const settings = {
  publicUrl: undefined,
  notifyAllowedNetworks: ["127.0.0.1"],
  notifyCaFile: undefined,
  noProxy: undefined,
  smtpFrom: undefined,
  smtpAllowedDomains: [],
};
const secrets = { httpsProxy: undefined, smtpUrl: undefined };

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let notification: Notification | undefined;
  let red: Org;
  const ruleId = randomUUID();
  const sent: Message[] = [];
  /** The clock does not move, so what is cached for some seconds never expires. */
  const clock = { ms: Date.parse("2026-11-22T10:00:00Z") };

  beforeAll(async () => {
    const db = store.database.tables<Tables>();
    const log = createLog("silent");
    const nowMs = () => clock.ms;
    backend = await accountsApp(store.database, {
      clock,
      routes: (app, guards) => {
        const channels = startChannels({ db, masterKeys: new MasterKeys(Buffer.alloc(32, 7)), settings, secrets, log, now: nowMs });
        const responses = new ResponseBudget();
        addRoutes(
          app,
          guards,
          channels.createRoutes(() => notification?.wake()),
        );
        addRoutes(app, guards, createNotificationRoutes({ db: store.database.tables(), responses, nowMs }));
      },
    });
    red = await makeOrg(backend);
    const texts = { name: "disk", severity: "critical", expr: "up", for_duration: "0s", labels: "{}", annotations: "{}" } as const;
    const row = { ...texts, id: ruleId, org_id: red.orgId, enabled: true, revision: 1, created_at: new Date(clock.ms) };
    await db.insertInto("rules").values(row).execute();
    notification = await startNotification({
      db: store.database.tables(),
      isAlone: true,
      send: async (_channel, message) => {
        sent.push(message);
        return { delivered: true, httpStatus: 200 };
      },
      open: (channel) => ({ ...channel, orgId: channel.org_id }),
      evaluator: { check: async () => undefined, isEvaluated: async () => true, evaluatedAt: async () => new Map() },
      intervalMs: 15_000,
      counts: { attempted: () => undefined, dropped: () => undefined, refusedGroups: () => undefined },
      log,
      nowMs,
      timing: { pollMs: HOUR_MS, housekeepingMs: HOUR_MS },
    });
  });
  afterAll(async () => {
    await notification?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const call = async (method: string, path: string, body: object) => {
    const answer = await backend.call(method, path, { bearer: red.token, body });
    expect([answer.statusCode < 300, answer.json().message]).toEqual([true, undefined]);
    return answer.json<{ id: string }>();
  };
  const channel = (enabled: boolean) => ({ name: "ops", kind: "webhook", settings: { url: "https://127.0.0.1/" }, enabled });
  async function fire(host: string): Promise<void> {
    const alert = postedAlert({ orgId: red.orgId, ruleId }, host, clock.ms, clock.ms + HOUR_MS);
    const request = stub<IncomingMessage>(Readable.from([Buffer.from(JSON.stringify([alert]))]));
    const { promise, resolve } = Promise.withResolvers<number>();
    const response = { once: () => undefined, headersSent: false, writeHead: (status: number) => ({ end: () => resolve(status) }) };
    await notification?.takeAlerts(request, stub<ServerResponse>(response));
    expect(await promise).toBe(200);
  }
  const hosts = () => sent.flatMap(({ alerts }) => alerts.map(({ labels }) => labels["host"]));

  test("the first channel that there is, and one that is switched on again, are known before the next pass", async () => {
    await fire("before");
    const { id } = await call("POST", "/channels", channel(true));
    await call("POST", "/routes", { matchers: [], channel_ids: [id], group_by: ["..."], group_wait: "0s" });
    await fire("first");
    await eventually("it is notified of alerts that fire from now on", async () => hosts().includes("first"));
    // A message that is pending when its channel is switched off is not sent.
    await eventually("it is notified of the alert that fired before there was a channel", async () => hosts().includes("before"));

    await call("PUT", `/channels/${id}`, channel(false));
    await call("PUT", `/channels/${id}`, channel(true));
    await fire("second");
    await eventually("it is notified again", async () => hosts().includes("second"));
    expect(new Set(hosts())).toEqual(new Set(["before", "first", "second"]));
  });
});
