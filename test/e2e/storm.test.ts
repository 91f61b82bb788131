// With E2E_STORM=1: the agent is killed 60 times, 15 times each while it enrols, rotates its key, is upgraded and gets remote configuration,
// while a pod writes 100,000 lines. Afterwards there is one registration, one chain of keys, and each line once. Takes eight minutes.
// Recorded runs: docs/measurements/0.1.0.md.
import { randomInt, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/processes.ts";
import { apply, helm, kubectl, NAMESPACE } from "./cluster.ts";
import {
  AGENT_CHART,
  AGENT_SET,
  InstalledBackend,
  killAgentProcess,
  makeNamespace,
  removeNamespace,
  runningAgentPod,
  storedKey,
  WAIT,
} from "./installation.ts";
import { sequencePod } from "./policies.ts";

const LINES = 100_000;
const KILLS_OF_A_PHASE = 15;
/** The agent is killed at a random time in its first seconds, in which it starts, enrols and starts its collector. */
const LONGEST_LIFE_MS = 8000;

interface AuditEntry {
  readonly subject: { readonly repeated?: boolean; readonly key_id?: string; readonly old_key_id?: string; readonly new_key_id?: string };
}

describe.runIf(process.env["E2E_STORM"])("a storm of kills (with E2E_STORM=1)", () => {
  let backend: InstalledBackend;
  let kills = 0;
  /** Kills in which the agent's process got SIGKILL before its pod was deleted; in the others, the kubelet ended it. */
  let sigkills = 0;
  beforeAll(async () => {
    await makeNamespace();
    backend = await InstalledBackend.install();
  });
  afterAll(async () => {
    await backend?.[Symbol.asyncDispose]();
    await removeNamespace();
  });

  /** Replaces the pod, because the kubelet restarts a container that exits with increasing backoff. */
  async function kill(): Promise<void> {
    const pod = await runningAgentPod();
    // Paces the kills, so that they meet every step of a start.
    await sleep(randomInt(LONGEST_LIFE_MS));
    sigkills += Number(killAgentProcess());
    await kubectl(["-n", NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=true", "--ignore-not-found"]);
    kills += 1;
  }

  /** Calls `begin` before every five kills. */
  async function killDuring(begin: (round: number) => Promise<unknown>): Promise<void> {
    for (let round = 0; round * 5 < KILLS_OF_A_PHASE; round += 1) {
      await begin(round);
      for (let count = 0; count < 5; count += 1) await kill();
    }
  }

  const ready = async (): Promise<string> =>
    await kubectl(["-n", NAMESPACE, "rollout", "status", "daemonset/agent-cluster-agent", "--timeout=300s"]);
  const upgrade = async (...args: string[]): Promise<string> => await helm("upgrade", "agent", AGENT_CHART, "--reuse-values", ...args);
  /** Requests a rotation and kills the agent at once: the request stays in the Secret. */
  const rotate = async (): Promise<void> => {
    const pod = await runningAgentPod();
    const command = kubectl(["-n", NAMESPACE, "exec", pod, "--", "atherops-k8s-otel-agent", "rotate"]).catch(String);
    await Promise.race([command, kill()]);
  };
  const audited = async (action: string): Promise<AuditEntry["subject"][]> =>
    ((await backend.ask(`/api/audit?action=${action}`)).json as AuditEntry[])
      .map(({ subject }) => subject)
      .filter(({ repeated }) => repeated !== true)
      .toReversed();

  test(
    "during enrolment, rotation, upgrade and remote configuration: one registration, one key, no line lost or repeated",
    { timeout: 7_200_000 },
    async () => {
      const sequence = `storm-${randomUUID().slice(0, 8)}`;
      await apply(sequencePod("storm", sequence, LINES));
      await backend.makeInstallToken();
      const values = ["installToken.existingSecret=install-token", "remoteConfigInterval=2s", "heartbeatInterval=10s"];
      await helm("install", "agent", AGENT_CHART, ...AGENT_SET, ...values.flatMap((value) => ["--set", value]));
      await killDuring(async () => undefined);
      await ready();
      const [{ cluster_id: id }] = (await backend.ask("/api/clusters")).json;
      const firstKey = await storedKey();
      await killDuring(rotate);
      await eventually("the rotated key in the Secret", async () => (await storedKey()) !== firstKey, 300_000);
      await killDuring(async (round) => await upgrade("--set", `logLevel=${round % 2 === 0 ? "debug" : "info"}`));
      const configure = async (seconds: number): Promise<string> => {
        const config = { intervals: { metrics: `${seconds}s` } };
        return (await backend.call("PUT", `/api/clusters/${id}/config`, { config })).json.version;
      };
      await killDuring(async (round) => await configure(round + 6));
      await ready();
      await upgrade(...WAIT);
      // The backend stops a rollout whose only node is killed again and again, so it is begun once more.
      const version = await configure(30);
      const node = async () => (await backend.ask("/api/clusters")).json[0].nodes[0];
      await eventually("the newest configuration in force", async () => (await node()).config?.in_force === version, 600_000);
      const seen = await backend.allNumbers(sequence, LINES);
      const registrations = await audited("cluster.register");
      const rotations = await audited("key.rotate");
      const clusters = (await backend.ask("/api/clusters")).json;
      const doubled = [...seen.values()].filter((count) => count > 1).length;
      const storm = { kills, stored: seen.size, doubled, clusters: clusters.length, registrations: registrations.length };
      console.log("storm:", { ...storm, sigkills, rotations: rotations.length, configuration: version });
      expect(storm).toMatchObject({ stored: LINES, doubled: 0, clusters: 1, registrations: 1 });
      expect(clusters[0].online).toBe(true);
      // Each key replaces the one before, so no two were in use side by side.
      expect(rotations.length).toBeGreaterThan(0);
      expect(rotations.map((rotation) => rotation.old_key_id)).toEqual(
        [registrations[0]?.key_id, ...rotations.map((rotation) => rotation.new_key_id)].slice(0, -1),
      );
    },
  );
});
