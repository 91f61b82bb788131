// A pod of an IPv6-only cluster: the real agent enrols and becomes ready, and its data is stored, with an API server and a backend that
// have only IPv6 addresses. Runs in a network namespace whose only IPv4 address is loopback. Creating the namespace needs root.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { canMount } from "../../agent/collector/supervision/small-disk.fixture.ts";
import { ADDRESS, type Outcome } from "../fixtures/ipv6-pod.ts";
import { readIfThere, ROOT, temporaryFolder } from "../fixtures/processes.ts";

test.skipIf(!canMount)("a pod with IPv6 alone is ready, and delivers spans and the cluster's state (needs root)", async () => {
  using folder = temporaryFolder();
  const setUp = `ip link set lo up && ip addr add ${ADDRESS}/128 dev lo nodad && mount -t tmpfs none /run && exec "$@"`;
  const program = [process.execPath, join(ROOT, "test/fixtures/ipv6-pod.ts"), folder.path];
  const run = promisify(execFile)("unshare", ["--net", "--mount", "sh", "-c", setUp, "sh", ...program], { cwd: ROOT });
  const { stdout } = await run.catch((error: unknown) => {
    throw new Error(`the agent said:\n${readIfThere(join(folder.path, "agent.out")).slice(-4000)}`, { cause: error });
  });
  const outcome = JSON.parse(stdout) as Outcome;
  expect(outcome).toMatchObject({ ready: 200, spans: 1, online: true });
  expect(outcome.namespaces).toBeGreaterThan(0);
});
