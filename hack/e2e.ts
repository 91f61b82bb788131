// `npm run test:e2e`: the end-to-end suite on a real cluster. Where a container engine runs: a kind cluster, the images built and
// loaded (hack/kind-up). Else the cluster that KUBECONFIG names, whose nodes have the images atherops-agent:VERSION,
// atherops-backend:VERSION and atherops-backend:VERSION-lean of package.json already. Else it says what is missing.
import { spawnSync } from "node:child_process";
import packageFile from "../package.json" with { type: "json" };

const { version } = packageFile;

if (!process.env["KUBECONFIG"]) {
  if (spawnSync("docker", ["info"], { stdio: "ignore" }).status !== 0) {
    console.error(
      "npm run test:e2e: there is neither a running container engine (docker info) nor KUBECONFIG.\n" +
        `Start Docker, or set KUBECONFIG to a cluster whose nodes have the images atherops-agent:${version}, atherops-backend:${version} and atherops-backend:${version}-lean.`,
    );
    process.exit(1);
  }
  const up = spawnSync("hack/kind-up", ["--cluster-only"], { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" });
  if (up.status !== 0) process.exit(up.status ?? 1);
  process.env["KUBECONFIG"] = up.stdout.trim().split("\n").at(-1);
  // The kubelets of kind have certificates that no authority of the cluster signed.
  process.env["E2E_AGENT_FLAGS"] ??= "--set kubelet.tls=skip";
}
const run = spawnSync(process.execPath, ["hack/test.ts", "--project=e2e", ...process.argv.slice(2)], { stdio: "inherit" });
process.exit(run.status ?? 1);
