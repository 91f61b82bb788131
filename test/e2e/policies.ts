// Pods, LogPolicy objects and remote configuration for the end-to-end tests of what platform teams change without Helm.
import { versionOf } from "../../hack/version.ts";
import { ROOT } from "../fixtures/processes.ts";
import { NAMESPACE } from "./cluster.ts";

/** Values that the steps need in addition. Traces are off, so that a configuration that turns them on is refused. */
export const POLICY_SET = ["logs.policies=true", "remoteConfigInterval=2s", "heartbeatInterval=2s", "signals.traces=false"].flatMap(
  (value) => ["--set", value],
);

/** Writes about 80 kB/s. */
export function noisyPod(word: string): object {
  return nodePod(
    "noisy",
    `
    const padding = "x".repeat(180);
    let number = 0;
    setInterval(() => {
      for (let line = 0; line < 40; line++) console.log("${word} card=" + ++number + " " + padding);
    }, 100);`,
  );
}

/** Writes this number of numbered lines, 250 per second. */
export function sequencePod(name: string, sequence: string, lines: number): object {
  return nodePod(
    name,
    `
    let number = 0;
    setInterval(() => {
      for (let line = 0; line < 25 && number < ${lines}; line++) console.log("${sequence} " + ++number);
    }, 100);`,
  );
}

export function nodePod(name: string, program: string): object {
  const container = {
    name,
    image: `atherops-agent:${versionOf(ROOT)}`,
    imagePullPolicy: "IfNotPresent",
    command: ["node", "--input-type=module", "-e", program],
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE, labels: { app: name } },
    spec: { terminationGracePeriodSeconds: 1, containers: [container] },
  };
}

export function logPolicy(name: string, spec: object): object {
  return {
    apiVersion: "atherops.io/v1alpha1",
    kind: "LogPolicy",
    metadata: { name, namespace: NAMESPACE },
    spec: { selector: { matchLabels: { app: "noisy" } }, ...spec },
  };
}

/** The condition Accepted of a LogPolicy, as `kubectl get -o json` prints the object. */
export function acceptedOf(object: { status?: { conditions?: { type: string; status: string; message: string }[] } }) {
  return object.status?.conditions?.find(({ type }) => type === "Accepted");
}
