// Plans the messages about an organisation's alerts: alerts → routes → groups → channels. Routes are evaluated in order; the first that
// matches an alert ends the search unless it says `continue`, and the default route takes the rest. Invariants: pure, except that it yields
// to the event loop; a channel gets the messages of a group in order, one at a time; groups and messages are limited, and what exceeds the
// limit waits for the next pass.
import { MAX_GROUP_MEMBERS_PER_ORG, MAX_GROUPS_PER_ORG, MAX_MESSAGES_PER_PASS, MAX_PENDING_PER_CHANNEL } from "../limits.ts";
import { type GroupState, type GroupTimes, planGroup } from "./group-state.ts";
import { compileMatchers, type Labels, type Matcher, toMatcher } from "../model/matchers.ts";
import type { Alert } from "../model/message.ts";
import { TimeSlices } from "../../../common/time-slices.ts";
import { createHash } from "node:crypto";
import type { StoredRoute } from "./route-body.ts";

export type Route = Omit<StoredRoute, "position" | "createdAt">;

/** `routes` in their order. */
export async function compileRoutes<R extends Pick<Route, "matchers" | "continues" | "isDefault">>(
  routes: readonly R[],
  slices: TimeSlices,
): Promise<(labels: Labels) => readonly R[]> {
  const special = await slices.map(
    routes.filter(({ isDefault }) => !isDefault),
    (route) => ({ route, takes: compileMatchers(route.matchers.map(toMatcher)) }),
  );
  const rest = routes.filter(({ isDefault }) => isDefault);
  return (labels) => {
    const taken: R[] = [];
    for (const { route, takes } of special) {
      if (!takes(labels)) continue;
      taken.push(route);
      if (!route.continues) break;
    }
    return taken.length > 0 ? taken : rest;
  };
}

/** In `groupBy`. */
const ALL_LABELS = "...";

export function groupLabels({ groupBy }: Pick<Route, "groupBy">, labels: Labels): Labels {
  const names = groupBy.includes(ALL_LABELS) ? Object.keys(labels) : groupBy.filter((name) => Object.hasOwn(labels, name));
  return Object.fromEntries(names.toSorted().map((name) => [name, labels[name] ?? ""]));
}

/** `labels`: as returned by groupLabels. */
export function groupKey(labels: Labels): string {
  return createHash("sha256")
    .update(JSON.stringify(Object.entries(labels)))
    .digest("hex")
    .slice(0, 32);
}

export interface PlanInput<A extends Alert> {
  readonly alerts: readonly A[];
  readonly routes: readonly Route[];
  /** Enabled channels. */
  readonly channelIds: ReadonlySet<string>;
  /** Silences in force. */
  readonly silences: readonly (readonly Matcher[])[];
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
  readonly gone: readonly string[];
  /** Fingerprints of alerts that are no longer stored. */
  readonly forgotten: readonly string[];
  /** When something is due next; undefined: only after a change. */
  readonly nextAt: Date | undefined;
  /** True if there are more messages than one pass creates. */
  readonly hasMore: boolean;
  /** Groups, and alerts in groups, that exceeded a limit. */
  readonly refused: number;
  /** CPU time for matching alerts with routes and silences. */
  readonly busyMs: number;
}

export function stateKey(routeId: string, channelId: string, key: string): string {
  return `${routeId} ${channelId} ${key}`;
}

interface Members<A> {
  readonly group: AlertGroup;
  readonly times: GroupTimes;
  readonly alerts: A[];
}

