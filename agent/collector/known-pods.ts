// Whether it is known which pods run on this node: without that it is unknown which of them keep their logs to themselves. Invariant: asked
// only when the answer decides something, so that an outage costs an API server that comes back one small list of each node.
import { pause } from "../../common/loop.ts";
import type { KubernetesApi } from "../kubernetes/api.ts";
import { KubernetesError } from "../kubernetes/transport.ts";
import type { NodePods } from "../pods/node-pods.ts";

const WITHIN_MS = 5_000;

export interface KnownPods {
  /** Undefined when they can be listed, else what is waited for and why, for a log line. */
  whyUnknown(signal: AbortSignal): Promise<string | undefined>;
}

/** From the watch cache of the API server (`resourceVersion=0`), and only the first: that it answers is all that is asked. */
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

/** What the agent itself knows, for a collector that asks the agent. Of an outage of the API server it takes no note once they are known. */
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
