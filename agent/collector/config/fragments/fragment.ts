// What a source of telemetry adds to the collector's configuration; collector-config.ts joins the fragments, fragments/ make them.

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
