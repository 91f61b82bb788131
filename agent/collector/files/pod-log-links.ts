// Detects links to pod logs whose target is missing. Docker stores containers' logs in its own folder, and the kubelet links to them
// under /var/log/pods: if that folder is not mounted, the collector reads nothing and reports no error. Invariant: it lists one folder at a
// time and stops at the first such link.
import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { join } from "node:path";

export const POD_LOGS = "/var/log/pods";

/** Returns the first pod log whose link has no target, with that target; undefined if there is none, or no folder. */
export async function findBrokenLink(root = POD_LOGS): Promise<{ link: string; target: string } | undefined> {
  for (const pod of await entries(root)) {
    for (const container of await entries(join(root, pod))) {
      for (const file of await entries(join(root, pod, container))) {
        const link = join(root, pod, container, file);
        if (!file.endsWith(".log") || !(await isBrokenLink(link))) continue;
        const target = await readlink(link).catch(() => undefined);
        if (target !== undefined) return { link, target };
      }
    }
  }
  return undefined;
}

/** Advice for the operator. */
export function adviceForLink({ link, target }: { link: string; target: string }): string {
  return `${link} points to ${target}, which is not mounted. With Docker, set the chart's logs.dockerContainers to Docker's container folder, for example /var/lib/docker/containers`;
}

async function isBrokenLink(path: string): Promise<boolean> {
  const entry = await lstat(path).catch(() => undefined);
  if (!entry?.isSymbolicLink()) return false;
  const error: unknown = await stat(path).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  return (error as NodeJS.ErrnoException | undefined)?.code === "ENOENT";
}

async function entries(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
