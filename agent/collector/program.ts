// The collector as a program of this machine: where it is, and which variables it is given. Invariant: nothing of the agent's own
// environment reaches it but what is named here.
import { isExecutable } from "../../common/file-access.ts";
import { bareHost } from "../../common/host-name.ts";
import { COLLECTOR_VERSION, type Settings, SettingsError } from "../settings.ts";

/** Variables of the collector's allow-list environment that settings decide. */
export function collectorVariables({ cluster }: Settings): Record<string, string> {
  if (!cluster) return {};
  const { hostname, port } = new URL(cluster.kubernetesServer);
  return { KUBERNETES_SERVICE_HOST: bareHost(hostname), KUBERNETES_SERVICE_PORT: port || "443" };
}

/** The collector's program. Throws SettingsError when there is none, or none of what the collector is to run itself. */
export function collectorProgram({ otelcolPath, host }: Settings): string {
  const journalctl = host?.journal?.program;
  if (journalctl !== undefined && !isExecutable(journalctl)) {
    throw new SettingsError(`JOURNALD: ${journalctl} cannot be executed; name another with JOURNALCTL_PATH, or leave JOURNALD out`);
  }
  const found = otelcolPath.find(isExecutable);
  if (found !== undefined) return found;
  const [named, ...others] = otelcolPath;
  const where = others.length === 0 ? `${named} cannot be executed` : "there is no collector on PATH or in the tool cache";
  throw new SettingsError(`OTELCOL_PATH: ${where}; install otelcol-contrib ${COLLECTOR_VERSION} and name it here`);
}
