import { expect, test } from "vitest";
import { MAX_PENDING_PER_CHANNEL } from "../notification-limits.ts";
import type { Alert } from "../model/message.ts";
import { plan, type PlanInput, stateKey } from "./plan.ts";

const NOW = new Date("2026-11-22T09:00:00Z");

function alertsOf(count: number): Alert[] {
  return Array.from({ length: count }, (_, n) => ({
    fingerprint: String(n).padStart(16, "0"),
    ruleId: "rule",
    labels: { alertname: "Down", n: String(n) },
    annotations: {},
    startsAt: new Date(NOW.getTime() - 60_000),
    endsAt: undefined,
    status: "firing",
    silenced: false,
  }));
}

/** All alerts of a route are one group of each of its channels. */
function input({ alerts, routes, channels }: { alerts: number; routes: number; channels: number }): PlanInput<Alert> {
  const channelIds = Array.from({ length: channels }, (_, n) => `channel ${n}`);
  const times = { waitMs: 0, intervalMs: 300_000, repeatMs: 3_600_000 };
  return {
    alerts: alertsOf(alerts),
    routes: Array.from({ length: routes }, (_, n) => ({
      id: `route ${n}`,
      matchers: [],
      channelIds,
      groupBy: [],
      continues: true,
      isDefault: false,
      ...times,
    })),
    channelIds: new Set(channelIds),
    silences: [],
    inhibitRules: [],
    mutedRouteIds: new Set<string>(),
    states: new Map(),
    pendingGroups: new Set(),
    pendingOf: new Map(),
    now: NOW,
  };
}

test("plans alerts up to the limit if many routes send to many channels, and counts the others", async () => {
  const { messages, refused } = await plan(input({ alerts: 1000, routes: 20, channels: 20 }));
  expect(refused).toBe(1000 * 20 * 20 - 200_000);
  expect(messages).toHaveLength(100);
  expect(messages.every(({ firing }) => firing.length <= 1000)).toBe(true);
});

test("notifies twenty channels of all alerts that an organisation can have", async () => {
  const { messages, refused } = await plan(input({ alerts: 10_000, routes: 1, channels: 20 }));
  expect([refused, messages.map(({ firing }) => firing.length)]).toEqual([0, Array.from({ length: 20 }, () => 10_000)]);
});

test("runs other organisations while one's expressions are compiled, and counts the time as its own", async () => {
  const matcher = { name: "instance", value: `(${"(a)(b)(c)".repeat(90)}).`, isRegex: true, isEqual: true };
  const expression = { label: "instance", op: "=~", value: matcher.value } as const;
  const given = input({ alerts: 0, routes: 50, channels: 1 });
  let turns = 0;
  const count = setInterval(() => (turns += 1), 0);
  const { busyMs } = await plan({
    ...given,
    routes: given.routes.map((route) => ({ ...route, matchers: [expression] })),
    silences: Array.from({ length: 50 }, () => [matcher]),
  });
  clearInterval(count);
  expect(busyMs).toBeGreaterThan(10);
  expect(turns).toBeGreaterThan(1);
});

test("stops planning for a channel whose messages are not delivered, and continues for the others", async () => {
  const given = input({ alerts: 1, routes: 3, channels: 2 });
  const pendingOf = new Map([["channel 0", MAX_PENDING_PER_CHANNEL - 1]]);
  const { messages } = await plan({ ...given, pendingOf });
  const channels = messages.map(({ group }) => group.channelId);
  expect(channels.filter((id) => id === "channel 0")).toHaveLength(1);
  expect(channels.filter((id) => id === "channel 1")).toHaveLength(3);
});

test("sends nothing for a muted route, and plans it again at the next minute", async () => {
  const given = { ...input({ alerts: 1, routes: 2, channels: 1 }), now: new Date("2026-11-22T09:00:20Z") };
  const muted = await plan({ ...given, mutedRouteIds: new Set(["route 0"]) });
  expect(muted.messages.map(({ group }) => group.routeId)).toEqual(["route 1"]);
  expect(muted.nextAt).toEqual(new Date("2026-11-22T09:01:00Z"));
  const states = new Map(
    muted.changed.map(({ group, state }) => [stateKey(group.routeId, group.channelId, group.groupKey), { group, ...state }]),
  );
  const later = await plan({ ...given, states, now: new Date("2026-11-22T09:01:00Z") });
  expect(later.messages.map(({ group }) => group.routeId)).toEqual(["route 0"]);
});

test("an inhibited alert is not sent, and its source is", async () => {
  const given = input({ alerts: 2, routes: 1, channels: 1 });
  const rule = {
    source_matchers: [{ label: "n", op: "=", value: "0" }],
    target_matchers: [{ label: "n", op: "=", value: "1" }],
    equal: ["alertname"],
  } as const;
  const { messages } = await plan({ ...given, inhibitRules: [rule] });
  expect(messages.map(({ firing }) => firing.map(({ labels }) => labels["n"]))).toEqual([["0"]]);
});
