// Writes the structured logs of the backend: JSON lines on stdout, one per event, with `audit: true` for changes to accounts and rules.
// Invariant: secrets never reach a log. Only the error fields listed here are logged, because drivers attach the values of a statement to
// their errors; the redaction list is only the second line of defence.
import { pino, type DestinationStream, type Logger, type LoggerOptions } from "pino";
import { MAX_CAUSES, MAX_ERRORS, MAX_LOG_TEXT_LENGTH } from "./operations/operations-limits.ts";

export type Log = Logger;

const REDACTED_KEYS = ["authorization", "password", "api_key", "apiKey", "token", "secret", "x-signature", "cookie"];

/** Fields of an error that are logged in addition to its type, message and stack, if they are numbers or texts. */
const ERROR_FIELDS = ["code", "status", "statusCode", "errno", "syscall", "address", "port", "path", "signal", "exitCode"];
/** Fields of PostgreSQL errors that name parts of the schema; never `detail`, `where` or `query`, which contain values. */
const DATABASE_FIELDS = ["severity", "schema", "table", "column", "dataType", "constraint", "routine"];

/** Serialises an error with the fields above and its causes. */
function loggedError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error === "object" && error !== null ? { type: error.constructor?.name } : error;
  const written: Record<string, unknown> = {
    type: error.name === "Error" ? error.constructor.name : error.name,
    message: error.message.slice(0, MAX_LOG_TEXT_LENGTH),
    stack: error.stack?.slice(0, MAX_LOG_TEXT_LENGTH),
  };
  for (const name of [...ERROR_FIELDS, ...DATABASE_FIELDS]) {
    const value: unknown = Reflect.get(error, name);
    if (typeof value === "number" || typeof value === "string") written[name] = value;
  }
  if (depth >= MAX_CAUSES) return written;
  if (error.cause !== undefined) written["cause"] = loggedError(error.cause, depth + 1);
  if (error instanceof AggregateError) written["errors"] = error.errors.slice(0, MAX_ERRORS).map((inner) => loggedError(inner, depth + 1));
  return written;
}

/** `level` as in pino. The destination is stdout, which container runtimes and systemd collect. */
export function createLog(level: string, name = "atherops-backend", destination?: DestinationStream): Log {
  const options: LoggerOptions = {
    name,
    level,
    redact: { paths: REDACTED_KEYS.flatMap((key) => [`["${key}"]`, `*["${key}"]`, `*.*["${key}"]`]), censor: "[redacted]" },
    serializers: { err: loggedError, error: loggedError, cause: loggedError },
    formatters: { level: (label) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
  };
  return destination ? pino(options, destination) : pino(options);
}
