// Enrolment without a secret: the agents prove who they are with tokens that the real issuer of this cluster signs for their pods. Includes
// kills during enrolment, before and after the organisation trusts the issuer (E2E_STORM=1: 30 of them), a deleted Secret, a replaced pod, a
// second release and a service account that no rule permits. The tests depend on each other and run in order.
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../fixtures/processes.ts";
import { get, helm, kubectl, NAMESPACE } from "./cluster.ts";
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

/** A command that ends every process of the node and starts it again. */
const REBOOT = process.env["E2E_REBOOT"];
const KILLS = process.env["E2E_STORM"] ? 30 : 6;
/** The agent is killed at a random time in its first seconds, in which it starts and enrols. */
const LONGEST_LIFE_MS = 5000;
const SECRET = "cluster-agent-credentials";
const subjectOf = (serviceAccount: string): string => `system:serviceaccount:${NAMESPACE}:${serviceAccount}`;

let backend: InstalledBackend;
/** What `atherops issuers create` prints. */
let audience: string;
let kills = 0;

beforeAll(async () => {
  await makeNamespace();
  backend = await InstalledBackend.install();
  await backend.loginInPod();
});
afterAll(async () => {
  await backend?.[Symbol.asyncDispose]();
  if (!process.env["E2E_KEEP"]) await removeNamespace();
});

async function trustIssuer(subject: string): Promise<string> {
  const { issuer } = JSON.parse(await kubectl(["get", "--raw", "/.well-known/openid-configuration"])) as { issuer: string };
  const keys = await kubectl(["get", "--raw", "/openid/v1/jwks"]);
  const command = `atherops issuers create cluster --issuer ${issuer} --jwks - --claim 'sub=${subject}' --permit enrol_cluster --as e2e`;
  return (await backend.shell(command, keys)).trim();
}

/** Changes the subject that the rule permits, as an operator does with a file. */
async function permit(subject: string): Promise<void> {
  const change = `sed 's/sub: .*/sub: ${subject.replaceAll("*", "\\*")}/'`;
  await backend.shell(`atherops export issuers | ${change} >/tmp/issuers.yaml && atherops apply -f /tmp/issuers.yaml`);
}

async function installAgent(release: string, ...values: string[]): Promise<void> {
  const identity = ["identity.workload=true", `identity.audience=${audience}`, "heartbeatInterval=10s", ...values];
  await helm("install", release, AGENT_CHART, ...AGENT_SET, ...identity.flatMap((value) => ["--set", value]));
}

const rollout = (release = "agent"): Promise<string> =>
  kubectl(["-n", NAMESPACE, "rollout", "status", `daemonset/${release}-cluster-agent`, "--timeout=180s"]);

