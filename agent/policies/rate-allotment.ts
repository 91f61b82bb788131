// Which share of a pod's lines its rate limits allow, from what it wrote and sent. A lowered share stays until the bytes that were sent above
// the limit are made up for, so that pulses and pauses pass no more than a steady rate. Invariant: a pod pays for its own bytes only.
import { fairLimit } from "../monitors/fair-share.ts";

export interface LimitedPod {
  readonly namespace: string;
  readonly name: string;
  /** Bytes per second of this pod; undefined without a limit of its own. */
  readonly limit: number | undefined;
  /** Bytes per second of all pods of its namespace on this node. */
  readonly namespaceLimit: number | undefined;
  /** Share of lines that sampling keeps. */
  readonly sampled: number;
}

export interface Allowance {
  /** Share of lines that may be sent. */
  readonly share: number;
  /** Bytes that were sent above the limit and are not yet made up for. */
  readonly debt: number;
}

export interface NamespaceAllowance extends Allowance {
  readonly limit: number;
}

export interface Rated extends Allowance {
  readonly pod: LimitedPod;
  /** How much its files grew by each time. */
  readonly growth: readonly { readonly atMs: number; readonly bytes: number }[];
  /** Bytes since the measurement before. */
  readonly sent: number;
}

interface Time {
  readonly atMs: number;
  /** Time since the measurement before. */
  readonly seconds: number;
}

/** How much above its limit a pod may send before its share stays lowered. */
const BURST_SECONDS = 10;
/** One burst must not mute a pod for longer. */
const MAX_DEBT_SECONDS = 600;

export function allotPods<T extends Rated>(measured: ReadonlyMap<string, T>, { atMs, seconds }: Time): Map<string, T> {
  const allotted = new Map<string, T>();
  for (const pods of Map.groupBy(measured, ([, { pod }]) => pod.namespace).values()) {
    const demands = pods.map(([name, rated]) => ({ name, rated, rate: rateOf(rated, atMs), wanted: wantedBy(rated, atMs) }));
    const total = namespaceLimitOf(pods.map(([, rated]) => rated));
    const most = fairLimit(
      demands.map(({ wanted }) => wanted),
      total,
    );
    for (const { name, rated, rate, wanted } of demands) {
      const allowed = Math.min(wanted, most);
      const share = allowed < rate * rated.pod.sampled ? allowed / rate : 1;
      const limit = Math.min(rated.pod.limit ?? Number.POSITIVE_INFINITY, most, total);
      allotted.set(name, { ...rated, ...allow(rated, share, limit, seconds) });
    }
  }
  return allotted;
}

/** The share with which new pods of a namespace begin. It outlives the pods until their debt is paid. */
export function allotNamespaces(
  measured: ReadonlyMap<string, Rated>,
  before: ReadonlyMap<string, NamespaceAllowance>,
  { atMs, seconds }: Time,
): Map<string, NamespaceAllowance> {
  const allotted = new Map<string, NamespaceAllowance>();
  const namespaces = Map.groupBy(measured.values(), ({ pod }) => pod.namespace);
  for (const namespace of new Set([...namespaces.keys(), ...before.keys()])) {
    const pods = namespaces.get(namespace) ?? [];
    const past = before.get(namespace);
    const limit = pods.length > 0 ? namespaceLimitOf(pods) : (past?.limit ?? 0);
    const wanted = pods.reduce((sum, rated) => sum + wantedBy(rated, atMs), 0);
    const sent = pods.reduce((sum, rated) => sum + rated.sent, 0);
    const allowance = allow({ share: 1, debt: 0, ...past, sent }, wanted > limit ? limit / wanted : 1, limit, seconds);
    if (Number.isFinite(limit) && (pods.length > 0 || allowance.debt > 0)) allotted.set(namespace, { ...allowance, limit });
  }
  return allotted;
}

function allow(before: Allowance & { readonly sent: number }, share: number, limit: number, seconds: number): Allowance {
  if (!Number.isFinite(limit)) return { share, debt: 0 };
  const debt = Math.min(Math.max(0, before.debt + before.sent - limit * seconds), limit * MAX_DEBT_SECONDS);
  return { share: debt > limit * BURST_SECONDS ? Math.min(before.share, share) : share, debt };
}

function namespaceLimitOf(pods: readonly Rated[]): number {
  return Math.min(...pods.map(({ pod }) => pod.namespaceLimit ?? Number.POSITIVE_INFINITY));
}

function wantedBy(rated: Rated, atMs: number): number {
  return Math.min(rateOf(rated, atMs) * rated.pod.sampled, rated.pod.limit ?? Number.POSITIVE_INFINITY);
}

/** Bytes per second within the window. */
function rateOf({ growth }: Rated, atMs: number): number {
  const [first, ...later] = growth;
  const seconds = (atMs - (first?.atMs ?? atMs)) / 1000;
  return seconds > 0 ? later.reduce((sum, { bytes }) => sum + bytes, 0) / seconds : 0;
}
