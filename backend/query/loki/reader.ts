// What Loki's routes ask of the stored records. Invariant: rows of one organisation are never seen by another; each question is one turn of
// its organisation. LokiReader is the role; EngineReader reads by ClickHouse, embedded or a server.
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { ClickHouse } from "../../engines/clickhouse/client.ts";
import { type Bounds, BOUNDS } from "./budget.ts";
import { detectedFields, detectedLabels, type FieldsAsked, statistics, volume, type VolumeAsked } from "./detected.ts";
import { labelNames, labelValues, seriesOf } from "./label-answers.ts";
import { answerLogs, answerMetrics, type LogsAsked, type MetricsAsked, type Reading } from "./queries.ts";
import type { Selected } from "./records.ts";
import type { LogQuery } from "./syntax.ts";

/** All answer JSON, and throw ApiError as ClickHouse.read does, and invalid_parameter and query_too_expensive by what is asked. */
export interface LokiReader {
  logs(orgId: string, query: LogQuery, asked: LogsAsked, options?: QueryOptions): Promise<Buffer>;
  metrics(orgId: string, asked: MetricsAsked, options?: QueryOptions): Promise<Buffer>;
  labelNames(orgId: string, selected: Selected, options?: QueryOptions): Promise<Buffer>;
  labelValues(orgId: string, name: string, selected: Selected, options?: QueryOptions): Promise<Buffer>;
  series(orgId: string, selected: Selected, options?: QueryOptions): Promise<Buffer>;
  statistics(orgId: string, selected: Selected, options?: QueryOptions): Promise<Buffer>;
  volume(orgId: string, asked: VolumeAsked, options?: QueryOptions): Promise<Buffer>;
  detectedLabels(orgId: string, selected: Selected, options?: QueryOptions): Promise<Buffer>;
  detectedFields(orgId: string, asked: FieldsAsked, options?: QueryOptions): Promise<Buffer>;
}

export class EngineReader implements LokiReader {
  readonly #engine: Reading;

  constructor(engine: Pick<ClickHouse, "read">, bounds: Bounds = BOUNDS) {
    this.#engine = { read: (...asked) => engine.read(...asked), bounds };
  }

  logs(orgId: string, query: LogQuery, asked: LogsAsked, options: QueryOptions = {}): Promise<Buffer> {
    return answerLogs(this.#engine, orgId, { query, ...asked }, options);
  }

  metrics(orgId: string, asked: MetricsAsked, options: QueryOptions = {}): Promise<Buffer> {
    return answerMetrics(this.#engine, orgId, asked, options);
  }

  labelNames(orgId: string, selected: Selected, options: QueryOptions = {}): Promise<Buffer> {
    return labelNames(this.#engine, orgId, selected, options);
  }

  labelValues(orgId: string, name: string, selected: Selected, options: QueryOptions = {}): Promise<Buffer> {
    return labelValues(this.#engine, orgId, { name, ...selected }, options);
  }

  series(orgId: string, selected: Selected, options: QueryOptions = {}): Promise<Buffer> {
    return seriesOf(this.#engine, orgId, selected, options);
  }

  statistics(orgId: string, selected: Selected, options: QueryOptions = {}): Promise<Buffer> {
    return statistics(this.#engine, orgId, selected, options);
  }

  volume(orgId: string, asked: VolumeAsked, options: QueryOptions = {}): Promise<Buffer> {
    return volume(this.#engine, orgId, asked, options);
  }

  detectedLabels(orgId: string, selected: Selected, options: QueryOptions = {}): Promise<Buffer> {
    return detectedLabels(this.#engine, orgId, selected, options);
  }

  detectedFields(orgId: string, asked: FieldsAsked, options: QueryOptions = {}): Promise<Buffer> {
    return detectedFields(this.#engine, orgId, asked, options);
  }
}
