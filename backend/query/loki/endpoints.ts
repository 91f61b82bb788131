// All endpoints of Loki's API that answer JSON, in the order of their description. The backend adds a route for each; a sandbox process
// evaluates them.
import type { Add, Endpoint } from "./endpoint-parts.ts";
import { addAmounts, addFields, addLabels } from "./label-endpoints.ts";
import { addQueries } from "./query-endpoints.ts";

export interface DescribedEndpoint {
  readonly summary: string;
  readonly parameters: Record<string, object>;
  readonly endpoint: Endpoint;
}

/** By their path. */
export const ENDPOINTS: ReadonlyMap<string, DescribedEndpoint> = collectEndpoints();

function collectEndpoints(): Map<string, DescribedEndpoint> {
  const endpoints = new Map<string, DescribedEndpoint>();
  const add: Add = (path, summary, parameters, endpoint) => void endpoints.set(path, { summary, parameters, endpoint });
  addQueries(add);
  addLabels(add);
  addAmounts(add);
  addFields(add);
  return endpoints;
}
