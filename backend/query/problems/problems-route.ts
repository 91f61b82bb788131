// Serves GET /query/problems: what is wrong in the caller's organisation now, most important first (docs/console.md shows it as the overview).
// Invariants: two metrics queries, ten small statements and a comparison that is made once a minute; a part that fails is named in `missing`,
// so an empty list means that nothing was found.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kysely } from "kysely";
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { Guards } from "../../http/request-identity.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { objectSchema, TIME_SCHEMA } from "../../http/schemas.ts";
import { type Change, CHANGE_KINDS, sinceOf } from "../changes/change.ts";
import { NODE_COLUMNS, POD_COLUMNS, readCells, WORKLOAD_COLUMNS } from "../kubernetes/cluster-state.ts";
import { buildGroups, readOwners } from "../kubernetes/groups.ts";
import { buildPods } from "../kubernetes/pods.ts";
import { answerJson, type JsonQuery, refuseUnknown } from "../page-route.ts";
import { MAX_PROBLEMS } from "../query-limits.ts";
import { findAccountProblems, type ProblemTables } from "./account-problems.ts";
import type { ChangeSources } from "../changes/find-changes.ts";
import { describeChanges, RecentChanges } from "./change-problems.ts";
import { findClusterProblems } from "./cluster-problems.ts";
import { findMetricProblems } from "./metric-problems.ts";
import { type Problem, PROBLEM_KINDS, type Problems } from "./problem.ts";

export interface ProblemsRouteOptions extends ChangeSources {
  readonly db: Kysely<ProblemTables>;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
  /** Unix milliseconds. */
  readonly now?: () => number;
}

const SHOWN_CHANGES = 10;
const PARAMETERS = { limit: { type: "integer", minimum: 1, maximum: MAX_PROBLEMS, default: 50 } } as const;
const text = { type: "string" } as const;
const figure = { type: "number" } as const;
const PROBLEM = {
  type: "object",
  required: ["kind", "severity", "score", "title", "action", "link"],
  properties: {
    kind: { type: "string", enum: PROBLEM_KINDS },
    severity: { type: "string", enum: ["critical", "warning"] },
    score: { ...figure, description: "0 to 100" },
    title: { ...text, description: "one sentence" },
    detail: { ...text, description: "the cause, or figures" },
    since: TIME_SCHEMA,
    action: { ...text, description: "label of the link" },
    link: { ...text, description: "the screen of the console to open next" },
  },
};
const ANSWER = objectSchema({
  problems: { type: "array", items: PROBLEM },
  total: { ...figure, description: "problems that were found" },
  totals: {
    type: "object",
    additionalProperties: objectSchema({ total: figure, with_problem: figure }),
    description: "agents, pods and nodes: how many there are, and how many of them have a problem",
  },
  changes: {
    type: "array",
    items: {
      type: "object",
      required: ["kind", "title", "link"],
      properties: { kind: { type: "string", enum: CHANGE_KINDS }, title: text, since: TIME_SCHEMA, link: text },
    },
    description: "what changed in the last hour and can explain a problem, such as a new version",
  },
  missing: { type: "array", items: text, description: "parts that could not be read" },
});

type ProblemsRequest = FastifyRequest<{ Querystring: { limit: number } }>;

export function registerProblemsRoute(app: FastifyInstance, options: ProblemsRouteOptions): void {
  const { answers, guards } = options;
  const recent = new RecentChanges(options);
  addRoute(app, guards, {
    ...endpoint("GET", "/query/problems", "reader"),
    summary: "What is wrong now, most important first",
    description:
      "Services that got worse in the last hour, new patterns of errors, pods whose memory grows, unhealthy pods and nodes, firing alerts, " +
      "objectives that use up their error budget, disks that are or will be full; for users also silent agents, keys of clusters that were not renewed, " +
      "and tokens that expire. The comparison with the hour before is up to a minute old.",
    query: { type: "object", properties: PARAMETERS },
    documented: { response: { 200: ANSWER } },
    handler: async (request: ProblemsRequest, reply: FastifyReply) => {
      refuseUnknown(request, PARAMETERS, []);
      const ask: JsonQuery = async (orgId, queryOptions) => {
        queryOptions.admit?.();
        const found = await findProblems(request, { ...options, recent }, orgId, queryOptions);
        const ranked = found.problems.toSorted(byImportance);
        const answer = {
          problems: ranked.slice(0, request.query.limit).map(answered),
          total: ranked.length,
          totals: Object.fromEntries(
            Object.entries(found.totals).map(([name, [total, withProblem]]) => [name, { total, with_problem: withProblem }]),
          ),
          changes: found.changes
            .filter(({ severity }) => severity === "notice")
            .slice(0, SHOWN_CHANGES)
            .map(answeredChange),
          missing: found.missing,
        };
        return [Buffer.from(JSON.stringify(answer))];
      };
      return answerJson(request, reply, { answers, ask });
    },
  });
}

