// Stores and queries spans in ClickHouse, embedded or a server. Invariants: an organisation never sees rows of another; rows are stored
// exactly once when `insert` resolves.
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { OnceWriter, type WriterBatch } from "../write-path/once-writer.ts";
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { type QueryOptions, UNLIMITED } from "../../admission/query-queue.ts";
import { arrayOfLines, queryPage } from "../found-page.ts";
import type { Cursor, PageResult, Page, TimeRange } from "../page.ts";
import { EXEMPLAR_COLUMNS, SPAN_COLUMNS } from "../table-columns.ts";
import { jaegerSearch, jaegerTrace, type TraceForm } from "./jaeger-spans.ts";
import { type FamilyFilter, metricFamily } from "./metric-family.ts";
import { type DayOperations, operationsOf } from "./operations-of.ts";
import { copiesUntilS } from "./keep-minutes.ts";
import { edgesIn, jaegerDependencies, listEdges } from "./graph.ts";
import { countEvents, type EventCount, type EventFilter } from "./event-counts.ts";
import type { ExemplarSelector } from "./exemplars.ts";
import { readAllExemplars } from "./stored-exemplars.ts";
import type { MinuteRange, RedFilter } from "./red.ts";
import type { BodyClaims } from "../../replicas/body-claims.ts";
import { jaegerSummaries, searchTraces, spanConditions, type TraceFilter } from "./search.ts";
import { listOperationPoints, type OperationPoints, type OperationQuestion } from "./operation-points.ts";
import { operationRows } from "./operation-rows.ts";
import { listOperations, listServices, readSeries } from "./services.ts";
import { durationHeatmap, spanDifferences, spanFacets, type StatisticsFilter } from "./span-statistics.ts";
import { SPAN_FIELDS, wholeTrace } from "./span-fields.ts";
import { SpanOperations } from "./span-operations.ts";
import { listVersionCounts, type VersionFilter } from "./version-counts.ts";

export interface SpanBatch extends WriterBatch {
  /** Their operations, if they are known already. */
  readonly operations?: readonly DayOperations[];
}

/** Unset fields do not filter. */
export interface SpanFilter extends Page {
  readonly service?: string;
  readonly error?: boolean;
  /** Lowercase hex. */
  readonly traceId?: string;
}

const STATISTICS = { spanFacets, durationHeatmap, spanDifferences };

export type SpanStatistic = keyof typeof STATISTICS;

const GRAPH_QUESTIONS = { listEdges, jaegerDependencies };

export type GraphQuestion = keyof typeof GRAPH_QUESTIONS;

const RED_QUESTIONS = { listServices, listOperations, readSeries };

export type RedQuestion = keyof typeof RED_QUESTIONS;

export type SpanStore = Omit<ClickHouseSpanStore, typeof Symbol.asyncDispose>;

