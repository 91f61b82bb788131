// Which routes take an alert, and to which of their groups it belongs. Invariant: routes are asked in order, the first that takes an alert
// ends that unless it says `continue`; the default one takes what no other took; a group's key is made of its labels alone.
import { createHash } from "node:crypto";
import { compileMatchers, matcherOf, type Labels, type RouteMatcher } from "../model/matchers.ts";
import type { TimeSlices } from "../model/time-slices.ts";

export interface Route {
  readonly id: string;
  readonly matchers: readonly RouteMatcher[];
  readonly channelIds: readonly string[];
  /** Names of labels; `...`: all. */
  readonly groupBy: readonly string[];
  readonly waitMs: number;
  readonly intervalMs: number;
  readonly repeatMs: number;
  readonly continues: boolean;
  readonly isDefault: boolean;
}

/** `routes` in their order. */
export async function routerOf<R extends Pick<Route, "matchers" | "continues" | "isDefault">>(
  routes: readonly R[],
  slices: TimeSlices,
): Promise<(labels: Labels) => readonly R[]> {
  const special = await slices.map(
    routes.filter(({ isDefault }) => !isDefault),
    (route) => ({ route, takes: compileMatchers(route.matchers.map(matcherOf)) }),
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

const ALL_LABELS = "...";

export function groupLabels({ groupBy }: Pick<Route, "groupBy">, labels: Labels): Labels {
  const names = groupBy.includes(ALL_LABELS) ? Object.keys(labels) : groupBy.filter((name) => Object.hasOwn(labels, name));
  return Object.fromEntries(names.toSorted().map((name) => [name, labels[name] ?? ""]));
}

/** `labels`: as groupLabels gives them. */
export function groupKey(labels: Labels): string {
  return createHash("sha256")
    .update(JSON.stringify(Object.entries(labels)))
    .digest("hex")
    .slice(0, 32);
}
