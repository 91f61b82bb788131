// How the agents of one cluster that share a key name themselves to the backend and to others on their node. Invariant: the same Secret,
// the same name, whatever the release is called.
import type { ClusterSettings } from "../settings.ts";

/** `<namespace>/<Secret>`. */
export function installationOf({ podNamespace, secretName }: Pick<ClusterSettings, "podNamespace" | "secretName">): string {
  return `${podNamespace}/${secretName}`;
}
