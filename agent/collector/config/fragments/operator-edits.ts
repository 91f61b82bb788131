// Removes telemetry on the node as operators configure it: drops records and series by expression, samples traces, redacts patterns.
// Invariant: these processors are the last ones of each pipeline, before the disk queue, so that removed data reaches neither disk nor
// network.
import type { Signal } from "../../../settings.ts";
import type { Component } from "./fragment.ts";

export interface EditsInput {
  /** Regular expressions (RE2); each match becomes `****`. */
  readonly redact: readonly string[];
  /** Conditions of the collector's filter processor (OTTL); a record is dropped if one of them is true. */
  readonly drop: Readonly<Record<Signal, readonly string[]>>;
  /** 100 keeps all. Decided by the trace id, so that all nodes keep the same traces. */
  readonly tracesSamplePercent: number;
}

/** Ids of the processors of a signal, in order. */
export function editProcessorIds(signal: Signal, { redact, drop, tracesSamplePercent }: EditsInput): string[] {
  return [
    ...(drop[signal].length > 0 ? ["filter/drop"] : []),
    ...(signal === "traces" && tracesSamplePercent < 100 ? ["probabilistic_sampler"] : []),
    ...(redact.length > 0 ? ["redaction", ...(signal === "traces" ? ["transform/redaction"] : [])] : []),
  ];
}

export function editProcessors({ redact, drop, tracesSamplePercent }: EditsInput, signals: readonly Signal[]): Record<string, Component> {
  const dropped = signals.filter((signal) => drop[signal].length > 0);
  return {
    ...(dropped.length > 0 && {
      // If a condition cannot be evaluated on a record, the record is kept.
      "filter/drop": { error_mode: "ignore", ...Object.fromEntries(dropped.map((signal) => [CONDITIONS[signal], drop[signal]])) },
    }),
    ...(signals.includes("traces") && tracesSamplePercent < 100 && { probabilistic_sampler: { sampling_percentage: tracesSamplePercent } }),
    ...(redact.length > 0 && {
      redaction: {
        allow_all_keys: true,
        blocked_values: redact,
        redact_all_types: true,
        // The offset of a line in its file, which identifies a line that is read again (agent/collector/files).
        ignored_keys: ["log.file.path", "log.file.record_offset"],
        summary: "silent",
      },
    }),
    ...(redact.length > 0 && signals.includes("traces") && { "transform/redaction": redactSpans(redact) }),
  };
}

const CONDITIONS: Readonly<Record<Signal, string>> = { logs: "log_conditions", traces: "trace_conditions", metrics: "metric_conditions" };

/** Redacts names, messages and events of spans, which the redaction processor (v0.149) leaves as they are. */
function redactSpans(patterns: readonly string[]): Component {
  const statements = (...fields: string[]): string[] =>
    fields.flatMap((field) => patterns.map((pattern) => `replace_pattern(${field}, ${JSON.stringify(pattern)}, "****")`));
  return {
    // If a pattern cannot be redacted, the whole body is refused, and its sender gets the error.
    error_mode: "propagate",
    trace_statements: [
      { context: "span", statements: statements("span.name", "span.status.message") },
      { context: "spanevent", statements: statements("spanevent.name") },
    ],
  };
}
