// A second release of the agent in a cluster that already has one: it is refused while the first is alive, without harm to it, and enrolled
// when the first is gone. Real kube-apiserver, real chart, real backend.
import { afterAll, beforeAll, expect, it } from "vitest";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { KubeApiServer } from "../fixtures/kube-apiserver.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually } from "../fixtures/processes.ts";

const backend = backendOfFile();
let kube: KubeApiServer;
let session: string;

beforeAll(async () => {
  kube = await KubeApiServer.start(backend.folder);
  session = await backend.operator();
});

afterAll(async () => {
  await kube?.[Symbol.asyncDispose]();
});

const installToken = () => backend.installToken(session);

it("is rejected by name, uses no token, does not affect the first one's key, and enrols once the first is gone", async () => {
  await using north = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  await using second = await IdentityCluster.start(kube, backend.folder, backend.apiUrl);
  const first = north.agent("first", { installToken: await installToken(), intervalS: 5 });
  const key = await first.signing();
  const late = second.agent("late", { installToken: await installToken(), intervalS: 5 });
  await eventually("it says who has the cluster", async () =>
    late.log.includes(`another installation of the agent (${north.namespace}/cluster-agent-credentials) has this cluster's key`),
  );
  const before = first.events.length;
  await eventually("the first goes on", async () => first.events.length > before + 10);
  expect([first.signsWith, first.refusals, late.signsWith]).toEqual([key, [], undefined]);
  await first.end("SIGTERM");
  const taken = await late.signing(() => true, 60_000);
  expect(taken).not.toBe(key);
  await eventually("it says that all is well", async () => late.log.includes("the cluster's identity has recovered"));
  expect((await call("GET", `${backend.apiUrl}/api/clusters`, { bearer: session })).json).toHaveLength(1);
});
