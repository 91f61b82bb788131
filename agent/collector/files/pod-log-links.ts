// Docker keeps containers' logs in a folder of its own, and the kubelet puts links to them under /var/log/pods: where that folder is not
// mounted the links lead nowhere, and the collector reads nothing without a word. Invariant: a folder at a time, and ends at the first.
import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";

export const POD_LOGS = "/var/log/pods";

/** A log file of a pod that leads nowhere, and where to; undefined when there is none, or no folder. */
export async function linkToNowhere(root = POD_LOGS): Promise<{ link: string; target: string } | undefined> {
  for (const pod of await entries(root)) {
    for (const container of await entries(join(root, pod))) {
      for (const file of await entries(join(root, pod, container))) {
        const link = join(root, pod, container, file);
        if (!file.endsWith(".log") || !(await isLinkToNowhere(link))) continue;
        const target = await readlink(link).catch(() => undefined);
        if (target !== undefined) return { link, target };
      }
    }
  }
  return undefined;
}

/** What to do. */
export function adviceForLink({ link, target }: { link: string; target: string }): string {
  return `${link} leads to ${target}, which is not mounted here, as with Docker: set logs.dockerContainers of the chart to Docker's folder of containers, such as /var/lib/docker/containers`;
}

async function isLinkToNowhere(path: string): Promise<boolean> {
  const isLink = await lstat(path).then(
    (entry) => entry.isSymbolicLink(),
    () => false,
  );
  return (
    isLink &&
    (await stat(path).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    ))
  );
}

async function entries(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
