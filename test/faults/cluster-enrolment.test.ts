// Enrolment of several agents with one install token and a real kube-apiserver, with exactly the chart's permissions: the races and crashes
// in which a token could be wasted or two keys created. (Twenty agents at once: cluster-load.test.ts.)
import { describe, expect, it } from "vitest";
import type { Step } from "../../agent/identity/leader-session.ts";
import { REGISTER_CLUSTER_PATH } from "../../common/protocol/enrolment.ts";
import { keyHash } from "../../common/protocol/signature.ts";
import { EnrolmentBackend } from "../fixtures/enrolment-backend.ts";
import { IdentityCluster } from "../fixtures/identity-cluster.ts";
import { apiServerOfFile } from "../fixtures/kube-apiserver.ts";
import { halt } from "../fixtures/process-state.ts";
import { eventually } from "../fixtures/processes.ts";

const apiServer = apiServerOfFile();

describe("the first start", () => {
  it.for<Step>(["lease-acquired", "enrolment-announced", "registered", "enrolment-stored", "lease-released"])(
    "is completed by the next agent if the first is killed right after %s",
    async (killAfter) => {
      await using backend = await EnrolmentBackend.start();
      await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
      const installToken = backend.newInstallToken();
      const first = cluster.agent("first", { installToken, killAfter });
      expect(await first.ended()).toBe("SIGKILL");
      const next = cluster.agent("next", { installToken });
      const hash = await next.signing();
      expect(backend.keys.map(({ apiKey }) => keyHash(apiKey))).toEqual([hash]);
      const again = cluster.agent("first", { installToken });
      expect(await again.signing()).toBe(hash);
      expect(backend.registrations.filter((status) => status !== 201)).toEqual([]);
      expect(await cluster.secret()).toMatchObject({ credential: { apiKey: backend.keys[0]!.apiKey }, pendingEnrolments: {} });
    },
  );

  it("loses no token if the response of register is lost", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    backend.loseAnswerOf = REGISTER_CLUSTER_PATH;
    const agent = cluster.agent("only", { installToken: backend.newInstallToken() });
    const hash = await agent.signing();
    expect(backend.keys.map(({ apiKey }) => keyHash(apiKey))).toEqual([hash]);
  });

  it("is not affected by an agent that was paused past its term between the response and storing it", async () => {
    await using backend = await EnrolmentBackend.start();
    await using cluster = await IdentityCluster.start(apiServer.kube, apiServer.folder, backend.url);
    const installToken = backend.newInstallToken();
    const paused = cluster.agent("paused", { installToken, waitAfter: "registered" });
    await eventually("it has the answer", async () => paused.steps.includes("registered"));
    await halt(paused.child.pid as number);
    const next = cluster.agent("next", { installToken });
    const hash = await next.signing();
    const stored = (await cluster.secret()).version;
    paused.child.kill("SIGUSR2");
    paused.child.kill("SIGCONT");
    expect(await paused.signing()).toBe(hash);
    expect(paused.steps).not.toContain("enrolment-stored");
    expect((await cluster.secret()).version).toBe(stored);
    expect(backend.keys).toHaveLength(1);
  });
});