export class ClickHouseSpanStore implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #writer: OnceWriter;
  readonly #exemplars: OnceWriter;
  readonly #operations: SpanOperations;
  readonly #copiesUntilS: (orgId: string) => number;

  private constructor(
    clickhouse: ClickHouse,
    writers: { readonly spans: OnceWriter; readonly exemplars: OnceWriter },
    retentionDays: (orgId: string) => number,
  ) {
    this.#clickhouse = clickhouse;
    this.#writer = writers.spans;
    this.#exemplars = writers.exemplars;
    this.#copiesUntilS = (orgId) => copiesUntilS(retentionDays(orgId));
    this.#operations = new SpanOperations(clickhouse);
  }

  /** Call after migrate(). `retentionDays`: the retention of spans. */
  static async open(clickhouse: ClickHouse, retentionDays: (orgId: string) => number, claims?: BodyClaims): Promise<ClickHouseSpanStore> {
    const spans = await OnceWriter.open(clickhouse, "spans", SPAN_COLUMNS, { claims });
    const exemplars = await OnceWriter.open(clickhouse, "exemplars", EXEMPLAR_COLUMNS, { claims });
    return new ClickHouseSpanStore(clickhouse, { spans, exemplars }, retentionDays);
  }

  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  async insert(batch: SpanBatch): Promise<void> {
    // Operations are written first: a failure in between leaves an operation without spans, never spans without their operation.
    await this.#operations.store(batch.orgId, batch.operations ?? operationsOf(batch.sections));
    await this.#writer.write(batch);
  }

  /** Exemplars of remote write and OTLP (EXEMPLAR_COLUMNS). Resolves and throws as `insert`. */
  async insertExemplars(batch: WriterBatch): Promise<void> {
    await this.#exemplars.write(batch);
  }

  /** The elements of GET /query/traces, newest first. Throws ApiError as ClickHouse.read does. */
  query(orgId: string, filter: SpanFilter, options: QueryOptions = UNLIMITED): Promise<PageResult> {
    const { traceId, service, error } = filter;
    const ofTrace = traceId === undefined ? [] : [sql`trace_id = ${traceId}`];
    return queryPage(this.#clickhouse, orgId, {
      table: "spans",
      columns: SPAN_FIELDS,
      sizes: sql`trace_id, span_id, parent_span_id, service, operation, attributes`,
      conditions: [...ofTrace, ...spanConditions({ service, attributes: [], ...(error && { error }) })],
      page: filter,
      options,
    });
  }

  /** A page of the spans of one trace (lowercase hex) with all fields, oldest first. Throws as `query` does. */
  trace(orgId: string, traceId: string, after: Cursor | undefined, options: QueryOptions = UNLIMITED): Promise<PageResult> {
    return queryPage(this.#clickhouse, orgId, { ...wholeTrace(traceId, after), options });
  }

  /** Traces, newest first. Throws as `query` does. */
  search(orgId: string, filter: TraceFilter, options: QueryOptions = UNLIMITED): Promise<PageResult> {
    return this.#clickhouse.read(orgId, options, (ask) => searchTraces(ask, orgId, filter));
  }

  /** Rate, errors and latency of services as JSON (services.ts). Throws as `query` does. */
  red(question: RedQuestion, orgId: string, filter: RedFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) =>
      RED_QUESTIONS[question](ask, orgId, { ...filter, labelLimits: options.labelLimits }, this.#copiesUntilS(orgId)),
    );
  }

  /** Calls of all operations by point, for each kind (operation-points.ts). Throws as `query` does. */
  operationPoints(orgId: string, question: OperationQuestion, options: QueryOptions = UNLIMITED): Promise<OperationPoints[][]> {
    return this.#clickhouse.read(orgId, options, (ask) => listOperationPoints(ask, orgId, question, this.#copiesUntilS(orgId)));
  }

  /** Good and all calls for service level objectives (event-counts.ts). Throws as `query` does. */
  events(orgId: string, filter: EventFilter, options: QueryOptions = UNLIMITED): Promise<EventCount[]> {
    return this.#clickhouse.read(orgId, options, (ask) => countEvents(ask, orgId, filter, this.#copiesUntilS(orgId)));
  }

  /** Facets, heatmap and differences of matching spans as JSON (span-statistics.ts). Throws as `query` does. */
  statistics(question: SpanStatistic, orgId: string, filter: StatisticsFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) => STATISTICS[question](ask, orgId, filter));
  }

  /** VersionCounts of services as JSON (version-counts.ts). Throws as `query` does. */
  versionCounts(orgId: string, filter: VersionFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) => listVersionCounts(ask, orgId, filter));
  }

  /** Which service calls which, as JSON (graph.ts). Throws as `query` does. */
  graph(question: GraphQuestion, orgId: string, range: MinuteRange, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) =>
      GRAPH_QUESTIONS[question](ask, edgesIn(orgId, range, options.labelLimits), range),
    );
  }

  /** SeriesExemplars as JSON. Throws as `query` does, and ApiError invalid_parameter. */
  exemplars(orgId: string, selectors: readonly ExemplarSelector[], range: TimeRange, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) => readAllExemplars(ask, orgId, selectors, range));
  }

  /** An array of names as JSON. */
  serviceNames(orgId: string, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#names(orgId, sql`toString(service)`, sql`org_id = ${orgId}`, options);
  }

  operationNames(orgId: string, service: string, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#names(orgId, sql`operation`, sql`org_id = ${orgId} AND service = ${service}`, options);
  }

  /** An array of Jaeger's Operation as JSON, of one kind (lowercase) or of all. */
  operationKinds(orgId: string, service: string, kind: string | undefined, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    const ofKind = kind === undefined ? sql`` : sql`HAVING spanKind = ${kind}`;
    return this.#clickhouse.read(orgId, options, async (ask) =>
      arrayOfLines(
        await ask(sql`SELECT operation AS name, if(kind = '', 'unspecified', lower(kind)) AS spanKind FROM ${operationRows(orgId, options.labelLimits)}
          WHERE org_id = ${orgId} AND service = ${service} GROUP BY name, spanKind ${ofKind} ORDER BY name, spanKind`),
      ),
    );
  }

  /** Jaeger's array of traces as JSON in chunks; undefined if the trace has no span. */
  jaegerTrace(orgId: string, traceId: string, form: TraceForm, options: QueryOptions = UNLIMITED): Promise<Buffer[] | undefined> {
    return this.#clickhouse.read(orgId, options, (ask) => jaegerTrace(ask, orgId, traceId, form));
  }

  jaegerSearch(orgId: string, filter: TraceFilter, form: TraceForm, options: QueryOptions = UNLIMITED): Promise<Buffer[]> {
    return this.#clickhouse.read(orgId, options, (ask) => jaegerSearch(ask, orgId, filter, form));
  }

  jaegerSummaries(orgId: string, filter: TraceFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) => jaegerSummaries(ask, orgId, filter));
  }

  /** The `metrics` of Jaeger's MetricFamily as JSON. Throws as `query` does. */
  metricFamily(orgId: string, filter: FamilyFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, (ask) => metricFamily(ask, orgId, filter, this.#copiesUntilS(orgId)));
  }

  #names(orgId: string, name: Sql, where: Sql, options: QueryOptions): Promise<Buffer> {
    return this.#clickhouse.read(orgId, options, async (ask) => {
      const line = await ask(
        sql`SELECT arraySort(groupUniqArray(${name})) AS names FROM ${operationRows(orgId, options.labelLimits)} WHERE ${where}`,
      );
      return Buffer.from(JSON.stringify((JSON.parse(line.toString("utf8")) as { names: string[] }).names));
    });
  }

  /** Commits pending rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#operations[Symbol.asyncDispose]();
    await this.#writer[Symbol.asyncDispose]();
    await this.#exemplars[Symbol.asyncDispose]();
  }
}
