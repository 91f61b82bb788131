// The ingest entry of logs: POST /ingest/logs/otlp after the door has authenticated and decompressed. Rules: otlp-ingest.ts.
import type { OtlpDecoder } from "../ingest/otlp-decoder.ts";
import { createOtlpIngest, type IngestOtlp } from "../ingest/otlp-ingest.ts";
import type { LogStore } from "./store.ts";

export function createLogIngest(options: { store: LogStore; decoder: OtlpDecoder; retentionDays: number }): IngestOtlp {
  return createOtlpIngest({ signal: "logs", ...options });
}
