// Serves GET /query/changes: what changed in the caller's organisation between two ranges of the same length, most important first
// (docs/what-changed.md). Invariant: a part that fails is named in `missing`, and the others are returned.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { AuditTables } from "../../auth/audit/trail.ts";
import { type Guards, RANK } from "../../http/request-identity.ts";
import { ApiError } from "../../errors.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { PAGE_PARAMETERS, readPage } from "../../storage/page.ts";
import { answerJson, type JsonQuery, refuseUnknown } from "../page-route.ts";
import { MAX_CHANGES, MAX_CHANGES_HOURS, MAX_CHANGES_PART_MS, MIN_CHANGES_MINUTES } from "../query-limits.ts";
import { findAuditChanges } from "./audit-changes.ts";
import { type Change, CHANGE_KINDS, type Comparison, NothingBefore, rangeParameters, sinceOf } from "./change.ts";
import { type ChangeSources, findParts, telemetryParts } from "./find-changes.ts";
import { rankChanges } from "./rank.ts";

export interface ChangesRouteOptions extends ChangeSources {
  readonly db: Kysely<AuditTables>;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  /** URL of the console, for links; unset: links begin with `#/`. */
  readonly publicUrl: string | undefined;
  readonly now?: () => Date;
  readonly partMs?: number;
}

/** How long before the range the range before begins; undefined: the range before ends where the range begins. */
const COMPARED_WITH = { before: undefined, yesterday: 86_400_000, last_week: 7 * 86_400_000 } as const;
const { start, end } = PAGE_PARAMETERS;
const PARAMETERS = {
  start,
  end,
  compare_with: {
    type: "string",
    enum: Object.keys(COMPARED_WITH),
    default: "before",
    description: "the range to compare with: the one directly before, or the same time yesterday or a week ago",
  },
  service: { type: "string", description: "only changes of this service" },
  limit: { type: "integer", minimum: 1, maximum: MAX_CHANGES, default: 20 },
} as const;

const figure = { type: "number" } as const;
const text = { type: "string" } as const;
const SPAN = objectSchema({ start: TIME_SCHEMA, end: TIME_SCHEMA });
const CHANGE = {
  type: "object",
  required: ["kind", "severity", "score", "subject", "title", "evidence", "link"],
  properties: {
    kind: { type: "string", enum: CHANGE_KINDS },
    severity: { type: "string", enum: ["problem", "notice"], description: "notice: it can explain a problem" },
    score: { ...figure, description: "0 to 100" },
    subject: text,
    title: { ...text, description: "one sentence with the figures" },
    service: text,
    operation: text,
    before: figure,
    now: figure,
    unit: text,
    since: { ...TIME_SCHEMA, description: "when it began, accurate to a quarter of the range" },
    p: { ...figure, description: "p-value of the test of a service or a pattern of messages; missing for all other changes" },
    evidence: { ...text, description: "the request of this API that shows the figures" },
    link: { ...text, description: "the screen of the console" },
  },
};
const ANSWER = objectSchema({
  range: SPAN,
  compared_with: SPAN,
  changes: { type: "array", items: CHANGE },
  missing: {
    type: "array",
    items: objectSchema({ part: text, reason: text }),
    description: "parts that could not be compared; their changes are missing",
  },
});

interface Parameters {
  readonly start?: string;
  readonly end?: string;
  readonly compare_with: keyof typeof COMPARED_WITH;
  readonly service?: string;
  readonly limit: number;
}

type ChangesRequest = FastifyRequest<{ Querystring: Parameters }>;

