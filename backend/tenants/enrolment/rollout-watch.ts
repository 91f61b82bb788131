// Stops the rollout of a cluster's remote configuration when nodes that use it become unhealthy: all nodes then get the previous
// configuration. The first replica watches each stage for its first hour. Invariants: a cluster that sends no heartbeats is skipped, so an
// outage of the backend stops no rollout; a stage that an administrator has just changed is not stopped.
import type { Kysely } from "kysely";
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { AuditTrail } from "../../auth/audit/trail.ts";
import type { Log } from "../../log.ts";
import type { ReplicaSet } from "../../replicas/replica-set.ts";
import { isOnline, offlineAfterMs } from "./heartbeats.ts";
import { findReason, readNodes, slowestIntervalS } from "./rollout-health.ts";
import type { EnrolmentTables } from "./enrolment-tables.ts";

export interface RolloutWatchOptions {
  readonly db: Kysely<EnrolmentTables>;
  readonly log: Log;
  readonly trail: Pick<AuditTrail, "add">;
  readonly replicas: Pick<ReplicaSet, "isFirst">;
  readonly nowMs?: () => number;
}

const EVERY_MS = 15_000;
/** Stages of one organisation that a pass checks, least recently checked first. A stage of 5,000 nodes costs about 80 ms of CPU. */
const MAX_STAGES_PER_PASS = 10;

/** Unix milliseconds. */
interface WatchedStage {
  readonly checkedMs?: number | undefined;
  readonly worseSinceMs?: number | undefined;
}

export class RolloutWatch implements AsyncDisposable {
  readonly #options: RolloutWatchOptions;
  readonly #loop: Loop;
  /** The watched stages by their `key`. */
  #watched: ReadonlyMap<string, WatchedStage> = new Map();

  constructor(options: RolloutWatchOptions) {
    this.#options = options;
    const { log } = options;
    const outage = new Outage({
      began: (err) => log.error({ event: "rollout.unwatched", err }, "cannot watch rollouts of remote configuration, retrying"),
      ended: () => log.info({ event: "rollout.watched" }, "recovered: rollouts of remote configuration are watched again"),
    });
    this.#loop = new Loop({
      firstAfterMs: EVERY_MS,
      step: async () => {
        if (options.replicas.isFirst) await this.pass();
        outage.recovered();
        return EVERY_MS;
      },
      failed: (error) => outage.failed(error),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  async pass(): Promise<void> {
    const nowMs = this.#options.nowMs?.() ?? Date.now();
    const watched = new Map<string, WatchedStage>();
    for (const stages of Map.groupBy(await findStages(this.#options.db, nowMs), ({ org_id }) => org_id).values()) {
      const watchedStages = stages.map((stage) => ({ stage, ...this.#watched.get(stage.key) }));
      const byAge = watchedStages.toSorted((a, b) => (a.checkedMs ?? 0) - (b.checkedMs ?? 0));
      for (const { stage, ...state } of byAge.slice(MAX_STAGES_PER_PASS)) watched.set(stage.key, state);
      for (const { stage, worseSinceMs } of byAge.slice(0, MAX_STAGES_PER_PASS))
        watched.set(stage.key, await this.#check(stage, worseSinceMs, nowMs));
    }
    this.#watched = watched;
  }

  async #check(stage: Stage, worseSinceMs: number | undefined, nowMs: number): Promise<WatchedStage> {
    const reason = isOnline(stage.last_heartbeat, stage.intervalS, nowMs) ? await this.#findReason(stage, nowMs) : undefined;
    if (reason === undefined) return { checkedMs: nowMs };
    const sinceMs = worseSinceMs ?? nowMs;
    // A change restarts the collectors, so problems count only if they last as long as a node may be silent.
    if (nowMs - sinceMs >= offlineAfterMs(stage.intervalS)) await this.#stop(stage, reason);
    return { checkedMs: nowMs, worseSinceMs: sinceMs };
  }

  async #findReason(stage: Stage, nowMs: number): Promise<string | undefined> {
    const nodes = await readNodes(this.#options.db, stage.id);
    const { id: clusterId, config_percent: percent, intervalS, config_unhealthy_before: unhealthyBefore } = stage;
    return findReason({ clusterId, percent, intervalS, unhealthyBefore }, nodes, nowMs);
  }

  async #stop({ id, org_id, config_version, config_watched_until }: Stage, reason: string): Promise<void> {
    const { db, log, trail } = this.#options;
    const stopped = await db
      .updateTable("clusters")
      .set({ config_percent: 0, config_watched_until: null, config_stopped: reason })
      .where("id", "=", id)
      .where("config_version", "=", config_version)
      .where("config_watched_until", "=", config_watched_until)
      .returning("id")
      .executeTakeFirst();
    if (!stopped) return;
    const subject = { cluster_id: id, version: config_version, reason };
    log.warn({ event: "rollout.stopped", org_id, ...subject }, "stopped the rollout of a cluster's remote configuration");
    const noActor = { actor: undefined, actorId: undefined, actorOrgId: undefined, address: "", requestId: "" };
    trail.add({ action: "cluster.config_stopped", orgId: org_id, ...noActor, subject });
  }
}

type Stage = Awaited<ReturnType<typeof findStages>>[number];

async function findStages(db: Kysely<EnrolmentTables>, nowMs: number) {
  const stages = await db
    .selectFrom("clusters")
    .select(["id", "org_id", "last_heartbeat", "heartbeat_interval_s", "config_version", "config_percent"])
    .select(["config_unhealthy_before", "config_watched_until", "config", "previous_config"])
    .where("config_watched_until", ">", new Date(nowMs))
    .execute();
  return stages.map(({ config, previous_config, ...stage }) => ({
    ...stage,
    key: `${stage.id} ${stage.config_version} ${stage.config_watched_until?.getTime()}`,
    intervalS: slowestIntervalS(stage.heartbeat_interval_s, config, previous_config),
  }));
}