export async function plan<A extends Alert>(input: PlanInput<A>): Promise<Plan<A>> {
  const { states, now } = input;
  const { members, refused, busyMs } = await collectGroups(input);
  const messages: GroupMessage<A>[] = [];
  const changed: { group: AlertGroup; state: GroupState }[] = [];
  const gone = [...states.keys()].filter((key) => !members.has(key));
  const remembered = new Set<string>();
  const pendingOf = new Map(input.pendingOf);
  let nextMs = Number.POSITIVE_INFINITY;
  let hasMore = false;
  const slices = new TimeSlices();
  for (const [key, { group, times, alerts }] of members) {
    if (slices.isOver) await slices.next();
    const before = states.get(key);
    if (before && input.pendingGroups.has(key)) {
      // Whatever happens to the message, the organisation is evaluated again afterwards.
      for (const fingerprint of Object.keys(before.firing)) remembered.add(fingerprint);
      continue;
    }
    const { state, send } = planGroup(before, alerts, times, now);
    const pending = pendingOf.get(group.channelId) ?? 0;
    const hasRoom = messages.length < MAX_MESSAGES_PER_PASS && pending < MAX_PENDING_PER_CHANNEL;
    const next = send && hasRoom ? send.notified : state;
    if (send && hasRoom) {
      messages.push({ key, group, firing: send.firing, resolved: send.resolved });
      pendingOf.set(group.channelId, pending + 1);
    } else if (send && pending < MAX_PENDING_PER_CHANNEL) hasMore = true;
    if (!next) {
      if (before) gone.push(key);
      continue;
    }
    for (const fingerprint of Object.keys(next.firing)) remembered.add(fingerprint);
    if (!before || !isSame(before, next)) changed.push({ group, state: next });
    if (next.nextAt > now) nextMs = Math.min(nextMs, next.nextAt.getTime());
  }
  const forgotten = input.alerts.filter(({ status, fingerprint }) => status === "resolved" && !remembered.has(fingerprint));
  return {
    messages,
    changed,
    gone,
    forgotten: forgotten.map(({ fingerprint }) => fingerprint),
    nextAt: Number.isFinite(nextMs) ? new Date(nextMs) : undefined,
    hasMore,
    refused,
    busyMs,
  };
}

/** All current groups, including remembered ones without alerts if their channel and route still exist. */
async function collectGroups<A extends Alert>(
  input: PlanInput<A>,
): Promise<{ members: Map<string, Members<A>>; refused: number; busyMs: number }> {
  const { alerts, routes, channelIds, states, silences } = input;
  const slices = new TimeSlices();
  const route = await compileRoutes(routes, slices);
  const silencers = await slices.map(silences, compileMatchers);
  const members = new Map<string, Members<A>>();
  let room = MAX_GROUPS_PER_ORG - states.size;
  let places = MAX_GROUP_MEMBERS_PER_ORG;
  let refused = 0;
  for (const alert of alerts) {
    if (slices.isOver) await slices.next();
    const member = { ...alert, silenced: silencers.some((covers) => covers(alert.labels)) };
    for (const taken of route(alert.labels)) {
      const on = taken.channelIds.filter((id) => channelIds.has(id));
      if (places <= 0) refused += on.length;
      if (on.length === 0 || places <= 0) continue;
      const labels = groupLabels(taken, alert.labels);
      const key = groupKey(labels);
      for (const channelId of new Set(on)) {
        const id = stateKey(taken.id, channelId, key);
        const known = members.get(id);
        if (places-- <= 0) refused += 1;
        else if (known) known.alerts.push(member);
        else if (states.has(id) || --room >= 0)
          members.set(id, {
            group: { routeId: taken.id, channelId, groupKey: key, labels },
            times: taken,
            alerts: [member],
          });
        else refused += 1;
      }
    }
  }
  const routeOf = new Map(routes.map((one) => [one.id, one]));
  for (const [key, { group }] of states) {
    const times = routeOf.get(group.routeId);
    if (members.has(key) || !times?.channelIds.includes(group.channelId) || !channelIds.has(group.channelId)) continue;
    members.set(key, { group, times, alerts: [] });
  }
  return { members, refused, busyMs: slices.busyMs };
}

function isSame(one: GroupState, other: GroupState): boolean {
  if (one.nextAt.getTime() !== other.nextAt.getTime() || one.lastSentAt?.getTime() !== other.lastSentAt?.getTime()) return false;
  const [before, after] = [Object.entries(one.firing), other.firing];
  return before.length === Object.keys(after).length && before.every(([fingerprint, status]) => after[fingerprint] === status);
}
