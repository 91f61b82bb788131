// Whether the agent that has the newest key of a cluster or host is still alive. Invariant: while it is, a registration from another
// installation or from a cloned host must not retire its key.
import type { Transaction } from "kysely";
import type { KeyKind } from "../auth/request-identity.ts";
import { offlineAfterMs } from "./heartbeat.ts";
import { currentKeyTimes } from "./registry.ts";
import type { EnrolmentTables } from "./table.ts";

export interface KeyHolder {
  readonly id: string;
  readonly org_id: string;
  readonly last_heartbeat: Date | null;
  readonly heartbeat_interval_s: number;
}

export interface Living {
  /** Another agent may register once the holder has sent no heartbeat for this long. */
  readonly silentAfterS: number;
  readonly retryAfterS: number;
}

/** Undefined: the holder has no key, or has been silent for long enough. The caller has locked the holder's row. */
export async function livingHolder(
  trx: Transaction<EnrolmentTables>,
  kind: KeyKind,
  { id, org_id, last_heartbeat, heartbeat_interval_s }: KeyHolder,
  { now, startedAt }: { now: number; startedAt: number },
): Promise<Living | undefined> {
  const mintedAt = (await currentKeyTimes(trx, org_id, kind, [id])).get(id);
  if (!mintedAt) return undefined;
  const silentAfterMs = offlineAfterMs(heartbeat_interval_s);
  // A new key counts as a heartbeat, because the first one is still to come. No heartbeat could arrive before this process started.
  const aliveAt = Math.max(mintedAt.getTime(), last_heartbeat?.getTime() ?? 0, startedAt);
  if (now - aliveAt >= silentAfterMs) return undefined;
  return { silentAfterS: silentAfterMs / 1000, retryAfterS: heartbeat_interval_s };
}
