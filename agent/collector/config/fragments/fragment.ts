// The contribution of one source of telemetry to the collector's configuration. Each other file of this folder builds such a fragment, and
// collector-config.ts joins them: it adds the memory limit and the node's name before the processors of each pipeline, and the operator's
// edits and the exporter after them. A fragment for one receiver looks like this:
//
//   {
//     receivers: { "hostmetrics": { collection_interval: "30s" } },
//     pipelines: [{ id: "metrics/host", receivers: ["hostmetrics"], processors: [] }],
//   }

/** A component's configuration as the collector documents it; strings are literal (render.ts escapes `$`). */
export type Component = Readonly<Record<string, unknown>>;

export const CHECKPOINT_STORAGE = "file_storage/checkpoints";

/**
 * Configuration that one source of telemetry adds. `collectorConfig` adds the memory limit, node name and exporter around its processors.
 */
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
