// Serves GET /query/kubernetes: the state of clusters, namespaces, workloads, nodes or pods of the caller's organisation, unhealthy ones
// first. Invariants: one metrics query per request; at most MAX_KUBERNETES_ROWS rows; totals count all that were read.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { QueryOptions } from "../../admission/query-queue.ts";
import type { Guards } from "../../http/request-identity.ts";
import type { ResponseBudget } from "../../http/response-budget.ts";
import { addRoute, endpoint } from "../../http/route.ts";
import { objectSchema } from "../../http/schemas.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { readTime } from "../../storage/page.ts";
import { answerJson, type JsonQuery, refuseUnknown } from "../page-route.ts";
import { MAX_KUBERNETES_ROWS, MAX_OBJECT_NAME_LENGTH } from "../query-limits.ts";
import { NODE_COLUMNS, POD_COLUMNS, readCells, type Scope, WORKLOAD_COLUMNS, WORKLOAD_KINDS } from "./cluster-state.ts";
import { buildGroups, type GroupRow, readOwners } from "./groups.ts";
import { buildPods, HEALTH, type Health, type PodRow } from "./pods.ts";

export interface KubernetesRouteOptions {
  readonly metrics: Pick<MetricsStore, "query">;
  readonly answers: ResponseBudget;
  readonly guards: Pick<Guards, "reader">;
}

const KINDS = ["cluster", "namespace", "workload", "node", "pod"] as const;
export type ObjectKind = (typeof KINDS)[number];

const name = { type: "string", minLength: 1, maxLength: MAX_OBJECT_NAME_LENGTH } as const;
const PARAMETERS = {
  kind: { type: "string", enum: KINDS, default: "pod" },
  cluster: { ...name, description: "only objects of this cluster" },
  namespace: { ...name, description: "only objects of this namespace" },
  node: { ...name, description: "only pods of this node" },
  name: { ...name, description: "only objects with this name" },
  workload: { ...name, description: "only pods of this workload; with workload_kind" },
  workload_kind: { type: "string", enum: WORKLOAD_KINDS, default: "deployment" },
  time: { type: "string", description: "RFC 3339, the state at this time; default: now" },
  limit: { type: "integer", minimum: 1, maximum: MAX_KUBERNETES_ROWS, default: MAX_KUBERNETES_ROWS },
} as const;

interface Parameters extends Scope {
  readonly kind: ObjectKind;
  readonly node?: string;
  readonly name?: string;
  readonly workload?: string;
  readonly workload_kind: (typeof WORKLOAD_KINDS)[number];
  readonly time?: string;
  readonly limit: number;
}

const text = { type: "string" } as const;
const figure = { type: "number" } as const;
const described = (schema: object, description: string): object => ({ ...schema, description });
const ROW = {
  type: "object",
  required: ["name", "state", "health", "restarts", "recent_restarts"],
  properties: {
    cluster: text,
    namespace: text,
    name: text,
    node: text,
    owner: objectSchema({ kind: { type: "string", enum: WORKLOAD_KINDS }, name: text }),
    workload: described({ type: "string", enum: WORKLOAD_KINDS }, "the kind of a workload"),
    state: described(text, "such as Running, CrashLoopBackOff or NotReady"),
    health: described({ type: "string", enum: HEALTH }, "warning: it may recover by itself, or restarted in the last hour"),
    containers: described(figure, "of a running pod that is not ready"),
    ready: described(figure, "containers of this pod that are ready"),
    restarts: figure,
    recent_restarts: described(figure, "in the last hour"),
    last_reason: described(text, "why a container ended last, such as OOMKilled"),
    last_run: described(
      objectSchema({ container: text, restart_count: figure }),
      "the run that ended so; its log records have this k8s.container.restart_count",
    ),
    cpu: described(figure, "cores"),
    cpu_request: described(figure, "cores"),
    memory: described(figure, "bytes of the working set"),
    memory_limit: described(figure, "bytes"),
    memory_share: described(figure, "of the limit, of the container that is nearest to it; for a node, of its memory"),
    cpu_share: described(figure, "of the cores of a node"),
    disk_share: described(figure, "of the fullest file system of a node"),
    cores: figure,
    desired: described(figure, "replicas of a workload"),
    available: figure,
    failed: described(figure, "pods of a Job"),
    pods: figure,
    unhealthy_pods: figure,
    nodes: figure,
  },
} as const;
const ANSWER = objectSchema({
  objects: { type: "array", items: ROW },
  total: described(figure, "objects that match, of those that were read"),
  health: objectSchema({ bad: figure, warning: figure, ok: figure }),
  truncated: described(
    { type: "boolean" },
    "true: more objects match than `limit`, or there may be more than one request reads; choose a cluster or namespace",
  ),
});

export interface ClusterObjects {
  readonly rows: readonly (PodRow | GroupRow)[];
  readonly isTruncated: boolean;
}

type KubernetesRequest = FastifyRequest<{ Querystring: Parameters }>;

export function registerKubernetesRoute(app: FastifyInstance, { metrics, answers, guards }: KubernetesRouteOptions): void {
  addRoute(app, guards, {
    ...endpoint("GET", "/query/kubernetes", "reader", "metrics"),
    limited: "filtered",
    summary: "State of clusters, namespaces, workloads, nodes or pods, unhealthy ones first",
    description: "From the metrics that agents of clusters send.",
    query: { type: "object", properties: PARAMETERS },
    documented: { response: { 200: ANSWER } },
    handler: async (request: KubernetesRequest, reply: FastifyReply) => {
      refuseUnknown(request, PARAMETERS, []);
      const { query } = request;
      const ask: JsonQuery = async (orgId, options) => {
        options.admit?.();
        const { rows, isTruncated } = await readObjects(metrics, orgId, query, options);
        const count = (health: Health): number => rows.filter((row) => row.health === health).length;
        const answer = {
          objects: rows.slice(0, query.limit),
          total: rows.length,
          health: { bad: count("bad"), warning: count("warning"), ok: count("ok") },
          truncated: isTruncated || rows.length > query.limit,
        };
        return [Buffer.from(JSON.stringify(answer))];
      };
      return answerJson(request, reply, { answers, ask });
    },
  });
}

async function readObjects(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  { kind, cluster, namespace, node, name: wanted, workload, workload_kind: workloadKind, time }: Parameters,
  options: QueryOptions,
): Promise<ClusterObjects> {
  const atMs = time === undefined ? Date.now() : Number(readTime("time", time)) / 1e6;
  const columns = { ...POD_COLUMNS, ...WORKLOAD_COLUMNS, ...((kind === "node" || kind === "cluster") && NODE_COLUMNS) };
  const { cells, isTruncated } = await readCells(metrics, orgId, { columns, scope: { cluster, namespace }, atMs, options });
  const matching = (await buildPods(cells, readOwners(cells))).filter(
    (pod) =>
      (node === undefined || pod.node === node) &&
      (workload === undefined || (pod.owner?.name === workload && pod.owner.kind === workloadKind)),
  );
  const rows = kind === "pod" ? matching : buildGroups(kind, matching, cells);
  return { rows: wanted === undefined ? rows : rows.filter((row) => row.name === wanted), isTruncated };
}
