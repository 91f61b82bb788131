// Applies every documented set of values to a real API server: each manifest is accepted unchanged (--dry-run=server). The backend meets
// the pod security standard `restricted`, and the agent deviates from it only as its README lists.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { toolPath } from "../../hack/fetch-tools.ts";
import { ROOT } from "../fixtures/processes.ts";
import { kubectl } from "./cluster.ts";

const SPACE = "atherops-manifests";
/** Kinds that only an operator's custom resources bring, a Gateway, or OpenShift. */
const FOREIGN = ["ServiceMonitor", "PodMonitor", "PrometheusRule", "HTTPRoute", "GRPCRoute", "SecurityContextConstraints"];

beforeAll(async () => {
  await kubectl(["create", "namespace", SPACE]);
  await kubectl(["label", "namespace", SPACE, "pod-security.kubernetes.io/warn=restricted"]);
});

afterAll(async () => {
  await kubectl(["delete", "namespace", SPACE, "--wait=false"]);
});

/** Lets the server validate the manifests. Throws unless the exit code is 0; warnings are on stderr. */
async function dryRun(chart: string, values: string): Promise<{ accepted: number; warnings: string[] }> {
  const folder = join(ROOT, "charts", chart);
  const { stdout } = await execa(await toolPath("helm"), [
    "template",
    "t",
    folder,
    "-f",
    join(folder, "ci", values),
    "--namespace",
    SPACE,
    "--no-hooks",
  ]);
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as { kind: string } | null);
  const items = documents.filter((document) => document && !FOREIGN.includes(document.kind));
  const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
  const args = ["apply", "--server-side", "--dry-run=server", "-n", SPACE, "-f", "-"];
  const run = await execa(process.env["KUBECTL_PATH"] ?? "kubectl", args, { input: list });
  return {
    accepted: run.stdout.split("\n").filter((line) => line.includes("serverside-applied")).length,
    warnings: run.stderr.split("\n").filter(Boolean),
  };
}

const setsOf = (chart: string): string[] => readdirSync(join(ROOT, "charts", chart, "ci")).filter((name) => name.endsWith("-values.yaml"));

test.each(setsOf("backend"))(
  "the API server accepts the backend with %s, and it meets the standard restricted except persistence.chown",
  async (values) => {
    const { accepted, warnings } = await dryRun("backend", values);
    expect(accepted).toBeGreaterThan(3);
    const [ofChown, rest] = [
      warnings.filter((warning) => /container "chown"/.test(warning)),
      warnings.filter((warning) => !/"chown"/.test(warning)),
    ];
    expect(rest).toEqual([]);
    expect(ofChown.length > 0).toBe(values === "node-volume-values.yaml");
    expect(ofChown.join(" ")).not.toMatch(/container "backend"|containers "backend"/);
  },
);

test.each(setsOf("cluster-agent"))(
  "the API server accepts the agent with %s, and it departs from restricted only as its README lists",
  async (values) => {
    const { accepted, warnings } = await dryRun("cluster-agent", values);
    expect(accepted).toBeGreaterThan(3);
    expect(warnings.length > 0).toBe(values !== "no-host-values.yaml");
    const parts = warnings
      .join(" ")
      .replace(/^.*"restricted:latest": /, "")
      .split(/, (?=\w+[ A-Za-z]* (?:\(|!=|=))/);
    // super_t is what these values ask for: the README's row of Bottlerocket.
    const allowed = /hostPath|restricted volume types|unrestricted capabilities|runAsNonRoot|runAsUser=0|seLinuxOptions .* type "super_t"/;
    expect(parts.filter((part) => part !== "" && !allowed.test(part))).toEqual([]);
    expect(warnings.join(" ")).not.toMatch(/allowPrivilegeEscalation|seccompProfile|host namespaces|hostPort|privileged/);
  },
);
