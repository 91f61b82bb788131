// Plans the messages about an organisation's alerts: alerts → routes → groups → channels. Routes are evaluated in order; the first that
// matches an alert ends the search unless it says `continue`, and the default route takes the rest. Invariants: pure, except that it yields
// to the event loop; a channel gets the messages of a group in order, one at a time; groups and messages are limited, and what exceeds the
// limit waits for the next pass.
import { MAX_GROUP_MEMBERS_PER_ORG, MAX_GROUPS_PER_ORG, MAX_MESSAGES_PER_PASS, MAX_PENDING_PER_CHANNEL } from "../notification-limits.ts";
import { type GroupState, type GroupTimes, planGroup } from "./group-state.ts";
import { createInhibitor, type InhibitRule } from "./inhibition.ts";
import { compileMatchers, type Labels, type Matcher, toMatcher } from "../model/matchers.ts";
import type { Alert } from "../model/message.ts";
import { TimeSlices } from "../../admission/time-slices.ts";
import { hash } from "node:crypto";
import type { StoredRoute } from "./route-body.ts";

export type Route = Omit<StoredRoute, "position" | "createdAt" | "muteTimeIntervals" | "activeTimeIntervals">;

/** Returns a function that finds the routes of an alert by its labels. `routes`: in order. */
export async function compileRoutes<R extends Pick<Route, "matchers" | "continues" | "isDefault">>(
  routes: readonly R[],
  slices: TimeSlices,
): Promise<(labels: Labels) => readonly R[]> {
  const specific = await slices.map(
    routes.filter(({ isDefault }) => !isDefault),
    (route) => ({ route, matches: compileMatchers(route.matchers.map(toMatcher)) }),
  );
  const defaultRoutes = routes.filter(({ isDefault }) => isDefault);
  return (labels) => {
    const matching: R[] = [];
    for (const { route, matches } of specific) {
      if (!matches(labels)) continue;
      matching.push(route);
      if (!route.continues) break;
    }
    return matching.length > 0 ? matching : defaultRoutes;
  };
}

/** This element of `groupBy` means all labels of the alert. */
const ALL_LABELS = "...";

export function groupLabels({ groupBy }: Pick<Route, "groupBy">, labels: Labels): Labels {
  const names = groupBy.includes(ALL_LABELS) ? Object.keys(labels) : groupBy.filter((name) => Object.hasOwn(labels, name));
  return Object.fromEntries(names.toSorted().map((name) => [name, labels[name] ?? ""]));
}

/** `labels`: as returned by groupLabels. */
export function groupKey(labels: Labels): string {
  return hash("sha256", JSON.stringify(Object.entries(labels)), "hex").slice(0, 32);
}

export interface PlanInput<A extends Alert> {
  readonly alerts: readonly A[];
  readonly routes: readonly Route[];
  /** Enabled channels. */
  readonly channelIds: ReadonlySet<string>;
  /** Silences in force. */
  readonly silences: readonly (readonly Matcher[])[];
  readonly inhibitRules: readonly InhibitRule[];
  /** Ids of routes that do not notify at `now`, because of their time intervals. */
  readonly mutedRouteIds: ReadonlySet<string>;
  /** States by `stateKey`. */
  readonly states: ReadonlyMap<string, StoredGroup>;
  /** Messages in delivery: of a group, by `stateKey`; of a channel, their number. */
  readonly pendingGroups: ReadonlySet<string>;
  readonly pendingOf: ReadonlyMap<string, number>;
  readonly now: Date;
}

export interface GroupMessage<A> {
  readonly key: string;
  readonly group: AlertGroup;
  readonly firing: readonly A[];
  readonly resolved: readonly A[];
}

