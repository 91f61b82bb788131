// What the cluster agent knows of its node's pods, and how its collector asks for them. Invariant: a collector that asks the API server for
// itself costs no watch of the agent's.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { asksAgentForPods } from "../collector/config-from-settings.ts";
import { KUBECONFIG_VARIABLE } from "../collector/config.ts";
import { OPT_OUT_ANNOTATION } from "../collector/fragments/kubernetes-attributes.ts";
import { SCRAPE_ANNOTATIONS } from "../collector/fragments/scraped-pods.ts";
import { type KnownPods, knownPods, relayedPods } from "../collector/known-pods.ts";
import type { Log } from "../log.ts";
import type { ClusterSettings, Settings } from "../settings.ts";
import type { SlimOptions } from "../pods/slim-pod.ts";
import { kubernetesOf } from "./start-identity.ts";

export interface StartedPods {
  readonly known: KnownPods;
  readonly asksAgent: boolean;
  /** Of the collector of the node. */
  readonly env: Readonly<Record<string, string>>;
}

/** Undefined outside of a cluster. Disposed with `started`. */
export async function startPods(settings: Settings, log: Log, started: AsyncDisposableStack): Promise<StartedPods | undefined> {
  const { cluster } = settings;
  if (!cluster) return undefined;
  const api = started.use(await kubernetesOf(cluster));
  const asked = knownPods(api, cluster.nodeName);
  const direct = { known: asked, asksAgent: false, env: {} };
  if (!cluster.podRelay) return direct;
  const [{ NodePods }, { PodRelay }] = await Promise.all([import("../pods/node-pods.ts"), import("../pods/relay.ts")]);
  const pods = started.use(new NodePods({ api, nodeName: cluster.nodeName, kept: keptOfPods(cluster), log }));
  const relay = started.use(await PodRelay.start({ pods, nodeName: cluster.nodeName }));
  const file = join(settings.stateFolder ?? settings.stateDir, "pods.kubeconfig");
  try {
    writeFileSync(file, relay.kubeconfig, { mode: 0o600 });
  } catch (error) {
    // Safe: the same pods, by more watches.
    log.warn({ err: (error as Error).message }, "the collector asks the Kubernetes API for pods, not the agent: no place to tell it where");
    return direct;
  }
  const relayed = relayedPods(pods);
  // Decided anew at each look: COLLECTOR_CONFIG_FILE changes while the agent runs.
  const known: KnownPods = { whyUnknown: (signal) => (asksAgentForPods(settings) ? relayed : asked).whyUnknown(signal) };
  return { known, asksAgent: true, env: { [KUBECONFIG_VARIABLE]: file } };
}

/** What the rendered configuration asks of a pod. */
export function keptOfPods({ podLabels, podAnnotations }: Pick<ClusterSettings, "podLabels" | "podAnnotations">): SlimOptions {
  return { labels: podLabels, annotations: [OPT_OUT_ANNOTATION, ...SCRAPE_ANNOTATIONS, ...podAnnotations] };
}
