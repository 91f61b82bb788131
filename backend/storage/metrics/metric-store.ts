// Writes samples to VictoriaMetrics and queries them, single node or cluster, embedded or not. Invariants: every write and every query
// carries the tenant as `extra_label=org_id=…`, which overrides the label in the body and is added to every selector of an expression;
// extra_label and extra_filters of a caller are never passed on; tenants' queries leave capacity for the rule evaluator. A cluster that
// cannot read all of its vmstorage nodes refuses the query, so incomplete data is never returned as complete.
import { refusalOf } from "../../engines/victoria-metrics/expression-guard.ts";
import type { Deletions } from "../../engines/append-log/dead-letters.ts";
import type { WriteJournal } from "../../engines/victoria-metrics/journal.ts";
import type { OutsideJournal } from "../../engines/victoria-metrics/outside-journal.ts";
import { LogFullError } from "../../engines/append-log/append-log.ts";
import { ApiError } from "../../errors.ts";
import { FairQueue, type ShareSlots } from "../../admission/fair-queue.ts";
import { runQueued, type QueryOptions, UNLIMITED } from "../../admission/query-queue.ts";
import { seriesFilters } from "./series-filters.ts";
import {
  MAX_METRIC_QUERIES,
  DEFAULT_METRIC_QUERIES_PER_ORG,
  MAX_SELECTOR_BYTES,
  MAX_WAITING_METRIC_QUERIES_PER_ORG,
} from "../storage-limits.ts";
import { evaluationOf, readReach, refuseCostly, timeOf } from "./query-cost.ts";
import { DENY_PARTIAL, isPartial, type QueryAnswer, RETRY_AFTER_S, unavailable, Upstream } from "./upstream.ts";

export interface SampleIdentity {
  readonly orgId: string;
  readonly hostId: string;
  readonly node: string;
}

export type QueryEndpoint = "query" | "query_range" | "series" | "labels" | "label_values";

export interface VictoriaMetricsStoreOptions {
  /** Base of `/api/v1/import/prometheus`: `http://vm:8428` or `http://vminsert:8480/insert/0/prometheus`, also with user:password. */
  readonly writeUrl: string;
  /** Base of `/api/v1/query`, e.g. `http://vm:8428` or `http://vmselect:8481/select/0/prometheus`. May contain user:password. */
  readonly queryUrl: string;
  /** The journal of an embedded engine: every write goes to both. */
  readonly journal?: Pick<WriteJournal, "append"> & Partial<Pick<WriteJournal, "expire" | "eraseDeadLetters">>;
  /** The journal for an external engine, because that engine acknowledges writes before they are on disk. */
  readonly outsideJournal?: OutsideJournal | undefined;
  readonly queriesPerOrg?: number;
  readonly querySlots?: number;
  /** Set if there are other replicas: their queries count, too. */
  readonly shareSlots?: ShareSlots | undefined;
  /** Aborts when the process is asked to stop: waiting queries are rejected, and the stop does not wait for running ones. */
  readonly stopping?: AbortSignal;
  /** The earliest time that an organisation may query; undefined: no limit. */
  readonly oldestMsOf?: (orgId: string) => number | undefined;
  /** After this time a query fails as too expensive. */
  readonly answerMs?: number;
}

/** Longer than the engine's own limit of 30 s, which it does not check while it computes. */
const ANSWER_MS = 40_000;
/** The engine may continue for this long with a query whose client has disconnected. */
const QUERY_TIMEOUT_MS = 600_000;

/** Longer than an insert waits in the engine's own queue, one minute. */
const WRITE_TIMEOUT_MS = 75_000;

export type MetricsStore = Pick<VictoriaMetricsStore, "write" | "writeRequest" | "query" | "check">;

export class VictoriaMetricsStore implements AsyncDisposable {
  readonly #write: Upstream;
  readonly #query: Upstream;
  readonly #delete: Upstream;
  readonly #journal: VictoriaMetricsStoreOptions["journal"];
  readonly #outside: OutsideJournal | undefined;
  readonly #queue: FairQueue;
  readonly #stopping: AbortSignal | undefined;
  readonly #answerMs: number;
  readonly #oldestMsOf: NonNullable<VictoriaMetricsStoreOptions["oldestMsOf"]>;

