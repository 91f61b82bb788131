// The names of services and operations that fields suggest. Only a thousand services are known, so a field accepts other names too.
import type { ApiResponses } from "../../client/api.ts";
import { call, useLoaded, type Loaded } from "../state/index.ts";

type Services = ApiResponses["GET /query/services"];

export function useServices(): Loaded<Services> {
  return useLoaded("services", async (signal) => await call<Services>("/query/services", { signal }));
}

export function operationsOf(services: Services, name: string): string[] {
  return services.find(({ service }) => service === name)?.operations.map(({ operation }) => operation) ?? [];
}