/** What is critical first: a service whose users get errors comes before a disk that is nearly full. */
function byImportance(a: Problem, b: Problem): number {
  const critical = Number(b.severity === "critical") - Number(a.severity === "critical");
  return critical || b.score - a.score || (a.title < b.title ? -1 : 1);
}

interface Found extends Problems {
  readonly changes: readonly Change[];
  readonly missing: readonly string[];
}

const none = (problems: readonly Problem[]): Problems => ({ problems, totals: {} });

/** Reads all parts at once. Throws the first failure if no part has an answer. */
async function findProblems(
  request: FastifyRequest,
  { db, metrics, recent, now = Date.now }: ProblemsRouteOptions & { readonly recent: RecentChanges },
  orgId: string,
  options: QueryOptions,
): Promise<Found> {
  const nowMs = now();
  const { signal } = options;
  const query: QueryOptions = { labelLimits: options.labelLimits, signal };
  // A read token reads telemetry, not agents and names of tokens.
  const missing: string[] = request.user === undefined ? ["agents and credentials (only for users)"] : [];
  const found: Change[] = [];
  const parts: readonly (readonly [string, () => Promise<Problems>])[] = [
    [
      "Kubernetes",
      async () => {
        const columns = { ...POD_COLUMNS, ...WORKLOAD_COLUMNS, ...NODE_COLUMNS };
        const { cells } = await readCells(metrics, orgId, { columns, scope: {}, atMs: nowMs, options: query });
        const pods = await buildPods(cells, readOwners(cells));
        return findClusterProblems({ pods, nodes: buildGroups("node", pods, cells) });
      },
    ],
    ["metrics", async () => none(await findMetricProblems(metrics, orgId, nowMs, query))],
    ...(request.user === undefined ? [] : [["agents and credentials", async () => await findAccountProblems(db, orgId, nowMs)] as const]),
    [
      "changes",
      async () => {
        const { changes, missing: uncompared } = await recent.of(orgId, nowMs);
        found.push(...changes);
        missing.push(...uncompared.map((part) => `changes of ${part}`));
        return none(describeChanges(changes));
      },
    ],
  ];
  const settled = await Promise.allSettled(parts.map(async ([, find]) => await find()));
  signal?.throwIfAborted();
  const results: Problems[] = [];
  for (const [at, result] of settled.entries()) {
    if (result.status === "fulfilled") results.push(result.value);
    else {
      request.log.warn(
        { event: "problems.part_failed", part: parts[at]?.[0], err: result.reason },
        "a part of the problems cannot be read",
      );
      missing.push(parts[at]?.[0] ?? "");
    }
  }
  const [failed] = settled.filter((result) => result.status === "rejected");
  if (failed && results.length === 0) throw failed.reason;
  return {
    problems: results.flatMap(({ problems }) => problems),
    totals: Object.assign({}, ...results.map(({ totals }) => totals)) as Problems["totals"],
    changes: found,
    missing,
  };
}

function answeredChange({ kind, title, since_ms: sinceMs, link }: Change): object {
  return { kind, title, link, ...sinceOf(sinceMs) };
}

function answered({ sinceMs, score, ...problem }: Problem): object {
  return { ...problem, score: Math.round(score * 10) / 10, ...sinceOf(sinceMs) };
}
