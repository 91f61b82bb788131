// Calculates the share of a pod's lines that its rate limits allow, from the bytes that it wrote and sent. A reduced share stays until the
// pod has compensated for the excess, so that bursts with pauses pass no more data than a steady rate. Invariant: a pod is limited only for its
// own bytes.
import { fairLimit } from "../kubernetes/kept-objects.ts";

export interface LimitedPod {
  readonly namespace: string;
  readonly name: string;
  /** Bytes per second of this pod; undefined without its own limit. */
  readonly limit: number | undefined;
  /** Bytes per second for all pods of its namespace on this node. */
  readonly namespaceLimit: number | undefined;
  /** Share of lines that sampling keeps. */
  readonly sampled: number;
}

export interface Allowance {
  /** Share of lines that may be sent. */
  readonly share: number;
  /** Bytes above the limit that the pod has not compensated for yet. */
  readonly debt: number;
}

export interface NamespaceAllowance extends Allowance {
  readonly limit: number;
}

export interface MeasuredPod extends Allowance {
  readonly pod: LimitedPod;
  /** Inode → size of each of its log files. */
  readonly sizes: ReadonlyMap<number, number>;
  /** Growth of its files per measurement; the first one only starts the window. */
  readonly growth: readonly { readonly atMs: number; readonly bytes: number }[];
  /** Bytes since the previous measurement. */
  readonly sent: number;
  /** Bytes that were dropped since it was first limited. */
  readonly dropped: number;
}

interface Time {
  readonly atMs: number;
  /** Since the previous measurement. */
  readonly seconds: number;
}

/** If the excess is more than this many seconds of the limit, the share stays reduced. */
const BURST_SECONDS = 10;
/** Limits for how long a single burst can mute a pod. */
const MAX_DEBT_SECONDS = 600;

export function allotPods(measured: ReadonlyMap<string, MeasuredPod>, { atMs, seconds }: Time): Map<string, MeasuredPod> {
  const allotted = new Map<string, MeasuredPod>();
  for (const pods of Map.groupBy(measured, ([, { pod }]) => pod.namespace).values()) {
    const demands = pods.map(([name, before]) => ({ name, before, rate: readRate(before, atMs), wanted: readDemand(before, atMs) }));
    const namespaceLimit = findNamespaceLimit(pods.map(([, pod]) => pod));
    const podLimit = fairLimit(
      demands.map(({ wanted }) => wanted),
      namespaceLimit,
    );
    for (const { name, before, rate, wanted } of demands) {
      const allowed = Math.min(wanted, podLimit);
      const share = allowed < rate * before.pod.sampled ? allowed / rate : 1;
      const limit = Math.min(before.pod.limit ?? Number.POSITIVE_INFINITY, podLimit, namespaceLimit);
      allotted.set(name, { ...before, ...allow(before, share, limit, seconds) });
    }
  }
  return allotted;
}

/** Initial share of new pods in a namespace. It is kept after the pods are gone, until their excess is compensated for. */
export function allotNamespaces(
  measured: ReadonlyMap<string, MeasuredPod>,
  before: ReadonlyMap<string, NamespaceAllowance>,
  { atMs, seconds }: Time,
): Map<string, NamespaceAllowance> {
  const allotted = new Map<string, NamespaceAllowance>();
  const namespaces = Map.groupBy(measured.values(), ({ pod }) => pod.namespace);
  for (const namespace of new Set([...namespaces.keys(), ...before.keys()])) {
    const pods = namespaces.get(namespace) ?? [];
    const previous = before.get(namespace);
    const limit = pods.length > 0 ? findNamespaceLimit(pods) : (previous?.limit ?? 0);
    const wanted = pods.reduce((sum, pod) => sum + readDemand(pod, atMs), 0);
    const sent = pods.reduce((sum, pod) => sum + pod.sent, 0);
    const allowance = allow({ share: 1, debt: 0, ...previous, sent }, wanted > limit ? limit / wanted : 1, limit, seconds);
    if (Number.isFinite(limit) && (pods.length > 0 || allowance.debt > 0)) allotted.set(namespace, { ...allowance, limit });
  }
  return allotted;
}

function allow(before: Allowance & { readonly sent: number }, share: number, limit: number, seconds: number): Allowance {
  if (!Number.isFinite(limit)) return { share, debt: 0 };
  const debt = Math.min(Math.max(0, before.debt + before.sent - limit * seconds), limit * MAX_DEBT_SECONDS);
  return { share: debt > limit * BURST_SECONDS ? Math.min(before.share, share) : share, debt };
}

function findNamespaceLimit(pods: readonly MeasuredPod[]): number {
  return Math.min(...pods.map(({ pod }) => pod.namespaceLimit ?? Number.POSITIVE_INFINITY));
}

/** Bytes per second that the pod would send if only its own limit applied. */
function readDemand(measured: MeasuredPod, atMs: number): number {
  return Math.min(readRate(measured, atMs) * measured.pod.sampled, measured.pod.limit ?? Number.POSITIVE_INFINITY);
}

/** Bytes per second that the pod wrote within the window. */
function readRate({ growth }: MeasuredPod, atMs: number): number {
  const [first, ...later] = growth;
  const seconds = (atMs - (first?.atMs ?? atMs)) / 1000;
  return seconds > 0 ? later.reduce((sum, { bytes }) => sum + bytes, 0) / seconds : 0;
}