export function registerChangesRoute(app: FastifyInstance, options: ChangesRouteOptions): void {
  const { answers, guards, publicUrl = "", now = () => new Date() } = options;
  addRoute(app, guards, {
    ...endpoint("GET", "/query/changes", "reader"),
    limited: "filtered",
    summary: "What changed between two ranges of time, most important first",
    description:
      "Compares a range with one of the same length before it: services and operations, patterns of messages, attributes of failed and slow spans, versions, " +
      "state of clusters, resources, agents, alerts and, for administrators, the audit log. " +
      `The range has ${MIN_CHANGES_MINUTES} minutes to ${MAX_CHANGES_HOURS} hours. docs/what-changed.md describes the tests.`,
    query: { type: "object", properties: PARAMETERS },
    response: { 200: ANSWER },
    handler: async (request: ChangesRequest, reply: FastifyReply) => {
      refuseUnknown(request, PARAMETERS, []);
      const comparison = readComparison(request, now());
      const { service, limit } = request.query;
      const ask: JsonQuery = async (orgId, queryOptions) => {
        const { changes, missing } = await findChanges(request, options, { orgId, comparison, queryOptions });
        const wanted = service === undefined ? changes : changes.filter((change) => change.service === service);
        const ranked = rankChanges(wanted, comparison.now.endMs - comparison.now.startMs, limit);
        const answer = {
          range: rangeParameters(comparison.now),
          compared_with: rangeParameters(comparison.before),
          changes: ranked.map((change) => answered(change, publicUrl)),
          missing,
        };
        return [Buffer.from(JSON.stringify(answer))];
      };
      return answerJson(request, reply, { answers, ask });
    },
  });
}

/** Whole minutes, because the summaries of spans are by minute. Throws ApiError invalid_parameter. */
function readComparison(request: ChangesRequest, now: Date): Comparison {
  const { range } = readPage(request, now);
  const [first, last] = [wholeMinute(range.start, Math.floor), wholeMinute(range.end, Math.ceil)];
  const minutes = (last - first) / 60_000;
  if (minutes < MIN_CHANGES_MINUTES || minutes > MAX_CHANGES_HOURS * 60)
    throw new ApiError("invalid_parameter", `start: the range must have ${MIN_CHANGES_MINUTES} minutes to ${MAX_CHANGES_HOURS} hours`);
  const offset = COMPARED_WITH[request.query.compare_with] ?? last - first;
  if (offset < last - first) throw new ApiError("invalid_parameter", "compare_with: the ranges overlap; shorten the range");
  return { now: { startMs: first, endMs: last }, before: { startMs: first - offset, endMs: last - offset } };
}

function wholeMinute(ns: bigint | undefined, round: (minutes: number) => number): number {
  return round(Number((ns ?? 0n) / 1_000_000n) / 60_000) * 60_000;
}

interface Question {
  readonly orgId: string;
  readonly comparison: Comparison;
  readonly queryOptions: QueryOptions;
}

/** Throws the first failure if no part has an answer. */
async function findChanges(request: FastifyRequest, options: ChangesRouteOptions, { orgId, comparison, queryOptions }: Question) {
  const { db, partMs = MAX_CHANGES_PART_MS } = options;
  const { labelLimits, signal } = queryOptions;
  const missing: { part: string; reason: string }[] = [];
  const isAdmin = request.user !== undefined && RANK[request.user.role] >= RANK.admin && !labelLimits;
  if (!isAdmin) missing.push({ part: "audit log", reason: "only administrators may read it" });
  queryOptions.admit?.();
  const telemetry = telemetryParts(options, orgId, comparison);
  const parts = { ...telemetry, ...(isAdmin && { "audit log": () => findAuditChanges(db, orgId, comparison) }) };
  const onPartial = (part: string) => () => void missing.push({ part, reason: "a shard is unavailable: its rows are missing" });
  const optionsOf = (part: string) => ({ labelLimits, signal, onPartial: onPartial(part) });
  const { changes, failures } = await findParts(parts, { partMs, optionsOf });
  signal?.throwIfAborted();
  // The audit log alone says little.
  const errors = failures.filter(({ part, error }) => part in telemetry && !(error instanceof NothingBefore));
  if (errors.length >= Object.keys(telemetry).length) throw errors[0]?.error;
  missing.push(...failures.map(({ part, error }) => ({ part, reason: reasonOf(request, error) })));
  return { changes, missing };
}

function reasonOf(request: FastifyRequest, error: unknown): string {
  if (error instanceof NothingBefore || (error instanceof ApiError && error.code !== "internal")) return error.message;
  if (error instanceof Error && error.name === "TimeoutError") return "the time limit of this part is exceeded: shorten the range";
  request.log.warn({ event: "changes.part_failed", err: error }, "a part of a comparison failed");
  return "this part failed; the log of the backend says why";
}

function answered({ since_ms: sinceMs, link, ...change }: Change, publicUrl: string): object {
  return {
    ...change,
    score: Math.round(change.score * 10) / 10,
    ...sinceOf(sinceMs),
    link: publicUrl === "" ? link : `${publicUrl}/${link}`,
  };
}
