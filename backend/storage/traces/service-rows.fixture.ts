// What GET /query/services and the paths below it return, for tests.

/** Rate, errors and duration of a group of spans. */
export interface RedFigures {
  readonly calls: number;
  readonly errors: number;
  /** Calls per second, averaged over the range. */
  readonly rate: number;
  readonly error_ratio: number;
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly p99_ms: number | null;
}

/** An element of GET /query/services. */
export interface ServiceRow extends RedFigures {
  readonly service: string;
  readonly operations: readonly { readonly operation: string; readonly kinds: readonly string[] }[];
  /** One element for each point of the range. */
  readonly series: { readonly calls: readonly number[]; readonly errors: readonly number[]; readonly p95_ms: readonly (number | null)[] };
}

/** An element of GET /query/services/{service}/operations. */
export interface OperationRow extends RedFigures {
  readonly operation: string;
  readonly kind: string;
}

/** An element of GET /query/services/{service}/timeseries. */
export interface RedPoint extends RedFigures {
  readonly start: string;
  readonly end: string;
}