  constructor({
    writeUrl,
    queryUrl,
    journal,
    outsideJournal,
    querySlots = MAX_METRIC_QUERIES,
    queriesPerOrg = Math.max(DEFAULT_METRIC_QUERIES_PER_ORG, Math.floor(querySlots / 2)),
    shareSlots,
    stopping,
    answerMs = ANSWER_MS,
    oldestMsOf = () => undefined,
  }: VictoriaMetricsStoreOptions) {
    this.#journal = journal;
    this.#outside = outsideJournal;
    this.#write = new Upstream(writeUrl, WRITE_TIMEOUT_MS, () => this.#outside?.engineLost());
    this.#query = new Upstream(queryUrl, QUERY_TIMEOUT_MS);
    // vmselect has another path for deletions; a single node has one base for both.
    this.#delete = new Upstream(queryUrl.replace("/select/", "/delete/"), QUERY_TIMEOUT_MS);
    const perOrg = Math.min(querySlots, queriesPerOrg);
    this.#queue = new FairQueue({
      running: querySlots,
      perOrg,
      slots: shareSlots?.("metrics", perOrg),
      waitingPerOrg: MAX_WAITING_METRIC_QUERIES_PER_ORG,
      // The engine continues with each of them.
      takesBack: querySlots,
    });
    this.#stopping = stopping;
    this.#answerMs = answerMs;
    this.#oldestMsOf = oldestMsOf;
  }

  /** The current queries. A query counts as running as long as the engine computes it. */
  get queries(): { readonly running: number; readonly waiting: number } {
    return this.#queue;
  }

  /**
   * Stores exposition text (UTF-8, uncompressed, valid). Lines without a time get `timestampMs`. Throws ApiError `storage_unavailable` if
   * the engine cannot be reached or is overloaded, `unstorable` if it refuses the body.
   */
  async write(identity: SampleIdentity, body: Buffer, timestampMs: number): Promise<void> {
    const params = new URLSearchParams({ timestamp: String(timestampMs) });
    await this.#store("/api/v1/import/prometheus", identity, { body, params, type: "text/plain" });
  }

  /** Stores a remote write 1.0 request, compressed with Snappy, valid. Throws as `write`. */
  async writeRequest(identity: SampleIdentity, body: Buffer): Promise<void> {
    await this.#store("/api/v1/write", identity, { body, params: new URLSearchParams(), type: "application/x-protobuf" });
  }

  async #store(
    endpoint: string,
    identity: SampleIdentity,
    { body, params, type }: { body: Buffer; params: URLSearchParams; type: string },
  ): Promise<void> {
    // The engine ignores an extra label without a value, which would let the sender's own label through.
    for (const [name, value] of forcedLabels(identity)) params.append("extra_label", `${name}=${value}`);
    const path = `${endpoint}?${params.toString()}`;
    const losses = this.#outside?.losses ?? 0;
    const journaling = this.#journaled(this.#journal?.append(path, body));
    const [answer] = await Promise.all([this.#write.post(path, body, { "content-type": type }), journaling]);
    // Only after the engine has accepted the body, so the journal does not grow while the engine is unavailable.
    if (answer.status < 300) return await this.#journaled(this.#outside?.append(path, body, losses));
    const cause = new Error(`victoria-metrics answered ${answer.status}: ${answer.body.toString("utf8", 0, 500)}`);
    if (answer.status === 400)
      throw new ApiError("unstorable", "the metrics store refuses this body; sending it again will not help", { cause });
    throw unavailable(cause);
  }

  /** Resolves once a journal has the body. Throws ApiError `unavailable` or `storage_unavailable`. */
  async #journaled(appending: Promise<void> | undefined): Promise<void> {
    await appending?.catch((cause: unknown) => {
      const isFull = cause instanceof LogFullError;
      throw isFull
        ? new ApiError("unavailable", "the metrics store is behind; send it again later", { cause, retryAfterS: 10 })
        : unavailable(cause);
    });
  }

  /**
   * Queries one endpoint of the Prometheus API within one tenant, through the fair queue. `label` is required for `label_values`. Returns
   * 2xx and 4xx responses; throws ApiError `storage_unavailable` for all others, `invalid_parameter` if the response exceeds 64 MiB,
   * `query_too_expensive`, `too_many_queries`.
   */
  async query(
    orgId: string,
    endpoint: QueryEndpoint,
    params: URLSearchParams,
    options: QueryOptions & { label?: string } = UNLIMITED,
  ): Promise<QueryAnswer> {
    if (orgId === "") throw new Error("a query without a tenant");
    const scoped = new URLSearchParams([...params].filter(([name]) => !name.startsWith("extra_")));
    refuseExpired(endpoint, scoped, this.#oldestMsOf(orgId));
    if (endpoint === "query" || endpoint === "query_range") refuseCostly(scoped.get("query") ?? "", evaluationOf(endpoint, scoped));
    refuseLong(scoped.getAll("match[]"));
    for (const [name, expression] of scoped) {
      const reason = name === "query" || name === "match[]" ? refusalOf(expression) : undefined;
      if (reason !== undefined) throw new ApiError("invalid_parameter", `${name}: ${reason}`);
    }
    scoped.append("extra_label", `org_id=${orgId}`);
    for (const filter of seriesFilters(options.labelLimits)) scoped.append("extra_filters[]", filter);
    // Only clusters use this parameter; a single node ignores it.
    scoped.set(...DENY_PARTIAL);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const path = pathOf(endpoint, options.label);
    const answer = await this.#runQueued(orgId, options, () => this.#query.post(path, scoped.toString(), headers));
    const text = answer.status < 300 ? "" : answer.body.toString("utf8", 0, 500);
    if (/timeout exceeded (?:during|before|while)|-search\.maxQueryDuration/.test(text)) throw tooExpensive();
    if (text.includes("-search.maxQueryLen")) throw new ApiError("query_too_expensive", TOO_LONG);
    if (isPartial(answer.status, text)) throw incomplete(new Error(`victoria-metrics answered ${answer.status}: ${text}`));
    if (answer.status >= 500 || answer.status === 429 || (answer.status >= 300 && answer.status < 400)) {
      throw unavailable(new Error(`victoria-metrics answered ${answer.status}: ${text}`));
    }
    return answer;
  }

  /**
   * The engine continues with a query whose client has disconnected or whose time limit is exceeded. Therefore, the slot of the query is
   * freed only when the engine responds, but the caller does not wait for that, also if the slot is taken back.
   */
  async #runQueued(orgId: string, options: QueryOptions, ask: () => Promise<QueryAnswer>): Promise<QueryAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<QueryAnswer>();
    const rejectAborted = () =>
      reject(options.signal?.reason ?? new ApiError("unavailable", "the backend is stopping; try again", { retryAfterS: RETRY_AFTER_S }));
    const signals = [options.signal, this.#stopping].filter((signal) => signal !== undefined);
    for (const signal of signals) signal.addEventListener("abort", rejectAborted, { once: true });
    let timer: NodeJS.Timeout | undefined;
    runQueued({ queue: this.#queue, stopping: this.#stopping }, orgId, options, (signal) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      timer = setTimeout(() => reject(tooExpensive()), this.#answerMs);
      return ask();
    }).then(resolve, reject);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener("abort", rejectAborted);
    }
  }

  /** Deletes all series of an organisation. Returns how many there were, at most 1,000. Throws ApiError storage_unavailable. */
  async erase(orgId: string): Promise<number> {
    this.#journal?.expire?.();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const match = `match[]=${encodeURIComponent(`{org_id=${JSON.stringify(orgId)}}`)}`;
    const listed = await this.#query.post("/api/v1/series", `${match}&start=0&limit=1000&${DENY_PARTIAL.join("=")}`, headers);
    if (listed.status !== 200) throw unavailable(new Error(`victoria-metrics answered ${listed.status} to a list of series`));
    const series = (JSON.parse(listed.body.toString("utf8")) as { data: unknown[] }).data.length;
    if (series === 0) return 0;
    const deleted = await this.#delete.post("/api/v1/admin/tsdb/delete_series", match, headers);
    if (deleted.status >= 300) throw unavailable(new Error(`victoria-metrics answered ${deleted.status} to a deletion of series`));
    // The next merge of a part frees the disk space of deleted series. vmselect does not know this path; its vmstorage nodes do.
    await this.#query.post("/internal/force_merge", "", headers).catch(() => undefined);
    return series;
  }

  /** Deletes the dead letters of deleted organisations in this process's journal. Returns how many there were. */
  async eraseDeadLetters(deletions: Deletions): Promise<number> {
    const journal = this.#journal ?? this.#outside;
    return (await journal?.eraseDeadLetters?.(deletions)) ?? 0;
  }

  /** For readiness: throws if writes or queries cannot reach the engine. */
  async check(): Promise<void> {
    // An embedded engine is never a cluster.
    const complete = this.#journal === undefined ? this.#query.checkComplete() : undefined;
    await Promise.all([this.#write.check(), this.#query.check(), complete]);
    // If there are no further writes, the journal would keep samples of a deleted organisation.
    this.#outside?.expire();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#write.close(), this.#query.destroy(), this.#delete.destroy()]);
  }
}

const TOO_LONG =
  "the metrics store's own limit is lower than this query's length: its operator can raise -search.maxQueryLen to 65536 (vmselect or VictoriaMetrics)";

/** Selectors are parsed on the event loop before the engine gets them, and a form can contain many. */
function refuseLong(selectors: readonly string[]): void {
  const bytes = selectors.reduce((sum, selector) => sum + Buffer.byteLength(selector), 0);
  if (bytes > MAX_SELECTOR_BYTES)
    throw new ApiError("invalid_parameter", `match[]: all selectors together have at most ${MAX_SELECTOR_BYTES / 1024} KiB`);
}

/** With this slack, `offset 1w` is accepted if metrics are kept for a week. */
const OFFSET_SLACK_MS = 3_600_000;

/** An instant query that reads before the retention is refused; a range query begins at its first step within the retention. */
function refuseExpired(endpoint: QueryEndpoint, params: URLSearchParams, oldestMs: number | undefined): void {
  if (oldestMs === undefined) return;
  const name = endpoint === "query" ? "time" : "start";
  const requestedMs = timeOf(name, params, Date.now());
  const { stepMs } = endpoint === "query_range" ? evaluationOf(endpoint, params) : { stepMs: 1 };
  const { offsetMs, atMs } = readReach(params.get("query") ?? "", stepMs);
  if (atMs < oldestMs) throw expired("query");
  const firstMs = oldestMs + Math.max(0, offsetMs - OFFSET_SLACK_MS);
  if (requestedMs >= firstMs) return;
  if (name === "time" || firstMs > timeOf("end", params, Date.now())) throw expired(requestedMs < oldestMs ? name : "query");
  params.set("start", String((requestedMs + Math.ceil((firstMs - requestedMs) / stepMs) * stepMs) / 1000));
}

function expired(parameter: string): ApiError {
  return new ApiError("invalid_parameter", `${parameter}: your organisation's metrics are not kept for so long`);
}

function forcedLabels({ orgId, hostId, node }: SampleIdentity): [name: string, value: string][] {
  if (orgId === "" || hostId === "") throw new Error("a write without org_id or host_id");
  return [
    ["org_id", orgId],
    ["host_id", hostId],
    ["node", node || hostId],
  ];
}

function pathOf(endpoint: QueryEndpoint, label: string | undefined): string {
  if (endpoint !== "label_values") return `/api/v1/${endpoint}`;
  if (!label) throw new Error("label_values needs a label");
  return `/api/v1/label/${encodeURIComponent(label)}/values`;
}

function tooExpensive(): ApiError {
  return new ApiError("query_too_expensive", "this query takes too long: ask for a shorter range, a longer step or fewer series");
}

function incomplete(cause: unknown): ApiError {
  return new ApiError(
    "storage_unavailable",
    "a storage node of the metrics cluster does not answer, so the result would be incomplete; try again later",
    { cause, retryAfterS: RETRY_AFTER_S },
  );
}
