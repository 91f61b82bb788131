// Structured logs of the backend: JSON lines on stdout, one per event, `audit: true` on account and rule changes.
// Invariant: secrets never reach a log; the redaction list below is the second line of defence, not the first.
import { pino, type Logger } from "pino";

export type Log = Logger;

const REDACTED_KEYS = ["authorization", "password", "api_key", "apiKey", "token", "secret", "x-signature", "cookie"];

/** `level` as pino names them. The destination is stdout, where container runtimes and systemd read it. */
export function createLog(level: string, name = "atherops-backend"): Log {
  return pino({
    name,
    level,
    redact: { paths: REDACTED_KEYS.flatMap((key) => [`["${key}"]`, `*["${key}"]`, `*.*["${key}"]`]), censor: "[redacted]" },
    formatters: { level: (label) => ({ level: label }) },
    timestamp: pino.stdTimeFunctions.isoTime,
  });
}
