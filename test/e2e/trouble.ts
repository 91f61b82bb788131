// Workloads of every kind of trouble that docs/find-out-why.md shows how to find, and what its commands are to say of each. Their program
// is the agent's image, which is on every node already.
import { expect } from "vitest";
import { eventually } from "../fixtures/processes.ts";
import { commandsOfPage } from "../fixtures/find-out-why.ts";
import { apply, kubectl, NAMESPACE } from "./cluster.ts";

interface Trouble {
  /** Replaces NAME in the commands of the section. */
  readonly name: string;
  /** Found in the answer of each command, in the order of the page. */
  readonly answers: readonly RegExp[];
  /** The object to create again if no agent collected its single event. */
  readonly once?: string;
}

/** An event that was not collected within this time never will be (charts/cluster-agent/README.md, "Cluster state and events"). */
const LOOK_FOR_MS = 60_000;
const TRIES = 4;

const TROUBLES: Readonly<Record<string, Trouble>> = {
  "A Deployment is not ready": {
    name: "unplaceable",
    answers: [/unplaceable/, /unplaceable-/, /WARN.*nodes are available/i, /Scaled up replica set unplaceable-/],
  },
  "A container restarts again and again": {
    name: "crashing",
    answers: [/crashing/, /crashing/, /Back-off restarting failed container/, /ERROR no database at db:5432/],
  },
  "A container is killed because it runs out of memory": {
    name: "greedy",
    answers: [/greedy/, /100663296/, /Back-off restarting failed container/, /INFO holding \d+ MB/],
  },
  "A Job has failed": { name: "failing", answers: [/failing/, /backoff limit/, /ERROR nothing to do/], once: "job/failing" },
  "A volume is full": {
    name: "full",
    answers: [
      /"k8s_pod_name":"full".*"k8s_volume_name":"scratch"/,
      /ERROR ENOSPC: no space left on device/,
      /evicted/,
      /exceeds the limit/,
    ],
    once: "pod/evicted",
  },
};

/** Objects to delete afterwards. */
export const TROUBLED = ["deployment/unplaceable", "job/failing", "pod/crashing", "pod/greedy", "pod/full", "pod/evicted"];

/** Documents for `apply`. */
export function troubles(image: string): object[] {
  const node = (program: string, more = {}): object => ({
    name: "main",
    image,
    imagePullPolicy: "IfNotPresent",
    command: ["node", "-e", program],
    resources: { limits: { memory: "96Mi" } },
    ...more,
  });
  const fails = (words: string): object => node(`console.log(new Date().toISOString() + " ERROR ${words}"); process.exit(1)`);
  const pod = (name: string, container: object, spec = {}): object => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE },
    spec: { terminationGracePeriodSeconds: 1, containers: [container], ...spec },
  });
  const labels = { app: "unplaceable" };
  const template = { metadata: { labels }, spec: { nodeSelector: { nowhere: "true" }, containers: [node("0")] } };
  const failing = { restartPolicy: "Never", containers: [fails("nothing to do")] };
  const greed =
    'const held = []; setInterval(() => { held.push(Buffer.alloc(8e6, 1)); console.log(new Date().toISOString() + " INFO holding " + held.length * 8 + " MB") }, 50)';
  /** Writes 8 MB, says where that failed, and stays. */
  const writer = node(
    'try { require("fs").writeFileSync("/scratch/data", Buffer.alloc(8e6)) } catch (error) { console.log(new Date().toISOString() + " ERROR " + error.message) } setInterval(() => {}, 1e6)',
    { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] },
  );
  const scratch = (emptyDir: object): object => ({ volumes: [{ name: "scratch", emptyDir }] });
  return [
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "unplaceable", namespace: NAMESPACE },
      spec: { selector: { matchLabels: labels }, template },
    },
    {
      apiVersion: "batch/v1",
      kind: "Job",
      metadata: { name: "failing", namespace: NAMESPACE },
      spec: { backoffLimit: 0, template: { spec: failing } },
    },
    pod("crashing", fails("no database at db:5432")),
    pod("greedy", node(greed)),
    pod("full", writer, scratch({ medium: "Memory", sizeLimit: "4Mi" })),
    pod("evicted", writer, scratch({ sizeLimit: "1Mi" })),
  ];
}

export interface Found {
  readonly what: string;
  readonly command: string;
  readonly answer: string;
}

/** Runs each command of the page until it says what it has to; `shell` runs one where `atherops` is logged in. Returns the answers. */
export async function foundByPage(image: string, shell: (command: string) => Promise<string>): Promise<Found[]> {
  const sections = Object.groupBy(commandsOfPage(), ({ section }) => section);
  expect(Object.keys(sections)).toEqual(Object.keys(TROUBLES));
  const found: Found[] = [];
  for (const [section, { name, answers, once }] of Object.entries(TROUBLES)) {
    const asked = sections[section] ?? [];
    expect(asked.length, section).toBe(answers.length);
    for (const [at, { what, command }] of asked.entries()) {
      const filled = command.replaceAll("NAMESPACE", NAMESPACE).replaceAll("NAME", name);
      const wanted = answers[at] ?? /$^/;
      const answer = await answerOf(filled, wanted, shell, () => (once === undefined ? undefined : remake(once, image)));
      found.push({ what, command: filled, answer });
    }
  }
  return found;
}

async function answerOf(
  command: string,
  wanted: RegExp,
  shell: (command: string) => Promise<string>,
  again: () => Promise<void> | undefined,
): Promise<string> {
  const ask = async (): Promise<string | undefined> => (await shell(command)).split("\n").find((line) => wanted.test(line));
  for (let left = TRIES; ; left--) {
    try {
      return await eventually(`${command} says ${wanted}`, ask, LOOK_FOR_MS);
    } catch (error) {
      if (left === 1) throw error;
      console.warn(`not within ${LOOK_FOR_MS / 1000} s: ${command}`);
      await again();
    }
  }
}

async function remake(of: string, image: string): Promise<void> {
  const [kind, name] = of.split("/");
  await kubectl(["-n", NAMESPACE, "delete", of, "--wait=true"]);
  const made = troubles(image) as { kind: string; metadata: { name: string } }[];
  await apply(...made.filter((document) => document.kind.toLowerCase() === kind && document.metadata.name === name));
}
