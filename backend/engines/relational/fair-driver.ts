// Shares the connections of the relational store between the organisations whose requests need one. Invariant: a statement waits for at most
// one statement or transaction of each other organisation, however many of them wait, and never longer than `waitMs`.
import type { DatabaseConnection, Driver } from "kysely";
import { FairQueue } from "../../admission/fair-queue.ts";
import { currentOwner } from "../../admission/request-owner.ts";
import { MAX_WAITING_STATEMENTS_PER_ORG } from "../engine-limits.ts";

const WAIT_MS = 5_000;
const RETRY_AFTER_S = 2;

export interface SharedConnections {
  readonly connections: number;
  readonly waitMs?: number | undefined;
}

/** Statements of the organisation, or a transaction, took too long. */
class NoConnection extends Error {
  /** SQLSTATE `lock_not_available`. */
  readonly code = "55P03";
}

export function shareConnections(driver: Driver, { connections, waitMs = WAIT_MS }: SharedConnections): Driver {
  const queue = new FairQueue({
    running: connections,
    endsSoon: true,
    waitingPerOrg: MAX_WAITING_STATEMENTS_PER_ORG,
    fullMessage: "too many requests of this organisation wait for the account database: try again",
    retryAfterS: RETRY_AFTER_S,
  });
  const releases = new WeakMap<DatabaseConnection, () => void>();
  const acquire = driver.acquireConnection.bind(driver);
  const release = driver.releaseConnection.bind(driver);
  driver.acquireConnection = async (options) => {
    const isFree = queue.running < connections;
    const slot = await queue.enter(currentOwner(), isFree ? undefined : AbortSignal.timeout(waitMs)).catch(toNoConnection);
    try {
      const connection = await acquire(options);
      releases.set(connection, slot);
      return connection;
    } catch (error) {
      slot();
      throw error;
    }
  };
  driver.releaseConnection = async (connection, options) => {
    const slot = releases.get(connection);
    try {
      await release(connection, options);
    } finally {
      slot?.();
    }
  };
  return driver;
}

function toNoConnection(cause: Error): never {
  if (cause.name !== "TimeoutError") throw cause;
  throw new NoConnection("the account database was busy for too long", { cause });
}
