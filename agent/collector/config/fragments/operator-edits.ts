// Builds the processors with which operators filter, sample and redact telemetry on the node. Invariant: these processors are the last ones in
// each pipeline, so that dropped or redacted data reaches neither the disk queue nor the network.
import type { Signal } from "../../../settings.ts";
import type { Component } from "./fragment.ts";

export interface EditsInput {
  /** Regular expressions (RE2); each match is replaced by `****`. */
  readonly redact: readonly string[];
  /** OTTL conditions for the collector's filter processor, which drops a record if any of them is true. */
  readonly drop: Readonly<Record<Signal, readonly string[]>>;
  /** Percentage of traces to keep. Sampling depends on the trace id, so that all nodes keep the same traces. */
  readonly tracesSamplePercent: number;
}

/** Returns the ids of a signal's processors, in order. */
export function editProcessorIds(signal: Signal, { redact, drop, tracesSamplePercent }: EditsInput): string[] {
  return [
    ...(drop[signal].length > 0 ? ["filter/drop"] : []),
    ...(signal === "traces" && tracesSamplePercent < 100 ? ["probabilistic_sampler"] : []),
    ...(redact.length > 0 ? ["redaction", ...(signal === "traces" ? ["transform/redaction"] : [])] : []),
  ];
}

export function editProcessors({ redact, drop, tracesSamplePercent }: EditsInput, signals: readonly Signal[]): Record<string, Component> {
  const filteredSignals = signals.filter((signal) => drop[signal].length > 0);
  return {
    ...(filteredSignals.length > 0 && {
      // Keeps a record if a condition cannot be evaluated on it.
      "filter/drop": { error_mode: "ignore", ...Object.fromEntries(filteredSignals.map((signal) => [CONDITIONS[signal], drop[signal]])) },
    }),
    ...(signals.includes("traces") && tracesSamplePercent < 100 && { probabilistic_sampler: { sampling_percentage: tracesSamplePercent } }),
    ...(redact.length > 0 && {
      redaction: {
        allow_all_keys: true,
        blocked_values: redact,
        redact_all_types: true,
        // Path and offset identify a line that is read again (agent/collector/files), so they must not change.
        ignored_keys: ["log.file.path", "log.file.record_offset"],
        summary: "silent",
      },
    }),
    ...(redact.length > 0 && signals.includes("traces") && { "transform/redaction": redactSpans(redact) }),
  };
}

const CONDITIONS: Readonly<Record<Signal, string>> = { logs: "log_conditions", traces: "trace_conditions", metrics: "metric_conditions" };

/** Redacts span names, status messages and event names, which the redaction processor (v0.149) does not change. */
function redactSpans(patterns: readonly string[]): Component {
  const statements = (...fields: string[]): string[] =>
    fields.flatMap((field) => patterns.map((pattern) => `replace_pattern(${field}, ${JSON.stringify(pattern)}, "****")`));
  return {
    // If a pattern cannot be applied, the collector rejects the whole request, and its sender gets the error.
    error_mode: "propagate",
    trace_statements: [
      { context: "span", statements: statements("span.name", "span.status.message") },
      { context: "spanevent", statements: statements("spanevent.name") },
    ],
  };
}
