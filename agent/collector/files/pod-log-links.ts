// Detects links to pod logs whose target is missing. Docker stores containers' logs in its own folder, and the kubelet links to them
// under /var/log/pods: if that folder is not mounted, the collector reads nothing and reports no error. Invariant: it lists one folder at a
// time and stops at the first such link.
import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";

export const POD_LOGS = "/var/log/pods";

/** The first pod log whose link has no target, with that target; undefined if there is none, or no folder. */
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

/** Advice for the operator. */
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
