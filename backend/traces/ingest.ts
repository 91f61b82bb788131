// The ingest entry of spans: POST /ingest/traces after the door has authenticated and decompressed. Rules: otlp-ingest.ts.
import type { OtlpDecoder } from "../ingest/otlp-decoder.ts";
import { createOtlpIngest, type IngestOtlp } from "../ingest/otlp-ingest.ts";
import type { SpanStore } from "./store.ts";

export function createTraceIngest(options: { store: SpanStore; decoder: OtlpDecoder; retentionDays: number }): IngestOtlp {
  return createOtlpIngest({ signal: "traces", ...options });
}
