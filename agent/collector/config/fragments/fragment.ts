// What a source of telemetry adds to the collector's configuration: each file of this folder makes a fragment, and collector-config.ts joins
// them. Also here: the operator's edits of all telemetry (drop, sample, redact), which every pipeline ends with.
import type { Signal } from "../../../settings.ts";

/** A component's configuration as the collector documents it; strings are literal (render.ts escapes `$`). */
export type Component = Readonly<Record<string, unknown>>;

export const CHECKPOINT_STORAGE = "file_storage/checkpoints";

/** What one source of telemetry adds; memory limit, node name and exporter are put around its processors by `collectorConfig`. */
export interface Fragment {
  readonly receivers?: Readonly<Record<string, Component>>;
  readonly processors?: Readonly<Record<string, Component>>;
  readonly pipelines: readonly FragmentPipeline[];
}

export interface FragmentPipeline {
  readonly id: string;
  readonly receivers: readonly string[];
  readonly processors: readonly string[];
  /** Its source can wait, as a file can; an application is asked to retry instead. */
  readonly waits?: boolean;
}

// What operators take out of telemetry on the node: records and series dropped by expression, a part of the traces, patterns made
// unreadable. Invariant: it is last in each pipeline, before the disk queue, so that nothing of it is written to a disk or sent.

export interface EditsInput {
  /** Regular expressions (RE2); what matches becomes `****`. */
  readonly redact: readonly string[];
  /** Conditions of the collector's filter processor (OTTL); a record that one is true for is dropped. */
  readonly drop: Readonly<Record<Signal, readonly string[]>>;
  /** 100: all. Of the trace id, so that all nodes keep the same traces. */
  readonly tracesSamplePercent: number;
}

/** Ids of the processors of a signal, in their order. */
export function editsOf(signal: Signal, { redact, drop, tracesSamplePercent }: EditsInput): string[] {
  return [
    ...(drop[signal].length > 0 ? ["filter/drop"] : []),
    ...(signal === "traces" && tracesSamplePercent < 100 ? ["probabilistic_sampler"] : []),
    ...(redact.length > 0 ? ["redaction", ...(signal === "traces" ? ["transform/redaction"] : [])] : []),
  ];
}

export function edits({ redact, drop, tracesSamplePercent }: EditsInput, signals: readonly Signal[]): Record<string, Component> {
  const dropped = signals.filter((signal) => drop[signal].length > 0);
  return {
    ...(dropped.length > 0 && {
      // A condition that does not fit a record drops nothing.
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
    ...(redact.length > 0 && signals.includes("traces") && { "transform/redaction": ofSpans(redact) }),
  };
}

const CONDITIONS: Readonly<Record<Signal, string>> = { logs: "log_conditions", traces: "trace_conditions", metrics: "metric_conditions" };

/** What the redaction processor (v0.149) leaves as it is. */
function ofSpans(patterns: readonly string[]): Component {
  const statements = (...fields: string[]): string[] =>
    fields.flatMap((field) => patterns.map((pattern) => `replace_pattern(${field}, ${JSON.stringify(pattern)}, "****")`));
  return {
    // A body in which a pattern cannot be hidden is refused, and its sender gets the error.
    error_mode: "propagate",
    trace_statements: [
      { context: "span", statements: statements("span.name", "span.status.message") },
      { context: "spanevent", statements: statements("spanevent.name") },
    ],
  };
}
