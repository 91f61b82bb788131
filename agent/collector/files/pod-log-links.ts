// Detects that pod logs are elsewhere, so that the collector reads nothing and reports no error. Docker stores containers' logs in its own
// folder, and the kubelet links to them under /var/log/pods: the links have no target if that folder is not mounted. A kubelet with another
// folder for pod logs leaves /var/log/pods empty. Invariant: it lists one folder at a time and stops at the first broken link.
import { readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";

export const POD_LOGS = "/var/log/pods";

/**
 * Paths of the files of pods: `<root>/<pod>/<container>/<file>`. Folders that cannot be read are left out, such as one of a pod that was just
 * removed.
 */
export async function* podFiles(root: string, isWanted = (_pod: string): boolean => true): AsyncGenerator<string> {
  for (const pod of (await entries(root)).filter(isWanted)) {
    for (const container of await entries(join(root, pod))) {
      for (const file of await entries(join(root, pod, container))) yield join(root, pod, container, file);
    }
  }
}

/** Returns the first pod log whose link has no target, with that target; undefined if there is none, or no folder. */
async function findBrokenLink(root: string): Promise<{ link: string; target: string } | undefined> {
  for await (const link of podFiles(root)) {
    // Undefined for a file that is no link.
    const target = link.endsWith(".log") ? await readlink(link).catch(() => undefined) : undefined;
    if (target !== undefined && (await isMissing(link))) return { link, target };
  }
  return undefined;
}

export interface PodLogProblem {
  readonly what: string;
  readonly advice: string;
}

/** Returns why no pod logs can be read, as far as their folders show it. `ownPodUid`: of the pod that this agent runs in. */
export async function findPodLogProblem(ownPodUid: string, root = POD_LOGS): Promise<PodLogProblem | undefined> {
  const broken = await findBrokenLink(root);
  if (broken)
    return {
      what: "their files are links into a folder that is not mounted",
      advice: `${broken.link} points to ${broken.target}. With Docker, set the chart's logs.dockerContainers to Docker's container folder, for example /var/lib/docker/containers`,
    };
  if ((await entries(root)).some((name) => name.endsWith(`_${ownPodUid}`))) return undefined;
  return {
    what: `${root} has no folder of the agent's own pod`,
    advice: `if the kubelet writes pod logs to another folder (podLogsDir), mount that folder at ${root} on the node`,
  };
}

async function isMissing(path: string): Promise<boolean> {
  const error: unknown = await stat(path).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  return (error as NodeJS.ErrnoException | undefined)?.code === "ENOENT";
}

async function entries(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
