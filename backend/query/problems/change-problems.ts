// Problems that began in the last hour (GET /query/changes): services that got worse, error patterns that are new, memory that grows. Each
// has its likely cause: a new version, an attribute, or a changed configuration of the same service. Invariant: an organisation's comparison
// is made at most once a minute in each process, however many consoles are open.
import { UNLIMITED } from "../../admission/query-queue.ts";
import { type Change, type Comparison, NothingBefore } from "../changes/change.ts";
import { type ChangeSources, findParts, telemetryParts } from "../changes/find-changes.ts";
import { rankChanges } from "../changes/rank.ts";
import { MAX_CHANGES, MAX_CHANGES_PART_MS, MAX_REMEMBERED_CHANGES, REMEMBERED_CHANGES_MS } from "../query-limits.ts";
import type { Problem } from "./problem.ts";

interface RecentlyChanged {
  readonly changes: readonly Change[];
  /** Parts that could not be compared. */
  readonly missing: readonly string[];
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const MAX_CAUSES = 2;

interface Remembered {
  readonly atMs: number;
  readonly found: Promise<RecentlyChanged>;
}

export class RecentChanges {
  readonly #sources: ChangeSources;
  readonly #remembered = new Map<string, Remembered>();

  constructor(sources: ChangeSources) {
    this.#sources = sources;
  }

  /** The changes of the last hour, as of at most a minute ago. */
  async of(orgId: string, nowMs: number): Promise<RecentlyChanged> {
    const known = this.#remembered.get(orgId);
    // The clock may have been set back.
    if (known && Math.abs(nowMs - known.atMs) < REMEMBERED_CHANGES_MS) return await known.found;
    const found = this.#compare(orgId, nowMs);
    this.#remembered.delete(orgId);
    const [oldest] = this.#remembered.keys();
    if (oldest !== undefined && this.#remembered.size >= MAX_REMEMBERED_CHANGES) this.#remembered.delete(oldest);
    this.#remembered.set(orgId, { atMs: nowMs, found });
    return await found;
  }

  /** Never throws: a part that fails is missing. The clients of one organisation share it, so no client cancels it. */
  async #compare(orgId: string, nowMs: number): Promise<RecentlyChanged> {
    const endMs = Math.ceil(nowMs / MINUTE_MS) * MINUTE_MS;
    const now = { startMs: endMs - HOUR_MS, endMs };
    const comparison: Comparison = { now, before: { startMs: now.startMs - HOUR_MS, endMs: now.startMs } };
    // The answer is kept for all readers of the organisation, so the route refuses readers with limits.
    const limits = { partMs: MAX_CHANGES_PART_MS, optionsOf: () => UNLIMITED };
    const { changes, failures } = await findParts(telemetryParts(this.#sources, orgId, comparison), limits);
    const missing = failures.filter(({ error }) => !(error instanceof NothingBefore)).map(({ part }) => part);
    return { changes: rankChanges(changes, HOUR_MS, MAX_CHANGES), missing };
  }
}

const KINDS: Readonly<Partial<Record<Change["kind"], Problem["kind"]>>> = {
  errors: "service",
  latency: "service",
  rate: "service",
  logs: "logs",
  resource: "resource",
};
const ACTIONS: Readonly<Partial<Record<Change["kind"], string>>> = {
  errors: "Failed traces",
  latency: "Slowest traces",
  rate: "Service",
  logs: "Records",
  resource: "Chart",
};
/** States of pods, nodes, disks, agents and alerts are read as they are now, so their changes would be listed twice. */
const ABOUT_DISKS = /^(file system|volume) /;

/** A service that was not called before is new, and more calls than before are no problem by themselves. */
function isHarmless({ kind, severity, before = 0, now = 0, title }: Change): boolean {
  return severity !== "problem" || ABOUT_DISKS.test(title) || (kind === "rate" && now >= before);
}

/** The most important problem of each service, and of each pattern. */
export function describeChanges(changes: readonly Change[]): Problem[] {
  const seen = new Set<string>();
  return changes.flatMap((change): Problem[] => {
    const kind = KINDS[change.kind];
    if (kind === undefined || isHarmless(change)) return [];
    const key = `${kind} ${kind === "service" ? change.service : change.subject}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [
      {
        kind,
        severity: kind === "service" ? "critical" : "warning",
        score: change.score,
        title: change.title,
        detail: causesOf(change, changes) || undefined,
        sinceMs: change.since_ms,
        action: ACTIONS[change.kind] ?? "Open",
        link: change.link,
      },
    ];
  });
}

/** Attributes are compared for failed and slow spans only. */
const CAUSES = new Map<Change["kind"], readonly Change["kind"][]>([
  ["errors", ["version", "attribute", "audit"]],
  ["latency", ["version", "attribute", "audit"]],
]);

function causesOf({ kind, service, title }: Change, changes: readonly Change[]): string {
  if (service === undefined) return "";
  const causes = CAUSES.get(kind) ?? ["version", "audit"];
  return changes
    .filter((other) => other.service === service && causes.includes(other.kind) && other.title !== title)
    .slice(0, MAX_CAUSES)
    .map((cause) => cause.title)
    .join("; ");
}
