// What a remote configuration of a host may say: intervals, log paths, signals and log level, and nothing else. Invariant: an unknown field
// or a malformed value is refused when it is written; the host judges again, with its own list of allowed paths.
import { UNFIT_CHARACTERS } from "../http/schemas.ts";

const interval = { type: "string", pattern: "^[1-9][0-9]{0,5}(ms|s|m|h)$", description: "a duration such as 500ms, 30s or 5m" } as const;

export const HOST_CONFIG_SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    intervals: { type: "object", additionalProperties: false, properties: { metrics: interval, heartbeat: interval } },
    log_paths: {
      type: "array",
      maxItems: 100,
      uniqueItems: true,
      items: {
        type: "string",
        maxLength: 1000,
        pattern: `^/[^${UNFIT_CHARACTERS}]*$`,
        description: "an absolute path without control characters",
      },
    },
    signals: { type: "array", uniqueItems: true, items: { type: "string", enum: ["metrics", "logs", "traces"] } },
    log_level: { type: "string", enum: ["debug", "info", "warn", "error"] },
  },
} as const;

export const HOST_CONFIG_RESPONSE_SCHEMA = {
  type: "object",
  required: ["version", "config"],
  properties: { version: { type: "string" }, config: HOST_CONFIG_SCHEMA },
} as const;
