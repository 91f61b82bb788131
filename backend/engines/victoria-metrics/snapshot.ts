// Takes a snapshot of the embedded metrics engine with hard links while the engine runs (its `/snapshot/create`). Invariant: a snapshot is
// only a folder, so its remains can be removed whether or not the engine runs.
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { loginOf } from "../engine-http.ts";

const NAME = /^\d{14}-[0-9A-F]{1,16}$/;
/** The engine first writes its memory to disk. */
const CREATE_TIMEOUT_MS = 120_000;
const COUNT_TIMEOUT_MS = 10_000;

/** Returns the name of the snapshot, which contains all acknowledged samples. */
export async function createSnapshot(engineUrl: string): Promise<string> {
  const { snapshot } = (await getJson(engineUrl, "/snapshot/create", CREATE_TIMEOUT_MS)) as { snapshot?: unknown };
  return checkName(snapshot);
}

/** The number of series that the engine has; undefined if counting takes too long. */
export async function countSeries(engineUrl: string): Promise<number | undefined> {
  try {
    const { data } = (await getJson(engineUrl, "/api/v1/series/count", COUNT_TIMEOUT_MS)) as { data?: unknown[] };
    const count = data?.[0];
    return typeof count === "number" ? count : undefined;
  } catch {
    // The number is only shown to operators.
    return undefined;
  }
}

/** The folder of a snapshot, whose links point to other folders of the engine. Throws if `name` is not the name of a snapshot. */
export function snapshotFolder(engineFolder: string, name: unknown): string {
  return join(engineFolder, "snapshots", checkName(name));
}

/** Removes all snapshots. Only backups create them, one at a time. */
export async function removeSnapshots(engineFolder: string): Promise<void> {
  // The links are removed first: without them, the rest is no longer a snapshot.
  for (const subfolder of ["snapshots", ...["small", "big", "indexdb"].map((part) => join("data", part, "snapshots"))]) {
    const folder = join(engineFolder, subfolder);
    const names = existsSync(folder) ? readdirSync(folder).filter((name) => NAME.test(name)) : [];
    for (const name of names) await rm(join(folder, name), { recursive: true, force: true });
  }
}

function checkName(name: unknown): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  throw new Error(`not the name of a snapshot: ${JSON.stringify(name)}`);
}

async function getJson(engineUrl: string, path: string, timeoutMs: number): Promise<unknown> {
  const { url, headers } = loginOf(engineUrl);
  const response = await fetch(url + path, { headers, signal: AbortSignal.timeout(timeoutMs) });
  if (!response.ok) throw new Error(`victoria-metrics answered ${response.status} to ${path}`);
  return await response.json();
}

/** The number of samples, read from the parts in the engine's folder without the engine. Undefined if the folder does not exist. */
export function countSamples(engineFolder: string): number | undefined {
  const data = join(engineFolder, "data");
  if (!existsSync(data)) return undefined;
  const files = ["small", "big"].flatMap((size) =>
    globSync(join("*", "*", "metadata.json"), { cwd: join(data, size) }).map((file) => join(data, size, file)),
  );
  return files.reduce((sum, file) => sum + ((JSON.parse(readFileSync(file, "utf8")) as { RowsCount?: number }).RowsCount ?? 0), 0);
}
