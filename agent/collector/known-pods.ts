// Checks whether the pods on this node are known: if not, it is unknown which of them opted out of log collection. Invariant: it asks only
// if the result matters, so that an API server that recovers from an outage gets one small list request per node.
import { pause } from "../../common/loop.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { NodePods } from "../pods/node-pods.ts";

const WITHIN_MS = 5_000;

export interface KnownPods {
  /** Undefined if pods can be listed; otherwise what is waited for and why, for a log line. */
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

/** For a collector that asks the agent: whether the agent knows the pods. Once it does, an outage of the API server does not matter. */
export function relayedPods(pods: Pick<NodePods, "start" | "known" | "isKnown" | "problem">): KnownPods {
  return {
    async whyUnknown(signal) {
      pods.start();
      if (!pods.isKnown) await Promise.race([pods.known, pause(WITHIN_MS, signal)]);
      return pods.isKnown ? undefined : `${WAITS} (${wordsOf(pods.problem ?? new DOMException("", "TimeoutError"))})`;
    },
  };
}

const WAITS = "waits for the Kubernetes API: until it answers, logs of pods are not read, and senders get no names of pods";

function wordsOf(error: unknown): string {
  if (error instanceof KubernetesError && error.status === 403)
    return `${error.message}: the ClusterRole of charts/cluster-agent grants it; \`diagnose\` names what is missing`;
  const { code, message, name } = error as NodeJS.ErrnoException;
  return name === "TimeoutError" || name === "AbortError" ? `no answer within ${WITHIN_MS / 1000} s` : message || (code ?? name);
}