export interface AlertGroup {
  readonly routeId: string;
  readonly channelId: string;
  readonly groupKey: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface StoredGroup extends GroupState {
  readonly group: AlertGroup;
}

export interface Plan<A> {
  readonly messages: readonly GroupMessage<A>[];
  /** Group states to write. */
  readonly changed: readonly { readonly group: AlertGroup; readonly state: GroupState }[];
  /** Keys of groups that are no longer stored. */
  readonly removed: readonly string[];
  /** Fingerprints of alerts that are no longer stored. */
  readonly endedAlerts: readonly string[];
  /** When the next pass is due; undefined: only after a change. */
  readonly nextAt: Date | undefined;
  /** True if there are more messages than one pass creates. */
  readonly hasMore: boolean;
  /** Groups, and alerts in groups, that exceeded a limit. */
  readonly refused: number;
  /** CPU time for matching alerts with routes, silences and inhibition rules. */
  readonly busyMs: number;
}

export function stateKey(routeId: string, channelId: string, key: string): string {
  return `${routeId} ${channelId} ${key}`;
}

interface GroupMembers<A> {
  readonly group: AlertGroup;
  readonly times: GroupTimes;
  readonly alerts: A[];
}

export async function plan<A extends Alert>(input: PlanInput<A>): Promise<Plan<A>> {
  const { states, now } = input;
  const { members, refused, busyMs } = await collectGroups(input);
  const messages: GroupMessage<A>[] = [];
  const changed: { group: AlertGroup; state: GroupState }[] = [];
  const removed = [...states.keys()].filter((key) => !members.has(key));
  const notifiedFingerprints = new Set<string>();
  const pendingOf = new Map(input.pendingOf);
  let nextMs = Number.POSITIVE_INFINITY;
  let hasMore = false;
  const slices = new TimeSlices();
  for (const [key, { group, times, alerts }] of members) {
    if (slices.isOver) await slices.next();
    const before = states.get(key);
    if (before && input.pendingGroups.has(key)) {
      // Whatever happens to the message, the organisation is evaluated again afterwards.
      for (const fingerprint of Object.keys(before.firing)) notifiedFingerprints.add(fingerprint);
      continue;
    }
    const { state, send } = planGroup(before, alerts, times, now);
    const pending = pendingOf.get(group.channelId) ?? 0;
    const isMuted = input.mutedRouteIds.has(group.routeId);
    const hasCapacity = !isMuted && messages.length < MAX_MESSAGES_PER_PASS && pending < MAX_PENDING_PER_CHANNEL;
    const next = send && hasCapacity ? send.notified : state;
    if (send && isMuted) nextMs = Math.min(nextMs, nextMinuteMs(now));
    else if (send && hasCapacity) {
      messages.push({ key, group, firing: send.firing, resolved: send.resolved });
      pendingOf.set(group.channelId, pending + 1);
    } else if (send && pending < MAX_PENDING_PER_CHANNEL) hasMore = true;
    if (!next) {
      if (before) removed.push(key);
      continue;
    }
    for (const fingerprint of Object.keys(next.firing)) notifiedFingerprints.add(fingerprint);
    if (!before || !isSame(before, next)) changed.push({ group, state: next });
    if (next.nextAt > now) nextMs = Math.min(nextMs, next.nextAt.getTime());
  }
  const ended = input.alerts.filter(({ status, fingerprint }) => status === "resolved" && !notifiedFingerprints.has(fingerprint));
  return {
    messages,
    changed,
    removed,
    endedAlerts: ended.map(({ fingerprint }) => fingerprint),
    nextAt: Number.isFinite(nextMs) ? new Date(nextMs) : undefined,
    hasMore,
    refused,
    busyMs,
  };
}

/** Time intervals end with a minute. */
function nextMinuteMs(now: Date): number {
  return (Math.floor(now.getTime() / 60_000) + 1) * 60_000;
}

/** All current groups, including remembered ones without alerts if their channel and route still exist. */
async function collectGroups<A extends Alert>(
  input: PlanInput<A>,
): Promise<{ members: Map<string, GroupMembers<A>>; refused: number; busyMs: number }> {
  const { alerts, routes, channelIds, states, silences } = input;
  const slices = new TimeSlices();
  const findRoutes = await compileRoutes(routes, slices);
  const silencers = await slices.map(silences, compileMatchers);
  const firing = alerts.filter(({ status }) => status === "firing");
  const inhibitedBy = await createInhibitor(input.inhibitRules, firing, slices);
  const members = new Map<string, GroupMembers<A>>();
  let freeGroups = MAX_GROUPS_PER_ORG - states.size;
  let freeMembers = MAX_GROUP_MEMBERS_PER_ORG;
  let refused = 0;
  for (const alert of alerts) {
    if (slices.isOver) await slices.next();
    const isSuppressed = silencers.some((matches) => matches(alert.labels)) || inhibitedBy(alert.labels) !== undefined;
    const member = { ...alert, silenced: isSuppressed };
    for (const route of findRoutes(alert.labels)) {
      const enabledIds = route.channelIds.filter((id) => channelIds.has(id));
      if (freeMembers <= 0) refused += enabledIds.length;
      if (enabledIds.length === 0 || freeMembers <= 0) continue;
      const labels = groupLabels(route, alert.labels);
      const key = groupKey(labels);
      for (const channelId of new Set(enabledIds)) {
        const id = stateKey(route.id, channelId, key);
        const known = members.get(id);
        if (freeMembers-- <= 0) refused += 1;
        else if (known) known.alerts.push(member);
        else if (states.has(id) || --freeGroups >= 0)
          members.set(id, {
            group: { routeId: route.id, channelId, groupKey: key, labels },
            times: route,
            alerts: [member],
          });
        else refused += 1;
      }
    }
  }
  const routeById = new Map(routes.map((route) => [route.id, route]));
  for (const [key, { group }] of states) {
    const times = routeById.get(group.routeId);
    if (members.has(key) || !times?.channelIds.includes(group.channelId) || !channelIds.has(group.channelId)) continue;
    members.set(key, { group, times, alerts: [] });
  }
  return { members, refused, busyMs: slices.busyMs };
}

function isSame(a: GroupState, b: GroupState): boolean {
  if (a.nextAt.getTime() !== b.nextAt.getTime() || a.lastSentAt?.getTime() !== b.lastSentAt?.getTime()) return false;
  const [before, after] = [Object.entries(a.firing), b.firing];
  return before.length === Object.keys(after).length && before.every(([fingerprint, status]) => after[fingerprint] === status);
}
