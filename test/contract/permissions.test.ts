// Compares the permissions of the cluster agent, as the API server lists them (`kubectl auth can-i --list` does the same), with the table
// of charts/cluster-agent/README.md, in every combination of all but one of the values that its rows mention: no rule depends on all of them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { KubeAdmin } from "../fixtures/kube-admin.ts";
import { AGENT_CHART, apiServerOfFile } from "../fixtures/kube-apiserver.ts";

const WITHIN = () => AbortSignal.timeout(60_000);
const apiServer = apiServerOfFile();

interface Row {
  /** `get pods`, `get secrets cluster-agent-credentials`. */
  readonly grants: readonly string[];
  /** One of these values must be on; none: always. */
  readonly values: readonly string[];
}

/** Resources that a row calls by other words. */
const NAMED: Record<string, readonly string[]> = {
  "own namespace: its Secret and its Lease, by name": ["secrets cluster-agent-credentials", "leases cluster-agent"],
  "own namespace: Leases": ["leases"],
  "namespace kube-system, by name": ["namespaces kube-system"],
  "own namespace: the Lease `<identity.leaseName>-collection`, by name": ["leases cluster-agent-collection"],
};

/** Values that do nothing without another. */
const NEEDS: Record<string, string> = { "clusterState.enabled": "signals.metrics", "events.enabled": "signals.logs" };

const README = readFileSync(join(AGENT_CHART, "README.md"), "utf8");

function table(): Row[] {
  const text = /## Permissions in the cluster\n([^]*?)\n\n/.exec(README)?.[1] ?? "";
  return text
    .split("\n")
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()))
    .map(([, where = "", verbs = "", why = ""]) => ({
      grants: (NAMED[where] ?? where.split(/[,;] /)).flatMap((resource) => verbs.split(", ").map((verb) => `${verb} ${resource}`)),
      values: [...(/\bwith (`.+`)/.exec(why)?.[1] ?? "").matchAll(/`([\w.]+)`/g)].map(([, name = ""]) =>
        name.includes(".") ? name : `${name}.enabled`,
      ),
    }))
    .filter(({ grants, values }) => !grants[0]?.startsWith("as listed there") && !values.includes("openshift.scc"));
}

const ROWS = table();
const VALUES = [...new Set([...ROWS.flatMap(({ values }) => values), ...Object.values(NEEDS)])].sort();

/** The enabled values, among those that a row mentions. */
type Combination = ReadonlySet<string>;

/** An even number of values: whatever all but one of them are, there is one combination. */
const COMBINATIONS: Combination[] = Array.from(
  { length: 2 ** VALUES.length },
  (_, bits) => new Set(VALUES.filter((_value, at) => (bits >> at) % 2 === 1)),
).filter((on) => on.size % 2 === 0);

function documented(on: Combination): string[] {
  const counts = (value: string): boolean => on.has(value) && (NEEDS[value] === undefined || on.has(NEEDS[value]));
  const rows = ROWS.filter(({ values }) => values.length === 0 || values.some(counts));
  return [...new Set(rows.flatMap(({ grants }) => grants))].sort();
}

interface Rule {
  verbs: string[];
  resources?: string[];
  resourceNames?: string[];
}

/** Without what every account may: ask about itself. */
async function granted(namespace: string): Promise<string[]> {
  await using agent = new KubeAdmin(await apiServer.kube.agentAccess(namespace));
  const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace } };
  const path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const { status } = await agent.post<{ status: { resourceRules: Rule[] } }>(path, review, WITHIN());
  const all = status.resourceRules.flatMap(({ verbs, resources = [], resourceNames = [""] }) =>
    verbs.flatMap((verb) => resources.flatMap((resource) => resourceNames.map((name) => `${verb} ${resource} ${name}`.trim()))),
  );
  return [...new Set(all.filter((grant) => !/^create selfsubject\w*reviews$/.test(grant)))].sort();
}

const AT_ONCE = 4;

test("the table's rows name existing values, and the page lists those that need another", () => {
  expect(ROWS.length).toBeGreaterThanOrEqual(5);
  expect(VALUES).toEqual(expect.arrayContaining(["signals.metrics", "rbac.diagnose"]));
  for (const [value, needed] of Object.entries(NEEDS)) expect(README).toContain(`\`${value.split(".")[0]}\` needs \`${needed}\``);
});

test("in every combination of all but one value the agent has exactly the permissions of the README", async () => {
  for (let first = 0; first < COMBINATIONS.length; first += AT_ONCE) {
    const some = COMBINATIONS.slice(first, first + AT_ONCE);
    await Promise.all(
      some.map(async (on, at) => {
        const namespace = `combination-${first + at}`;
        await apiServer.kube.installChart(namespace, ["signals.traces=true", ...VALUES.map((value) => `${value}=${on.has(value)}`)]);
        expect(await granted(namespace), `with ${[...on].join(", ")}`).toEqual(documented(on));
      }),
    );
  }
});

test("with rbac.extraRules, has those too", async () => {
  const rule = ["apiGroups={storage.k8s.io}", "resources={storageclasses}", "verbs={list}"];
  await apiServer.kube.installChart("plain");
  await apiServer.kube.installChart(
    "more",
    rule.map((part) => `rbac.extraRules[0].${part}`),
  );
  expect(await granted("more")).toEqual([...(await granted("plain")), "list storageclasses"].sort());
});
