// A fragment is the part of the collector's configuration for one source of telemetry. Most files of this folder build one or two; the
// others build processors or log operators for them. collector-config.ts joins the fragments: it adds the memory limiter before the
// processors of each pipeline, and after them the node's name, the operator's edits (redaction, dropped data, sampling) and the exporter.
// Example:
//
//   {
//     receivers: { "hostmetrics": { collection_interval: "30s" } },
//     pipelines: [{ id: "metrics/host", receivers: ["hostmetrics"], processors: [] }],
//   }

/** A component's configuration as the collector documents it; strings are literal (render.ts escapes `$`). */
export type Component = Readonly<Record<string, unknown>>;

export const CHECKPOINT_STORAGE = "file_storage/checkpoints";

export interface Fragment {
  readonly receivers?: Readonly<Record<string, Component>>;
  readonly processors?: Readonly<Record<string, Component>>;
  readonly pipelines: readonly FragmentPipeline[];
}

export interface FragmentPipeline {
  /** `<signal>/<name>`, such as `metrics/host`. */
  readonly id: string;
  readonly receivers: readonly string[];
  /** Processors in execution order. */
  readonly processors: readonly string[];
  /** True if a full queue blocks the source, such as a file reader; otherwise, the sender gets an error and retries. */
  readonly blocks?: boolean;
}
