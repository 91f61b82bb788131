// Distinguishes an unreachable and an overloaded database from every other failure of a statement, for all statements in one place. Invariant:
// a failed connection becomes `storage_unavailable` (502), a statement that took or waited too long `unavailable` (503), both with Retry-After;
// errors of the statement itself pass unchanged.
import type { AbortableOperationOptions, CompiledQuery, DatabaseConnection, Dialect, Driver, QueryResult } from "kysely";
import { ApiError } from "../../errors.ts";
import { shareConnections, type SharedConnections } from "./fair-driver.ts";

const RETRY_AFTER_S = 2;
/**
 * SQLSTATE classes and codes of a server that is unreachable, starting or stopping, or has no disk space, memory or connection left, so
 * that a later retry may succeed (PostgreSQL documentation, appendix A).
 */
const AWAY_SQLSTATE = /^(08...|53...|57P0[123]|58030)$/;
const AWAY_ERRNO = new Set("ECONNREFUSED ECONNRESET EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH ENOENT".split(" "));
/** Too many connections, a statement cancelled after its timeout, a lock timeout, a serialization failure, a deadlock. */
const BUSY_SQLSTATE = /^(53300|57014|55P03|40001|40P01)$/;
/** pg reports these without a code. */
const AWAY_MESSAGE = /connection terminated|client has encountered a connection error/i;
/** Timeouts of the pool, of the connection to the server, and of a response. */
const BUSY_MESSAGE = /timeout exceeded when trying to connect|connection terminated due to connection timeout|query read timeout/i;

export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError) return error.errors.some(isUnreachable);
  const code = (error as NodeJS.ErrnoException).code;
  return (code !== undefined && (AWAY_ERRNO.has(code) || AWAY_SQLSTATE.test(code))) || AWAY_MESSAGE.test(error.message);
}

/** True if the statement failed because it took too long, or waited too long for a connection. */
export function isOverloaded(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return (code !== undefined && BUSY_SQLSTATE.test(code)) || BUSY_MESSAGE.test(error.message);
}

function reported(error: unknown): unknown {
  if (isOverloaded(error))
    return new ApiError("unavailable", "the account database has too much to do: try again", { cause: error, retryAfterS: RETRY_AFTER_S });
  if (!isUnreachable(error)) return error;
  return new ApiError("storage_unavailable", "the account database cannot be reached or has no room: try again", {
    cause: error,
    retryAfterS: RETRY_AFTER_S,
  });
}

/** Wraps another dialect: shares its connections between organisations, and turns connection failures into ApiError. */
export function reportingDialect(inner: Dialect, shared: SharedConnections): Dialect {
  return {
    createDriver: () => reportingDriver(shareConnections(inner.createDriver(), shared)),
    createAdapter: () => inner.createAdapter(),
    createQueryCompiler: () => inner.createQueryCompiler(),
    createIntrospector: (db) => inner.createIntrospector(db),
  };
}

function reportingDriver(driver: Driver): Driver {
  const seen = new WeakSet<DatabaseConnection>();
  const acquire = driver.acquireConnection.bind(driver);
  driver.acquireConnection = async (options) => {
    const connection = await acquire(options).catch((error: unknown) => Promise.reject(reported(error)));
    if (seen.has(connection)) return connection;
    seen.add(connection);
    const execute = connection.executeQuery.bind(connection);
    connection.executeQuery = <R>(query: CompiledQuery, options?: AbortableOperationOptions): Promise<QueryResult<R>> =>
      execute<R>(query, options).catch((error: unknown) => Promise.reject(reported(error)));
    return connection;
  };
  return driver;
}
