// Reads the structure that OTLP requests of all signals share: resources, which contain scopes, which contain records. Source:
// opentelemetry-proto, collector/{logs,trace,metrics}/v1. Unknown fields are kept.
import { BodyError } from "../otlp-metrics/document.ts";
import { BYTES, type WireReader } from "./wire-reader.ts";

/** Numbers of fields. */
export const REQUEST = { resources: 1 } as const;
export const RESOURCE_RECORDS = { resource: 1, scopes: 2 } as const;
export const SCOPE_RECORDS = { scope: 1, records: 2 } as const;
export const KEY_VALUE = { key: 1, value: 2 } as const;
export const ANY_VALUE = { string: 1, int: 3 } as const;
export const RESOURCE = { attributes: 1 } as const;
export const SCOPE = { name: 1 } as const;
export const LOG_RECORD = { time: 1, body: 5, attributes: 6, observedTime: 11 } as const;
/** Gauge, sum, histogram, exponential histogram and summary. */
const METRIC_DATA: readonly number[] = [5, 7, 9, 10, 11];
const DATA_POINTS = 1;

/** A field with its tag, as offsets in the request. */
export interface FieldRange {
  readonly tagStart: number;
  readonly start: number;
  readonly end: number;
}

export interface ScopeFields {
  /** Everything but records. */
  readonly rest: readonly FieldRange[];
  /** The name of the instrumentation scope. */
  readonly name: string;
  readonly records: readonly FieldRange[];
}

export interface ResourceFields {
  /** Everything but scopes. */
  readonly rest: readonly FieldRange[];
  readonly resource: FieldRange | undefined;
  readonly scopes: readonly ScopeFields[];
  readonly bytes: number;
}

/**
 * `maxParts`: how many resources, scopes and records a request may have, because each needs more memory than it has bytes. Throws BodyError
 * "malformed" and "too_large".
 */
export function readResources(reader: WireReader, maxParts: number): ResourceFields[] {
  let parts = 0;
  const count = (): void => {
    parts += 1;
    if (parts > maxParts) throw new BodyError("too_large", `a request with more than ${maxParts} records, scopes and resources`);
  };
  const resources: ResourceFields[] = [];
  reader.message(0, reader.bytes.length, () => {
    if (reader.field !== REQUEST.resources) return;
    reader.expect(BYTES, "a resource's records");
    resources.push(readResource(reader, count));
  });
  return resources;
}

function readResource(reader: WireReader, count: () => void): ResourceFields {
  count();
  const { start, end } = reader;
  const rest: FieldRange[] = [];
  const scopes: ScopeFields[] = [];
  let resource: FieldRange | undefined;
  reader.message(start, end, () => {
    if (reader.field !== RESOURCE_RECORDS.scopes) {
      rest.push(rangeOf(reader));
      if (reader.field === RESOURCE_RECORDS.resource) resource = rest.at(-1);
      return;
    }
    reader.expect(BYTES, "a scope's records");
    scopes.push(readScope(reader, count));
  });
  return { rest, resource, scopes, bytes: end - start };
}

function readScope(reader: WireReader, count: () => void): ScopeFields {
  count();
  const rest: FieldRange[] = [];
  const records: FieldRange[] = [];
  let name = "";
  reader.message(reader.start, reader.end, () => {
    if (reader.field === SCOPE_RECORDS.records) {
      reader.expect(BYTES, "a record");
      count();
      records.push(rangeOf(reader));
      return;
    }
    rest.push(rangeOf(reader));
    if (reader.field !== SCOPE_RECORDS.scope) return;
    reader.message(reader.start, reader.end, () => {
      if (reader.field === SCOPE.name) name = reader.text();
    });
  });
  return { rest, name, records };
}

/** A metric, without points if it has no data. */
interface MetricFields {
  /** Everything but data. */
  readonly rest: readonly FieldRange[];
  /** The number of the field that has the data; each type of metric has its own. */
  readonly data: number;
  /** Everything of the data but points. */
  readonly dataRest: readonly FieldRange[];
  readonly points: FieldRange[];
}

export function readMetric(reader: WireReader, metric: FieldRange): MetricFields {
  const rest: FieldRange[] = [];
  const dataRest: FieldRange[] = [];
  const points: FieldRange[] = [];
  let data = 0;
  reader.message(metric.start, metric.end, () => {
    if (!METRIC_DATA.includes(reader.field)) {
      rest.push(rangeOf(reader));
      return;
    }
    reader.expect(BYTES, "the data of a metric");
    data = reader.field;
    reader.message(reader.start, reader.end, () => (reader.field === DATA_POINTS ? points : dataRest).push(rangeOf(reader)));
  });
  return { rest, data, dataRest, points };
}

function rangeOf({ tagStart, start, end }: WireReader): FieldRange {
  return { tagStart, start, end };
}
