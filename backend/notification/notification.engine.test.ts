// Alerts from the evaluator's request to a receiver, on each relational store, with a clock that the test sets.
import { Readable } from "node:stream";
import type { IncomingMessage, ServerResponse } from "node:http";
import { randomUUID } from "node:crypto";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { describeOnEachStore } from "../../test/fixtures/each-store.ts";
import { notifiedOrg, postedAlert, type NotifiedOrg, type Tables } from "../../test/fixtures/notification.ts";
import { eventually } from "../../test/fixtures/processes.ts";
import type { Database } from "../engines/relational/database.ts";
import { migrate } from "../engines/relational/migrate.ts";
import { createLog } from "../log.ts";
import { findWaitingChannels } from "./delivery/delivery-store.ts";
import type { Message, OpenChannel, Outcome } from "./model/message.ts";
import { deleteExpired } from "./delivery/retention.ts";
import { startNotification, type Notification } from "./start-notification.ts";
import { markDue } from "./model/notification-tables.ts";
import { stub } from "../../test/fixtures/stub.ts";

const MINUTE_MS = 60_000;
const log = createLog(process.env["LOG_LEVEL"] ?? "silent");

describeOnEachStore((store) => {
  let database: Database;
  let nowMs = Date.parse("2026-11-22T10:00:00Z");
  let notification: Notification | undefined;
  let sent: Message[];
  let dropped: string[];
  let answer: (message: Message, signal: AbortSignal) => Promise<Outcome>;
  let isEvaluatorUp: boolean;
  let wallMs = 0;
  let evaluatedAt: Map<string, number>;
  let timesAsked = 0;

  beforeAll(async () => {
    ({ database } = store);
    await migrate(database);
  });
  beforeEach(async () => {
    // What earlier tests left is over.
    nowMs += 48 * 3600_000;
    const db = database.tables<Tables>();
    for (const table of ["deliveries", "alert_groups", "alerts", "silences", "routes", "channels", "notification_turns"] as const)
      await db.deleteFrom(table).execute();
    sent = [];
    dropped = [];
    isEvaluatorUp = true;
    evaluatedAt = new Map();
    answer = async () => ({ delivered: true, httpStatus: 200 });
  });
  afterEach(async () => await notification?.[Symbol.asyncDispose]());

  async function start(): Promise<void> {
    notification = await startNotification({
      db: database.tables(),
      isAlone: database.engine === "sqlite",
      send: async (channel, message, signal) => {
        expect(channel.id).toBe(message.channelId);
        const outcome = await answer(message, signal);
        if (outcome.delivered) sent.push(message);
        return outcome;
      },
      open: (row): OpenChannel => ({ ...row, orgId: row.org_id, settings: row.settings }),
      evaluator: {
        check: async () => {
          if (!isEvaluatorUp) throw new Error("away");
        },
        isEvaluated: async () => true,
        evaluatedAt: async () => {
          timesAsked += 1;
          return evaluatedAt;
        },
      },
      intervalMs: 15_000,
      counts: {
        attempted: () => undefined,
        dropped: (reason, alerts) => void dropped.push(`${reason} ${alerts}`),
        refusedGroups: () => undefined,
      },
      log,
      nowMs: () => nowMs,
      wallMs: () => wallMs,
      timing: { pollMs: 20, housekeepingMs: 20, watchMs: 20, backoffMs: [1000, 10_000], graceMs: 100 },
    });
  }

  async function post(alerts: readonly object[]): Promise<number> {
    const request = stub<IncomingMessage>(Readable.from([Buffer.from(JSON.stringify(alerts))]));
    const { promise, resolve } = Promise.withResolvers<number>();
    const response = { once: () => undefined, headersSent: false, writeHead: (status: number) => ({ end: () => resolve(status) }) };
    await notification?.takeAlerts(request, stub<ServerResponse>(response));
    return await promise;
  }

  const fires = (org: NotifiedOrg, name: string): object => postedAlert(org, name, nowMs, nowMs + 4 * MINUTE_MS);
  const ends = (org: NotifiedOrg, name: string): object => postedAlert(org, name, nowMs - MINUTE_MS, nowMs - 1);
  const messages = async (count: number): Promise<Message[]> => {
    const delivered = () => database.tables<Tables>().selectFrom("deliveries").select("id").where("status", "=", "delivered").execute();
    // A delivery is noted after the message was sent.
    await eventually(`${count} messages`, async () => sent.length >= count && (await delivered()).length >= count);
    return sent;
  };
  /** Moves the clock forward; pollers notice it. */
  const pass = (ms: number): void => {
    nowMs += ms;
    notification?.wake();
  };
  /** Until the organisation was looked at, and there is nothing to do for it now. */
  const settled = async ({ orgId }: NotifiedOrg): Promise<void> => {
    await markDue(database.tables(), orgId, new Date(nowMs));
    notification?.wake();
    await eventually("looked at", async () => {
      const turn = await database
        .tables<Tables>()
        .selectFrom("notification_turns")
        .selectAll()
        .where("org_id", "=", orgId)
        .executeTakeFirst();
      return turn?.locked_until === null && (turn.due_at === null || turn.due_at.getTime() > nowMs);
    });
  };
  const hosts = ({ alerts }: Message): string[] => alerts.map(({ labels, status }) => `${labels["host"]} ${status}`).sort();

  test("alerts fire, are notified as a group, silenced, notified again when the silence ends, and resolved once", async () => {
    const org = await notifiedOrg(database.tables());
    await start();
    expect(await post([fires(org, "a")])).toBe(200);
    pass(10_000);
    expect(await post([fires(org, "b")])).toBe(200);
    await settled(org);
    expect(sent).toEqual([]);
    pass(20_000);
    const [first] = await messages(1);
    expect(first).toMatchObject({
      purpose: "alerts",
      status: "firing",
      receiver: "ops",
      truncatedAlerts: 0,
      org: { id: org.orgId },
      groupLabels: { alertname: "disk" },
    });
    expect(first && hosts(first)).toEqual(["a firing", "b firing"]);
    expect(first?.alerts.find(({ labels }) => labels["host"] === "a")?.annotations).toEqual({ summary: "disk of a" });
    expect(first?.commonLabels).toEqual({ alertname: "disk", severity: "critical" });
    expect(JSON.stringify(first?.alerts)).not.toContain(org.orgId);

    // The evaluator says the same again and again.
    for (const _minute of [1, 2, 3, 4, 5, 6]) {
      pass(MINUTE_MS);
      await post([fires(org, "a"), fires(org, "b")]);
    }
    await settled(org);
    expect(sent).toHaveLength(1);

    const silence = {
      id: randomUUID(),
      org_id: org.orgId,
      created_by: "x",
      comment: "",
      created_at: new Date(nowMs),
      updated_at: new Date(nowMs),
    };
    const matchers = JSON.stringify([{ name: "host", value: "a|b", isRegex: true, isEqual: true }]);
    const until = new Date(nowMs + 2 * MINUTE_MS);
    await database
      .tables<Tables>()
      .insertInto("silences")
      .values({ ...silence, matchers, starts_at: new Date(nowMs), ends_at: until })
      .execute();
    await settled(org);
    pass(MINUTE_MS);
    await post([fires(org, "a"), fires(org, "b"), fires(org, "c")]);
    await settled(org);
    pass(MINUTE_MS / 2);
    const [, second] = await messages(2);
    expect(second && hosts(second)).toEqual(["c firing"]);

    pass(MINUTE_MS / 2);
    await settled(org);
    pass(5 * MINUTE_MS);
    await post([fires(org, "a"), fires(org, "b"), fires(org, "c")]);
    await settled(org);
    pass(MINUTE_MS / 2);
    const [, , third] = await messages(3);
    expect(third && hosts(third)).toEqual(["a firing", "b firing", "c firing"]);

    pass(5 * MINUTE_MS);
    await post([ends(org, "a"), ends(org, "b"), ends(org, "c")]);
    await settled(org);
    pass(MINUTE_MS);
    const [, , , fourth] = await messages(4);
    expect([fourth?.status, fourth && hosts(fourth)]).toEqual(["resolved", ["a resolved", "b resolved", "c resolved"]]);

    for (const _minute of [1, 2, 3, 4, 5, 6, 7, 8]) {
      pass(MINUTE_MS);
      await post([ends(org, "a"), ends(org, "b"), ends(org, "c")]);
    }
    await settled(org);
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(4);
    await settled(org);
    const db = database.tables<Tables>();
    expect(await db.selectFrom("alerts").select("fingerprint").execute()).toEqual([]);
    const log = await db.selectFrom("deliveries").selectAll().orderBy("created_at").execute();
    expect(log.map(({ status, attempts, http_status, message, rule_ids }) => [status, attempts, http_status, message, rule_ids])).toEqual(
      Array.from({ length: 4 }, () => ["delivered", 1, 200, null, [org.ruleId]]),
    );
  }, 120_000);

  test("keeps alerts without a channel until they end, and notifies the first channel of those that still fire", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0 });
    const db = database.tables<Tables>();
    await db.updateTable("channels").set({ enabled: false }).execute();
    const kept = async () => (await db.selectFrom("alerts").select("labels").execute()).map(({ labels }) => String(labels["host"])).sort();
    await start();
    expect(await post([fires(org, "a"), fires(org, "b")])).toBe(200);
    await settled(org);
    expect(await kept()).toEqual(["a", "b"]);
    expect(await post([ends(org, "a")])).toBe(200);
    await settled(org);
    await eventually("only the alert that fires is left", async () => (await kept()).join() === "b");
    expect(sent).toEqual([]);
    // `wake` alone has the channels read again: the clock does not move, so what is cached for some seconds never expires.
    await db.updateTable("channels").set({ enabled: true }).execute();
    await settled(org);
    expect((await messages(1)).map(hosts)).toEqual([["b firing"]]);
  });

  test("keeps an alert's start while the evaluator restarts and when it resolves, and sets a new one when it fires again", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    await start();
    const firstMs = nowMs;
    await post([fires(org, "a")]);
    await messages(1);
    const starts = async () =>
      (await database.tables<Tables>().selectFrom("alerts").select("starts_at").execute()).map((row) => +row.starts_at);
    for (const restartMs of [2 * MINUTE_MS, 3 * MINUTE_MS]) {
      pass(restartMs);
      await notification?.[Symbol.asyncDispose]();
      await start();
      // The restarted evaluator reports its own start as the start of the alert.
      await post([fires(org, "a")]);
      expect(await starts()).toEqual([firstMs]);
    }
    pass(2 * MINUTE_MS);
    await post([ends(org, "a")]);
    await messages(2);
    expect(sent.map(({ alerts }) => alerts.map(({ status, startsAt }) => [status, Date.parse(startsAt)]))).toEqual([
      [["firing", firstMs]],
      [["resolved", firstMs]],
    ]);
    pass(MINUTE_MS);
    await post([fires(org, "a")]);
    expect(await starts()).toEqual([nowMs]);
  });

  test("drops and counts an alert of a rule that is not the organisation's", async () => {
    const [org, other] = [await notifiedOrg(database.tables()), await notifiedOrg(database.tables())];
    await start();
    expect(await post([fires({ ...org, ruleId: other.ruleId }, "a"), fires({ ...org, orgId: randomUUID() }, "b"), { labels: {} }])).toBe(
      200,
    );
    expect(dropped.sort()).toEqual(["not_ours 1", "unknown_rule 1", "unknown_rule 1"]);
    expect(await database.tables<Tables>().selectFrom("alerts").select("org_id").execute()).toEqual([]);
  });

  test("retries a failed receiver with the same id until it accepts the message, before newer ones", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    const tried: string[] = [];
    answer = async ({ id }) => {
      tried.push(id);
      return { delivered: false, retry: true, httpStatus: 500, error: "it answers 500" };
    };
    await start();
    await post([fires(org, "a")]);
    await eventually("tried", async () => tried.length === 1);
    await post([ends(org, "a"), fires(org, "b")]);
    const row = async () => await database.tables<Tables>().selectFrom("deliveries").selectAll().orderBy("created_at").execute();
    await eventually("written", async () => (await row())[0]?.http_status === 500);
    expect(await row()).toMatchObject([{ status: "pending", attempts: 1, error: "it answers 500", message: { id: tried[0] } }]);
    answer = async () => ({ delivered: true, httpStatus: 204 });
    pass(11_000);
    const [first, second] = await messages(2);
    expect([first?.id, first && hosts(first)]).toEqual([tried[0], ["a firing"]]);
    expect(second && hosts(second)).toEqual(["a resolved", "b firing"]);
    const both = async () => (await row()).map(({ status, attempts }) => `${status} ${attempts}`).join();
    await eventually("both are noted", async () => (await both()) === "delivered 2,delivered 1");
  });

  test("gives up after an hour and notifies again of alerts that still fire; does not retry a permanent rejection", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0 });
    answer = async () => ({ delivered: false, retry: true, error: "no answer" });
    await start();
    await post([fires(org, "a")]);
    // With what an attempt ended: until that is written it is under way.
    const statuses = async () => {
      const rows = await database
        .tables<Tables>()
        .selectFrom("deliveries")
        .select(["status", "attempts", "error"])
        .orderBy("created_at")
        .execute();
      return rows.map(({ status, attempts, error }) => `${status} ${attempts} ${error}`);
    };
    await eventually("tried", async () => (await statuses())[0] === "pending 1 no answer");
    answer = async () => ({ delivered: false, retry: false, httpStatus: 404, error: "it answers 404" });
    pass(3601_000);
    await post([fires(org, "a")]);
    const refused = "failed 2 it answers 404";
    await eventually("given up", async () => (await statuses()).join() === refused);
    await settled(org);
    expect(await statuses()).toEqual([refused]);
    // When the repeat interval is over, the receiver gets the message again.
    answer = async () => ({ delivered: false, retry: true, error: "no answer" });
    pass(4 * 3600_000);
    await post([fires(org, "a")]);
    await eventually("tried again", async () => (await statuses())[1] === "pending 1 no answer");
    pass(3601_000);
    await post([fires(org, "a")]);
    const anew = [refused, "failed 2 no answer", "pending 1 no answer"].join();
    await eventually("and anew at once", async () => (await statuses()).slice(0, 3).join() === anew);
  });

  test("resolves alerts that the evaluator no longer reports, but not while it is unavailable", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    await start();
    await eventually("the evaluator is seen", async () => notification?.isEvaluatorUp);
    await post([fires(org, "a")]);
    await messages(1);
    isEvaluatorUp = false;
    await eventually("that is seen", async () => notification?.failing.includes("evaluator"));
    pass(10 * MINUTE_MS);
    await settled(org);
    expect(sent).toHaveLength(1);
    isEvaluatorUp = true;
    await eventually("it is seen again", async () => notification?.isEvaluatorUp);
    pass(3 * MINUTE_MS);
    await settled(org);
    const [, second] = await messages(2);
    expect(second && hosts(second)).toEqual(["a resolved"]);
  });

  test("after the machine was suspended, resolves no alert before telemetry had time to arrive", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    await start();
    await eventually("the evaluator is seen", async () => notification?.isEvaluatorUp);
    await post([fires(org, "a"), fires(org, "b")]);
    await messages(1);
    pass(3 * MINUTE_MS);
    wallMs += 10 * MINUTE_MS;
    pass(10 * MINUTE_MS);
    await settled(org);
    // The first evaluation finds no samples.
    await post([ends(org, "a"), ends(org, "b")]);
    await settled(org);
    pass(MINUTE_MS);
    await post([fires(org, "a"), ends(org, "b")]);
    await settled(org);
    expect(sent).toHaveLength(1);
    pass(MINUTE_MS);
    await post([fires(org, "a"), ends(org, "b")]);
    const [, second] = await messages(2);
    expect(second && hosts(second)).toEqual(["a firing", "b resolved"]);
  });

  test("resolves alerts of a rule that is evaluated without them, and none of a rule that is not evaluated", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    await start();
    await eventually("the evaluator is seen", async () => notification?.isEvaluatorUp);
    await post([fires(org, "a")]);
    await messages(1);
    evaluatedAt.set(org.ruleId, nowMs);
    const looks = async (): Promise<void> => {
      const before = timesAsked;
      pass(MINUTE_MS);
      await settled(org);
      expect(timesAsked).toBeGreaterThan(before);
    };
    pass(10 * MINUTE_MS);
    for (const _look of [1, 2]) await looks();
    // Its request with alerts may still be on the way.
    evaluatedAt.set(org.ruleId, nowMs);
    for (const _look of [1, 2]) await looks();
    expect(sent).toHaveLength(1);
    evaluatedAt.set(org.ruleId, nowMs);
    await looks();
    const [, second] = await messages(2);
    expect(second && hosts(second)).toEqual(["a resolved"]);
  });

  test("resolves alerts of a deleted rule", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, intervalSeconds: 0 });
    await start();
    await post([fires(org, "a")]);
    await messages(1);
    await database.tables<Tables>().deleteFrom("rules").where("org_id", "=", org.orgId).execute();
    await settled(org);
    const [, second] = await messages(2);
    expect(second?.status).toBe("resolved");
  });

  test("notifies, retries and sends heartbeats on time after the clock was set back by an hour", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, heartbeatSeconds: 600 });
    await start();
    await post([fires(org, "a")]);
    await messages(2);
    answer = async () => ({ delivered: false, retry: true, error: "no answer in time" });
    pass(600_000);
    const attempts = async () =>
      (await database.tables<Tables>().selectFrom("deliveries").select("attempts").where("status", "=", "pending").execute())[0];
    await eventually("a heartbeat waits for its second attempt", async () => (await attempts())?.attempts === 1);
    answer = async () => ({ delivered: true, httpStatus: 200 });
    pass(-3600_000);
    await messages(3);
    await post([fires(org, "a"), fires(org, "b")]);
    await settled(org);
    pass(300_000);
    await eventually("the group's change", async () => sent.some((message) => hosts(message).includes("b firing")));
    const heartbeats = () => sent.filter(({ purpose }) => purpose === "heartbeat").length;
    const before = heartbeats();
    pass(300_000);
    await eventually("the next heartbeat", async () => heartbeats() > before);
    expect(dropped).toEqual([]);
  });

  test("sends a heartbeat to its channel once per interval, and none while nothing is evaluated", async () => {
    await notifiedOrg(database.tables(), { heartbeatSeconds: 3600 });
    await start();
    expect(await messages(1)).toMatchObject([{ purpose: "heartbeat", alerts: [], groupKey: "heartbeat" }]);
    pass(1800_000);
    isEvaluatorUp = false;
    await eventually("that is seen", async () => notification?.isEvaluatorUp === false);
    pass(1800_000);
    await eventually("reported", async () => notification?.failing.join() === "evaluator");
    expect(sent).toHaveLength(1);
    isEvaluatorUp = true;
    expect(await messages(2)).toHaveLength(2);
  });

  test("limits an organisation to sixty messages per minute, and sends the rest in the next", async () => {
    const org = await notifiedOrg(database.tables(), { waitSeconds: 0, groupBy: ["host"] });
    await start();
    await post(Array.from({ length: 70 }, (_, number) => fires(org, `h${number}`)));
    await messages(60);
    await settled(org);
    expect(sent).toHaveLength(60);
    pass(MINUTE_MS + 1);
    expect(await messages(70)).toHaveLength(70);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(70);
  });

  test("limits concurrent attempts of an organisation with many hanging channels, and delivers for the others", async () => {
    const [many, one] = [
      await notifiedOrg(database.tables(), { waitSeconds: 0 }),
      await notifiedOrg(database.tables(), { waitSeconds: 0 }),
    ];
    const db = database.tables<Tables>();
    const [row] = await db.selectFrom("channels").selectAll().where("org_id", "=", many.orgId).execute();
    const more = Array.from({ length: 11 }, (_, number) => ({ id: randomUUID(), name: `ops ${number}` }));
    await db
      .insertInto("channels")
      .values(more.map((channel) => ({ ...(row as NonNullable<typeof row>), ...channel, settings: "{}" })))
      .execute();
    const channel_ids = JSON.stringify([many.channelId, ...more.map(({ id }) => id)]);
    await db.updateTable("routes").set({ channel_ids }).where("org_id", "=", many.orgId).execute();
    let hanging = 0;
    answer = async ({ org }, signal) => {
      if (org.id === one.orgId) return { delivered: true, httpStatus: 200 };
      hanging += 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { delivered: false, retry: true, error: "no answer in time" };
    };
    await start();
    await post([fires(many, "a")]);
    await eventually("four hang", async () => hanging >= 4);
    await post([fires(one, "x")]);
    await messages(1);
    const waiting = await findWaitingChannels(db, new Date(nowMs), 1, [many.orgId]);
    expect(waiting).toEqual([]);
    expect((await findWaitingChannels(db, new Date(nowMs), 100, [])).length).toBeGreaterThanOrEqual(8);
  });

  test("deletes old deliveries, and marks those that waited for a day as failed", async () => {
    const { orgId, channelId } = await notifiedOrg(database.tables());
    const db = database.tables<Tables>();
    const day = 24 * 3600_000;
    const made = async (status: "pending" | "delivered", days: number): Promise<void> => {
      const row = { id: randomUUID(), org_id: orgId, channel_id: channelId, route_id: null, group_key: "g", rule_ids: "[]", message: null };
      const attempt = { status, attempts: 1, locked_until: null, http_status: null, error: null, delivered_at: null };
      const at = new Date(nowMs - days * day);
      await db
        .insertInto("deliveries")
        .values({ ...row, ...attempt, next_at: at, created_at: at })
        .execute();
    };
    await made("delivered", 31);
    await made("delivered", 29);
    await made("pending", 2);
    await made("pending", 0);
    await deleteExpired(db, nowMs);
    const left = await db.selectFrom("deliveries").select(["status", "error"]).orderBy("created_at").execute();
    expect(left.map(({ status, error }) => `${status} ${error}`)).toEqual([
      "delivered null",
      "failed not sent within a day",
      "pending null",
    ]);
  });

  describe("a tenant with many alerts and a hanging receiver", () => {
    test("delays no message of another, and its own queue is limited", async () => {
      const count = Number(process.env["NOTIFICATION_ALERTS"] ?? 600);
      const [many, one] = [
        await notifiedOrg(database.tables(), { waitSeconds: 0, groupBy: ["host"] }),
        await notifiedOrg(database.tables(), { waitSeconds: 0 }),
      ];
      let [hanging, mostHanging] = [0, 0];
      answer = async ({ org }, signal) => {
        if (org.id === one.orgId) return { delivered: true, httpStatus: 200 };
        hanging += 1;
        mostHanging = Math.max(mostHanging, hanging);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        hanging -= 1;
        return { delivered: false, retry: true, error: "no answer in time" };
      };
      await start();
      await post(Array.from({ length: count }, (_, number) => fires(many, `h${number}`)));
      await eventually("it hangs", async () => mostHanging > 0);
      const began = performance.now();
      await post([fires(one, "x")]);
      expect((await messages(1))[0]?.org.id).toBe(one.orgId);
      console.log(
        `${count} alerts, ${mostHanging} attempts hang: the other tenant's message after ${Math.round(performance.now() - began)} ms`,
      );
      const pending = await database.tables<Tables>().selectFrom("deliveries").select("id").where("status", "=", "pending").execute();
      expect(pending.length).toBeLessThanOrEqual(200);
      expect(mostHanging).toBeLessThanOrEqual(2);
    });
  });
});
