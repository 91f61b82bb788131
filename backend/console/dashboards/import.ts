// Reads a file with a dashboard: ours as it was exported, or Grafana's. Invariant: what the file contains beyond the fields of a dashboard is not
// sent to the backend, which validates the rest.
import type { Dashboard } from "./dashboard.ts";
import { type Imported, isGrafana, readGrafana } from "./grafana.ts";

/** Grafana's JSON has much that is left out here. */
const MAX_FILE_BYTES = 4 * 1024 * 1024;

export async function readDashboard(file: Blob): Promise<Imported> {
  if (file.size > MAX_FILE_BYTES) throw new Error(`The file is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`);
  return dashboardOf(await file.text());
}

export function dashboardOf(text: string): Imported {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new Error("The file is not valid JSON.", { cause: error });
  }
  if (isGrafana(json)) return readGrafana(json);
  const { name, description = "", variables = [], panels } = json as Partial<Dashboard>;
  if (typeof name !== "string" || !Array.isArray(panels)) throw new Error("The file has no dashboard: it needs a name and panels.");
  return { dashboard: { name, description, variables, panels }, omitted: [] };
}