/** Replaces the pod, because the kubelet restarts a container that exits with increasing backoff. */
async function kill(): Promise<void> {
  const pod = await runningAgentPod();
  // Spreads the kills over all steps of a start.
  await sleep(randomInt(LONGEST_LIFE_MS));
  killAgentProcess();
  await kubectl(["-n", NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=true", "--ignore-not-found"]);
  kills += 1;
}

async function clusters(): Promise<{ cluster_id: string; name: string; online: boolean }[]> {
  return (await backend.ask("/api/clusters")).json;
}

/** Registrations that got a new key; a repeated request gets the same one. */
async function registrations(): Promise<{ subject: Record<string, unknown> }[]> {
  const entries = (await backend.ask("/api/audit?action=cluster.register")).json as { subject: Record<string, unknown> }[];
  return entries.filter(({ subject }) => subject["repeated"] !== true);
}

const logsOf = (release: string): Promise<string> => kubectl(["-n", NAMESPACE, "logs", `daemonset/${release}-cluster-agent`, "--tail=-1"]);

/** Installs a release, waits for `reason` in its log, and removes it. */
async function refusedRelease(release: string, reason: string): Promise<{ ready: number; keys: string[]; clusters: number }> {
  const own = ["secretName", "leaseName"].map((name) => `identity.${name}=${release}`);
  await installAgent(release, ...own, `stateHostPath=/var/lib/${NAMESPACE}/${release}`);
  await eventually(`the log of ${release} has the reason`, async () => (await logsOf(release)).includes(reason), 120_000);
  const ready = (await get("daemonset", `${release}-cluster-agent`)).status.numberReady;
  const keys = Object.keys((await get("secret", release)).data ?? {}).filter((name) => name === "api-key");
  await helm("uninstall", release, "--wait");
  return { ready, keys, clusters: (await clusters()).length };
}
const NO_KEY = { ready: 0, keys: [], clusters: 1 };

test("kills during enrolment, before and after the issuer is trusted, leave one registration", { timeout: 1_800_000 }, async () => {
  audience = await trustIssuer(subjectOf("not-yet"));
  expect(audience).toMatch(/^atherops:[0-9a-f-]{36}$/);
  await installAgent("agent");
  await eventually("a refusal", async () => (await logsOf("agent")).includes("no rule of the issuer cluster permits this token"), 120_000);
  for (let count = 0; count < KILLS / 2; count += 1) await kill();
  expect(await clusters()).toEqual([]);
  await permit(subjectOf("agent*-cluster-agent"));
  for (let count = 0; count < KILLS / 2; count += 1) await kill();
  await rollout();
  const [cluster] = await clusters();
  console.log(`${kills} kills:`, cluster, await registrations());
  expect(await clusters()).toEqual([expect.objectContaining({ name: "e2e" })]);
  expect(await registrations()).toHaveLength(1);
  expect((await registrations())[0]?.subject).toMatchObject({ subject: subjectOf("agent-cluster-agent") });
  await helm("test", "agent", "--timeout", "2m");
});

test("a deleted Secret is created again with the same key, and a replaced pod uses it", async () => {
  const key = await storedKey();
  await kubectl(["-n", NAMESPACE, "delete", "secret", SECRET]);
  expect(await eventually("the Secret", storedKey, 120_000)).toBe(key);
  await kubectl(["-n", NAMESPACE, "delete", "pod", await runningAgentPod(), "--wait=true"]);
  await rollout();
  expect(await storedKey()).toBe(key);
  expect(await registrations()).toHaveLength(1);
});

test("if Secret and agent are lost together, the cluster enrols again and stays the same cluster", async () => {
  const [before] = await clusters();
  const key = await storedKey();
  const pod = await runningAgentPod();
  killAgentProcess();
  await Promise.all([
    kubectl(["-n", NAMESPACE, "delete", "secret", SECRET]),
    kubectl(["-n", NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=true", "--ignore-not-found"]),
  ]);
  expect(await eventually("a key", storedKey, 180_000)).not.toBe(key);
  await rollout();
  expect(await registrations()).toHaveLength(2);
  await eventually("online", async () => (await clusters())[0]?.online === true, 60_000);
  expect((await clusters()).map(({ cluster_id }) => cluster_id)).toEqual([before?.cluster_id]);
});

test.skipIf(!REBOOT)("a restarted node has the same key and no further registration (needs E2E_REBOOT)", { timeout: 600_000 }, async () => {
  const [key, before, pod] = [await storedKey(), (await registrations()).length, await runningAgentPod()];
  const restarts = async (): Promise<number> => (await get("pod", pod)).status.containerStatuses[0].restartCount;
  const first = await restarts();
  execFileSync("sh", ["-c", REBOOT ?? ""], { stdio: "ignore" });
  await eventually("the agent's container again", async () => (await restarts()) > first, 300_000);
  await rollout();
  await eventually("online", async () => (await clusters())[0]?.online === true, 120_000);
  expect(await storedKey()).toBe(key);
  expect([(await clusters()).length, (await registrations()).length]).toEqual([1, before]);
});

test("a service account that no rule permits gets no key, and its log has the reason", async () => {
  const reason = "no rule of the issuer cluster permits this token to enrol a cluster";
  expect(await refusedRelease("foreign", reason)).toEqual(NO_KEY);
});

test("a second release with a Secret of its own gets no key while the first one is alive", async () => {
  expect(await refusedRelease("agent-second", "another installation of the agent")).toEqual(NO_KEY);
});

test("helm upgrade of the agent keeps key and registration", async () => {
  const [key, before] = [await storedKey(), (await registrations()).length];
  await helm("upgrade", "agent", AGENT_CHART, "--reuse-values", "--set", "logLevel=debug", ...WAIT);
  expect(await storedKey()).toBe(key);
  expect(await registrations()).toHaveLength(before);
});
