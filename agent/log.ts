// Structured logs of the agent: JSON lines on stdout, one per event, including the supervised collector's lines. Invariant: secrets never
// reach a log; the redaction list below is only the second line of defence.
import { pino, type DestinationStream, type Logger } from "pino";
import type { LogLevel } from "./settings.ts";

export type Log = Logger;

const REDACTED_KEYS = ["authorization", "password", "api_key", "apiKey", "token", "installToken", "secret", "x-signature", "cookie"];

/** The root logger, and a function that sets its level and that of all its children (remote configuration). */
export interface LogControl {
  readonly log: Log;
  setLevel(level: LogLevel): void;
}

/** `destination` defaults to stdout, where container runtimes and systemd read it. */
export function createLog(level: LogLevel, name: string, destination: DestinationStream = pino.destination({ sync: true })): LogControl {
  const children = new Set<WeakRef<Logger>>();
  const log = pino(
    {
      name,
      level,
      redact: { paths: REDACTED_KEYS.flatMap((key) => [`["${key}"]`, `*["${key}"]`, `*.*["${key}"]`]), censor: "[redacted]" },
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      onChild: (child) => children.add(new WeakRef(child)),
    },
    destination,
  );
  const setLevel = (next: LogLevel): void => {
    log.level = next;
    for (const reference of children) {
      const child = reference.deref();
      if (child) child.level = next;
      else children.delete(reference);
    }
  };
  return { log, setLevel };
}
