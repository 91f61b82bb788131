// Checks whether the pods on this node are known. Until they are, the agent cannot know which of them opted out of log collection.
import { pause } from "../../common/loop.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { NodePods } from "../pods/node-pods.ts";

const WITHIN_MS = 5_000;

export interface KnownPods {
  /** Returns the text of a log line if the pods are unknown, otherwise undefined. */
  whyUnknown(signal: AbortSignal): Promise<string | undefined>;
}

/** Lists a single pod from the API server's watch cache (`resourceVersion=0`): only a successful response matters. */
export function knownPods(api: Pick<KubernetesApi, "podsOfNode">, nodeName: string): KnownPods {
  return {
    async whyUnknown(signal) {
      try {
        await api.podsOfNode(nodeName, 1, AbortSignal.any([signal, AbortSignal.timeout(WITHIN_MS)]));
        return undefined;
      } catch (error) {
        return `${WAITS} (${wordsOf(error)})`;
      }
    },
  };
}

/** Checks the pods of a collector that gets them from the agent. Once the agent knows the pods, an outage of the API server does not matter. */
export function relayedPods(pods: Pick<NodePods, "start" | "known" | "isKnown" | "problem">): KnownPods {
  return {
    async whyUnknown(signal) {
      pods.start();
      if (!pods.isKnown) await Promise.race([pods.known, pause(WITHIN_MS, signal)]);
      return pods.isKnown ? undefined : `${WAITS} (${wordsOf(pods.problem ?? new DOMException("", "TimeoutError"))})`;
    },
  };
}

const WAITS = "waiting for the Kubernetes API: until it responds, pod logs are not read, and OTLP gets no pod names";

function wordsOf(error: unknown): string {
  if (error instanceof KubernetesError && error.status === 403)
    return `${error.message}: the ClusterRole of charts/cluster-agent grants it; \`diagnose\` lists missing permissions`;
  const { code, message, name } = error as NodeJS.ErrnoException;
  return name === "TimeoutError" || name === "AbortError" ? `no answer within ${WITHIN_MS / 1000} s` : message || (code ?? name);
}
