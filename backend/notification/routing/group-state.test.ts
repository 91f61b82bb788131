import { expect, test } from "vitest";
import { planGroup, type GroupState } from "./group-state.ts";
import type { NotifiedAlerts } from "../model/notification-tables.ts";

const START = Date.parse("2026-11-22T10:00:00Z");
const at = (seconds: number): Date => new Date(START + seconds * 1000);
const times = { waitMs: 30_000, intervalMs: 300_000, repeatMs: 14_400_000 };

const alert = (fingerprint: string, startsAt: Date, more: object = {}) =>
  ({ fingerprint, startsAt, status: "firing" as "firing" | "resolved", silenced: false, ...more }) as const;

const sent = (firing: NotifiedAlerts, seconds: number, nextSeconds = seconds + 14_400): GroupState => ({
  firing,
  lastSentAt: at(seconds),
  nextAt: at(nextSeconds),
});

test("delays the first alert for others, and notifies immediately of one that has fired for long", () => {
  expect(planGroup(undefined, [alert("a", at(0))], times, at(0))).toEqual({ state: { firing: {}, lastSentAt: null, nextAt: at(30) } });
  const { send } = planGroup(undefined, [alert("a", at(-600)), alert("b", at(0))], times, at(0));
  expect(send?.firing.map(({ fingerprint }) => fingerprint)).toEqual(["a", "b"]);
  expect(send?.notified).toEqual({ firing: { a: "notified", b: "notified" }, lastSentAt: at(0), nextAt: at(14_400) });
});

test("notifies of alerts that arrive during the wait together, at the time of the first", () => {
  const { state } = planGroup(undefined, [alert("a", at(0))], times, at(0));
  const both = [alert("a", at(0)), alert("b", at(20))];
  expect(planGroup(state, both, times, at(20)).send).toBeUndefined();
  expect(planGroup(state, both, times, at(30)).send?.firing).toHaveLength(2);
});

test("delays a change of a notified group for its interval, and further changes do not postpone it", () => {
  let state: GroupState | undefined = sent({ a: "notified" }, 0);
  ({ state } = planGroup(state, [alert("a", at(0)), alert("b", at(10))], times, at(10)));
  expect(state?.nextAt).toEqual(at(300));
  ({ state } = planGroup(state, [alert("a", at(0)), alert("b", at(10)), alert("c", at(290))], times, at(290)));
  expect(state?.nextAt).toEqual(at(300));
  const { send } = planGroup(state, [alert("a", at(0)), alert("b", at(10))], times, at(300));
  expect(send?.firing).toHaveLength(2);
});

test("delays a change by the interval at most after the clock was set back", () => {
  const alerts = [alert("a", at(0)), alert("b", at(10))];
  const { state } = planGroup(sent({ a: "notified" }, 3600), alerts, times, at(10));
  expect(state).toEqual({ firing: { a: "notified" }, lastSentAt: at(10), nextAt: at(310) });
  expect(planGroup(state, alerts, times, at(310)).send?.firing).toHaveLength(2);
  const waiting = { firing: {}, lastSentAt: null, nextAt: at(3630) };
  expect(planGroup(waiting, alerts, times, at(10)).state?.nextAt).toEqual(at(40));
});

test("repeats a notification only after the repeat interval", () => {
  const state = sent({ a: "notified" }, 0);
  for (const seconds of [1, 300, 14_399]) expect(planGroup(state, [alert("a", at(0))], times, at(seconds)).send).toBeUndefined();
  expect(planGroup(state, [alert("a", at(0))], times, at(14_400)).send?.firing).toHaveLength(1);
});

test("notifies of a resolved alert once, with those that still fire", () => {
  const alerts = [alert("a", at(0), { status: "resolved" }), alert("b", at(0))];
  const due = planGroup(sent({ a: "notified", b: "notified" }, 0, 300), alerts, times, at(400));
  expect(due.send?.resolved.map(({ fingerprint }) => fingerprint)).toEqual(["a"]);
  expect(due.send?.notified.firing).toEqual({ b: "notified" });
  expect(planGroup(due.send?.notified, alerts, times, at(1000)).send).toBeUndefined();
});

test("never notifies of an alert that began and ended within the wait", () => {
  const { state } = planGroup(undefined, [alert("a", at(0))], times, at(0));
  expect(planGroup(state, [alert("a", at(0), { status: "resolved" })], times, at(30))).toEqual({ state: undefined });
});

test("delays an alert that fires again soon after its end for the group's interval", () => {
  const resolved = planGroup(sent({ a: "notified" }, 0, 300), [alert("a", at(0), { status: "resolved" })], times, at(300));
  const notified = resolved.send?.notified;
  expect(notified).toEqual({ firing: {}, lastSentAt: at(300), nextAt: at(600) });
  const again = planGroup(notified, [alert("a", at(310))], times, at(310));
  expect([again.send, again.state?.nextAt]).toEqual([undefined, at(600)]);
  expect(planGroup(notified, [], times, at(599)).state).toBeDefined();
  expect(planGroup(notified, [], times, at(600)).state).toBeUndefined();
});

test("mutes firing alerts with a silence, and notifies again of those that still fire when it ends", () => {
  const silenced = [alert("a", at(0), { silenced: true })];
  const covered = planGroup(sent({ a: "notified" }, 0), silenced, times, at(60));
  expect([covered.send, covered.state?.firing]).toEqual([undefined, { a: "silenced" }]);
  expect(planGroup(covered.state, silenced, times, at(20_000)).send).toBeUndefined();
  const { state } = planGroup(covered.state, [alert("a", at(0))], times, at(1000));
  expect(state?.nextAt).toEqual(at(1030));
  expect(planGroup(state, [alert("a", at(0))], times, at(1030)).send?.firing).toHaveLength(1);
});

test("notifies of the end of a notified alert, also under a silence, and not of one that was never notified", () => {
  const over = [alert("a", at(0), { status: "resolved", silenced: true }), alert("b", at(0), { status: "resolved", silenced: true })];
  const { send } = planGroup(sent({ a: "silenced" }, 0, 300), over, times, at(400));
  expect(send?.resolved.map(({ fingerprint }) => fingerprint)).toEqual(["a"]);
  expect(planGroup(undefined, over, times, at(400))).toEqual({ state: undefined });
});

test("drops an alert that moved to another group without a notification", () => {
  const { send, state } = planGroup(sent({ a: "notified" }, 0, 300), [], times, at(310));
  expect([send, state]).toEqual([undefined, undefined]);
});
